package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"github.com/gorilla/mux"
)

// An adminDesk is a server with every section of the admin listener, and tokens that may read and operate.
type adminDesk struct {
	*Server
	t *testing.T
}

func newAdminDesk(t *testing.T, tokens string) *adminDesk {
	t.Helper()
	c, err := config.Parse(translate.File{Name: t.TempDir() + "/billbridge.yaml", Data: []byte(`
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0", ` + tokens + `}
upstreams: {old: {form: legacy, url: "http://127.0.0.2:9"}, new: {form: v2, url: "http://127.0.0.2:9"}}
route: {default: old}
rollout: {old: old, new: new}
callbacks: {public_url: "http://127.0.0.1:1"}
store: {url: "sqlite:store.db"}
`)}, func(string) (string, bool) { return "", false })
	proxytest.Must(t, err)
	s, err := Listen(t.Context(), c, nil, nil, Build{}, slog.New(slog.DiscardHandler))
	proxytest.Must(t, err)
	t.Cleanup(s.closeAll)
	return &adminDesk{s, t}
}

// ask makes a request with a token, or without one for "".
func (d *adminDesk) ask(method, target, token, body string) (status int, text string) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:9090", "127.0.0.1:1000"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	(*d.adminHandler.Load()).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// routes returns every route of the admin listener as METHOD PATH.
func (d *adminDesk) routes() (all []string) {
	d.t.Helper()
	collect := func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := route.GetMethods()
		if err != nil { // the prefix of a section, whose routes follow
			return nil
		}
		for _, method := range methods {
			all = append(all, method+" "+strings.ReplaceAll(path, "{id}", "cb_00112233445566778899aabbccddeeff"))
		}
		return nil
	}
	top := adminRoutes{tokens: d.tokens}.router()
	for _, section := range []http.Handler{top, d.operator.Handler()} {
		if err := section.(*mux.Router).Walk(collect); err != nil {
			d.t.Fatal(err)
		}
	}
	return all
}

const readAndOperate = "tokens: [{name: anna, token: of-anna, may: operate}, {name: wall, token: of-wall, may: read}]"

// With a token that may read, every request that can change something is refused; all others are answered. Without a token, only health and
// readiness are.
func TestReadTokenChangesNothing(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, readAndOperate)
	routes := d.routes()
	if len(routes) < 30 {
		t.Fatalf("only %d routes: %q", len(routes), routes)
	}
	for _, path := range namelessPosts {
		if !slices.Contains(routes, "POST "+path) {
			t.Errorf("there is no route POST %s", path)
		}
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		reads := method == http.MethodGet
		if status, text := d.ask(method, path, "of-wall", ""); reads == (status == http.StatusForbidden) || status == http.StatusUnauthorized {
			t.Errorf("%s with a token that may read: %d %s", route, status, text)
		}
		if status, text := d.ask(method, path, "", ""); (status == http.StatusUnauthorized) != (path != "/-/healthy" && path != "/-/ready") {
			t.Errorf("%s without a token: %d %s", route, status, text)
		}
	}
	for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "FOO"} {
		if status, _ := d.ask(method, "/rollout/stop", "of-wall", ""); status != http.StatusForbidden {
			t.Errorf("%s with a token that may read: %d", method, status)
		}
	}
	var audit []operate.Change
	_, text := d.ask("GET", "/audit", "of-wall", "")
	if err := json.Unmarshal([]byte(text), &audit); err != nil || len(audit) != 0 {
		t.Errorf("the audit log has %s, %v", text, err)
	}
}

// With a token that may operate no request is refused for the token.
func TestOperateTokenIsLetThrough(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, readAndOperate)
	for _, route := range d.routes() {
		method, path, _ := strings.Cut(route, " ")
		status, text := d.ask(method, path, "of-anna", "")
		if status == http.StatusUnauthorized || status == http.StatusForbidden || strings.Contains(text, "by must be") || strings.Contains(text, "parameter by is required") {
			t.Errorf("%s: %d %s", route, status, text)
		}
	}
}

// The name in the audit log is that of the token. Another one is refused. A token without a name takes the name that the caller gives.
func TestAuditHasTheNameOfTheToken(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, `token: nameless, tokens: [{name: anna, token: of-anna, may: operate}, {name: b.lee@hana, token: of-ben, may: operate}]`)
	for _, row := range []struct {
		token, target string
		status        int
		says          string
	}{
		{"of-anna", "/rollout/stop?by=ben", 400, "the audit log has the name of the token, which is anna: leave out by (--by)"},
		{"of-anna", "/rollout/stop?by=anna&by=ben", 400, "the audit log has the name of the token"},
		{"of-anna", "/rollout/stop?by=", 400, "the audit log has the name of the token"},
		{"nameless", "/rollout/stop", 400, "by must be your name"},
		{"of-anna", "/rollout/stop?force=" + moves.JoinKinds(moves.ReasonKinds), 200, `"by":"anna"`},
		{"of-ben", "/rollout/resume", 200, `"by":"b.lee@hana"`},
		{"of-anna", "/rollout/stop?by=anna&by=anna", 400, "by is given more than once"},
		{"of-anna", "/rollout/stop?by=anna", 200, `"by":"anna"`},
		{"nameless", "/rollout/resume?by=kim", 200, `"by":"kim"`},
		{"of-anna", "/rollout/read?bill=B1", 400, "partner is missing"},
		{"of-anna", "/callbacks/drop?bill=B1", 200, `"over":true`},
		{"of-anna", "/callbacks/drop?bill=B1&by=kim", 400, "the audit log has the name of the token"},
		{"of-anna", "/store/clock", 200, `"offset_seconds"`},
		{"of-anna", "/rollout/stop?a;b", 400, "the query cannot be read"},
	} {
		if status, text := d.ask("POST", row.target, row.token, ""); status != row.status || !strings.Contains(text, row.says) {
			t.Errorf("%s %s: %d %s, want %d %s", row.token, row.target, status, text, row.status, row.says)
		}
	}
	var log []string
	var audit []operate.Change
	_, text := d.ask("GET", "/audit", "of-ben", "")
	if err := json.Unmarshal([]byte(text), &audit); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, c := range audit {
		log = append(log, c.Action+" "+c.By)
	}
	if want := []string{"clock anna", "resume kim", "stop anna", "resume b.lee@hana", "stop anna"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
}

// Reloads, changed tokens, sign-ins and backups are in the audit log, under the name of the token or of what asked.
func TestAuditLogHasWhatIsDoneToTheGateway(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, "token: nameless, "+readAndOperate)
	c := *d.current.Load()
	var refused error
	d.load = func() (*config.Config, error) { return &c, refused }
	for _, token := range []string{"wrong", "of-wall", "nameless"} {
		r := httptest.NewRequest("POST", "/sign-in", strings.NewReader("token="+token))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		d.console.ServeHTTP(httptest.NewRecorder(), r)
	}
	d.ask("POST", "/-/reload", "of-anna", "")
	refused = errors.New("a mistake")
	d.ask("POST", "/-/reload", "nameless", "")
	refused = nil
	c.Admin.Tokens = []config.AdminToken{
		{Name: "anna", Token: config.NewSecret("another"), May: config.Operate},
		{Name: "wall", Token: config.NewSecret("of-wall"), May: config.Read},
		{Name: "ben", Token: config.NewSecret("of-ben"), May: config.Read},
	}
	proxytest.Must(t, d.Reload())
	more := slices.Clone(c.Admin.Tokens)
	more[1].May = config.Operate // the same name with more rights
	c.Admin.Tokens = more
	proxytest.Must(t, d.Reload())
	d.ask("POST", "/store/backup?file=copy.db", "another", "")
	if status, text := d.ask("POST", "/store/backup?file=copy.db", "nameless", ""); status != 400 || !strings.Contains(text, "by must be your name") {
		t.Errorf("a backup without a name: %d %s", status, text)
	}
	var audit []operate.Change
	_, text := d.ask("GET", "/audit", "of-wall", "")
	if err := json.Unmarshal([]byte(text), &audit); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var log []string
	for _, e := range audit {
		log = append(log, strings.Join([]string{e.Action, e.By, e.Subject, e.From, e.To}, "|"))
	}
	want := []string{
		"backup|anna|copy.db||", "tokens|SIGHUP||wall|wall", "reload|SIGHUP|||", "tokens|SIGHUP||anna|anna, ben", "reload|SIGHUP|||", "reload|admin listener|||refused", "reload|anna|||",
		"sign_in|admin.token|||", "sign_in|wall|||",
	}
	proxytest.Equal(t, log, want)
}

// The gateway says whom it takes the caller for.
func TestIdentityOfACaller(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, "token: nameless, "+readAndOperate)
	for token, want := range map[string]string{
		"of-anna": `{"name":"anna","may":"operate"}`, "of-wall": `{"name":"wall","may":"read"}`, "nameless": `{"name":"","may":"operate"}`,
	} {
		if status, text := d.ask("GET", "/-/identity", token, ""); status != 200 || text != want+"\n" {
			t.Errorf("%s: %d %s", token, status, text)
		}
	}
	without := newAdminDesk(t, "tokens: []")
	if status, text := without.ask("GET", "/-/identity", "", ""); status != 200 || text != `{"name":"","may":"operate"}`+"\n" {
		t.Errorf("without tokens: %d %s", status, text)
	}
	if status, _ := without.ask("POST", "/rollout/stop?by=kim", "", ""); status != 200 {
		t.Errorf("a change without tokens: %d", status)
	}
}

// The tokens of a reload count from then on. The last one cannot be removed while the listener is not on loopback.
func TestTokensOfAReload(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, readAndOperate)
	first := d.current.Load()
	use := func(tokens ...config.AdminToken) {
		c := *first
		c.Admin.Tokens = tokens
		d.apply(&c)
	}
	want := func(token, target string, status int) {
		t.Helper()
		if got, text := d.ask("POST", target, token, ""); got != status {
			t.Errorf("%s: %d %s, want %d", token, got, text, status)
		}
	}
	want("of-anna", "/rollout/stop", 200)
	use(config.AdminToken{Name: "anna", Token: config.NewSecret("another"), May: config.Operate}, config.AdminToken{Name: "wall", Token: config.NewSecret("of-wall"), May: config.Operate})
	want("of-anna", "/rollout/resume", 401)
	want("of-wall", "/rollout/resume", 200)
	want("another", "/rollout/stop", 200)
	use()
	want("", "/rollout/resume?by=kim", 200)

	c := *d.current.Load()
	c.Admin.Tokens = nil
	if err := d.checkTokens(&c); err != nil {
		t.Errorf("no token on loopback: %v", err)
	}
	served := d.adminListener
	d.adminListener, d.load = listenAnywhere(t), func() (*config.Config, error) { return &c, nil }
	if err := d.Reload(); err == nil || !strings.HasPrefix(err.Error(), "admin.token is not set, and the admin socket listens on ") {
		t.Errorf("a reload without a token on an open address: %v", err)
	}
	d.adminListener = served
	open := &Server{adminSide: adminSide{adminListener: listenAnywhere(t)}}
	if err := open.checkTokens(&c); err == nil || !strings.Contains(fmt.Sprint(err), "set admin.token or admin.tokens in the config") {
		t.Errorf("no token on an open address: %v", err)
	}
	if err := open.checkTokens(first); err == nil || !strings.HasPrefix(err.Error(), "admin.tokens[0].token has fewer than 16 characters") {
		t.Errorf("short tokens on an open address: %v", err)
	}
	c.Admin.Tokens = []config.AdminToken{{Name: "anna", Token: config.NewSecret("0123456789abcdef"), May: config.Operate}}
	if err := open.checkTokens(&c); err != nil {
		t.Errorf("named tokens on an open address: %v", err)
	}
}
