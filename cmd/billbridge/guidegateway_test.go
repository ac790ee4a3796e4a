package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/translate"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// noExplain leaves out the read after an unknown outcome: it would be the last call that the backend got.
const noExplain = "failures: {explain: 0s, cannot_carry: %s}\n"

// A guided is a gateway whose behaviour is compared with its guide, and its backend.
type guided struct {
	*guide
	t       *testing.T
	system  translate.Form
	url     string
	backend atomic.Pointer[http.HandlerFunc]
	last    atomic.Pointer[string] // see sent
}

// newGuided starts a gateway for partners of a form, and a backend of the other or the same form.
func newGuided(t *testing.T, form, system, overlay, more string) *guided {
	t.Helper()
	g := &guided{t: t, system: translate.Form(system)}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent := string(body)
		g.last.Store(&sent)
		r.Body = io.NopCloser(strings.NewReader(sent))
		(*g.backend.Load())(w, r)
	}))
	t.Cleanup(backend.Close)
	file := filepath.Join(t.TempDir(), "overlay.yaml")
	proxytest.WriteFile(t, file, overlay)
	c := proxytest.Config(t, fmt.Sprintf("upstreams: {up: {form: %s, url: %q}}\nbase_path: /base\ntable: {overlay: %q}\n%s",
		system, backend.URL, file, more))
	g.guide = newGuide(c, translate.Form(form), nil)
	g.url = serveGateway(t, c) + "/base"
	return g
}

func serveGateway(t *testing.T, c *config.Config) (url string) {
	t.Helper()
	gateway, err := proxy.New(c, proxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gateway)
	t.Cleanup(func() { server.Close(); gateway.Close() })
	return server.URL
}

// reply makes the backend give one reply from now on.
func (g *guided) reply(body string) {
	g.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
}

func (g *guided) answer(h http.HandlerFunc) { g.backend.Store(&h) }

// sent returns the body that the backend got by the last call, or "".
func (g *guided) sent() string {
	if last := g.last.Load(); last != nil {
		return *last
	}
	return ""
}

// post makes a call, and returns the answer.
func (g *guided) post(path, body string) (status int, answer string, header http.Header) {
	g.t.Helper()
	g.last.Store(nil)
	res, err := http.Post(g.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, string(got), res.Header
}

// expect makes a call and checks status and code of the answer. A legacy read that succeeds has no code.
func (g *guided) expect(what, path, body string, status int, codes ...string) (answer string) {
	g.t.Helper()
	got, answer, _ := g.post(path, body)
	code := gjson.Get(answer, "code")
	if read := gjson.Get(answer, g.StateField); !code.Exists() && read.Exists() {
		code = gjson.Parse(`"` + g.Table.SuccessCode(g.Form) + `"`)
	}
	if got != status || !slices.Contains(codes, code.String()) {
		g.t.Errorf("%s, %s: HTTP %d, %s; the guide says %d, %q", what, path, got, answer, status, codes)
	}
	return answer
}

// document returns a message of an operation in a form, with a value for each field, and the values by path.
func (g *guided) document(o *translate.Operation, message translate.Message, form translate.Form) (doc string, values map[string]string) {
	g.t.Helper()
	values = map[string]string{}
	for _, f := range o.Fields() {
		if f.Message != string(message) || f.From != form || f.Source == "" || values[f.Source] != "" {
			continue
		}
		name := strings.ToLower(f.Source[strings.LastIndexByte(f.Source, '.')+1:])
		value := fmt.Sprintf(`"value-%d"`, len(values))
		switch { // of fields that a reply repeats, that have a list of values, or that are numbers
		case name == "apikey", name == "member", name == "merchant", name == "hash":
			value = `"the-` + name + `"`
		case strings.ReplaceAll(name, "_", "") == "billid":
			value = `"12345678900000000001"`
		case name == "sendtype":
			value = `"TALK"`
		case strings.HasPrefix(name, "callback"):
			value = `"https://partner.example.com/paid"`
		case strings.ReplaceAll(name, "_", "") == "apprstate":
			value = `"F"`
		case f.Detail.String() != "" && f.Class == translate.Exact: // as text or as a number
			value = fmt.Sprintf("%d", 20991231120000+len(values))
			if form == "legacy" {
				value = `"` + value + `"`
			}
		}
		var err error
		if doc, err = sjson.SetRaw(doc, f.Source, value); err != nil {
			g.t.Fatal(err)
		}
		values[f.Source] = strings.Trim(value, `"`)
	}
	return doc, values
}

// success returns the reply of the backend with a result.
func (g *guided) success(o *translate.Operation, result string) string {
	result = cmp.Or(result, "{}")
	if g.system == "v2" {
		return `{"code":"0000","message":"ok","data":` + result + `}`
	}
	if o.Name == "bill.read" {
		return result
	}
	return strings.Replace(`{"code":"0000","msg":"ok",`+strings.TrimPrefix(result, "{"), ",}", "}", 1)
}

// result returns the fields of an answer, in the form of the partner.
func (g *guided) result(answer string) gjson.Result {
	if g.Form == "v2" {
		return gjson.Get(answer, "data")
	}
	return gjson.Parse(answer)
}

// guideOverlays returns tables without and with pairs.
func guideOverlays(t *testing.T) map[string]string {
	return map[string]string{
		"no pairs": "{}\n", "pairs": string(proxytest.ReadFile(t, "testdata/guide/overlay.yaml")),
	}
}

// Every field of a request and of a reply is treated as the guide says, for each pair of forms, with and without pairs of values.
func TestGuideSaysWhatBecomesOfFields(t *testing.T) {
	t.Parallel()
	for _, forms := range [][2]string{{"legacy", "v2"}, {"v2", "legacy"}} {
		for name, overlay := range guideOverlays(t) {
			t.Run(forms[0]+" to "+forms[1]+" "+name, func(t *testing.T) {
				t.Parallel()
				carry := map[string]string{"pairs": "not_found", "no pairs": "refuse"}[name]
				g := newGuided(t, forms[0], forms[1], overlay, fmt.Sprintf(noExplain, carry))
				for _, o := range g.Table.Operations() {
					if o.Path("legacy") != "" {
						g.checkRequest(o)
						g.checkReply(o)
					}
				}
				g.checkValues()
			})
		}
	}
}

// find returns what the guide says of a field of an operation, or nil.
func (g *guided) find(what, call, path string) *guideField {
	list := g.Systems[0].Fields
	i := slices.IndexFunc(list, func(f guideField) bool { return f.What == what && f.Call == call && f.Path == path })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func (g *guided) checkRequest(o *translate.Operation) {
	g.t.Helper()
	call := o.Path(g.Form)
	full, values := g.document(o, translate.Request, g.Form)
	g.reply(g.success(o, ""))
	base := full
	for path := range values {
		refused := g.find("refused", call, path)
		if refused == nil {
			continue
		}
		base, _ = sjson.Delete(base, path)
		if refused.Value != "" {
			base, _ = sjson.SetRaw(base, path, refused.Value)
		}
	}
	if g.post(call, base); g.sent() == "" {
		g.t.Fatalf("%s: nothing was sent for %s", call, base)
	}
	for path, value := range values {
		refused := g.find("refused", call, path)
		if refused != nil {
			body, _ := sjson.Set(base, path, "another value")
			if refused.Value != "" {
				body, _ = sjson.Set(base, path, "URL")
			}
			if g.expect(path, call, body, refused.Status, refused.Code); g.sent() != "" {
				g.t.Errorf("%s: %s was sent, but the guide says that it is refused", call, path)
			}
			continue
		}
		g.post(call, base)
		dropped := g.find("dropped", call, path) != nil
		if arrived := strings.Contains(g.sent(), value); arrived == dropped {
			g.t.Errorf("%s: %s arrives: %v, but the guide says dropped: %v\n%s", call, path, arrived, dropped, g.sent())
		}
	}
	for _, added := range g.Systems[0].Fields {
		if g.post(call, base); added.What == "added" && added.Call == call && gjson.Get(g.sent(), added.Path).Raw != added.Value {
			g.t.Errorf("%s: %s is not %s in %s", call, added.Path, added.Value, g.sent())
		}
	}
	stranger, _ := sjson.Set(base, "stranger", "a-stranger")
	unknown := g.Table.Unknown(translate.Request, g.Form)
	if g.post(call, stranger); unknown != "drop" || g.sent() == "" || strings.Contains(g.sent(), "a-stranger") {
		g.t.Errorf("%s: the guide says that unknown fields are treated by %s, but %q was sent", call, unknown, g.sent())
	}
}

func (g *guided) checkReply(o *translate.Operation) {
	g.t.Helper()
	call := o.Path(g.Form)
	request, values := g.document(o, translate.Request, g.Form)
	for path := range values {
		if f := g.find("refused", call, path); f != nil && f.Value == "" {
			request, _ = sjson.Delete(request, path)
		}
	}
	result, _ := g.document(o, translate.Reply, g.system)
	g.reply(g.success(o, result))
	answer := g.result(g.expect("a success", call, request, http.StatusOK, g.Table.SuccessCode(g.Form)))
	_, wanted := g.document(o, translate.Reply, g.Form)
	for path := range wanted {
		absent := g.find("absent", call, path) != nil
		if has := answer.Get(path).Exists(); has == absent {
			g.t.Errorf("%s: the answer has %s: %v, but the guide says absent: %v\n%s", call, path, has, absent, answer.Raw)
		}
	}
	if o.Name != "bill.create" {
		return
	}
	path := o.PathOf(translate.Reply, "link", g.Form)
	if named := g.find("optional", call, path) != nil; named != (g.system == "legacy") { // the document has no link in legacy
		g.t.Errorf("the guide says that %s can be missing: %v", path, named)
	}
	result, _ = sjson.Delete(result, o.PathOf(translate.Reply, "link", g.system))
	g.reply(g.success(o, result))
	if answer := g.expect("a success without a link", call, request, http.StatusOK, g.Table.SuccessCode(g.Form)); g.result(answer).Get(path).Exists() {
		g.t.Errorf("there is a link in %s", answer)
	}
}

// checkValues checks pairs of values, values without pairs, and the value while nothing was paid, in replies to a read.
func (g *guided) checkValues() {
	g.t.Helper()
	o, s := g.Table.Operation("bill.read"), g.Systems[0]
	request, _ := g.document(o, translate.Request, g.Form)
	result, _ := g.document(o, translate.Reply, g.system)
	theirs := func(path string) string { // the field of the service
		for _, f := range o.Fields() {
			if f.Message == string(translate.Reply) && f.From == g.system && f.Target == path {
				return f.Source
			}
		}
		g.t.Fatalf("no field of the service for %s", path)
		return ""
	}
	read := func(path, value, state string) string {
		reply, _ := sjson.SetRaw(result, theirs(path), value)
		reply, _ = sjson.Set(reply, theirs(g.StateField), state)
		g.reply(g.success(o, reply))
		return g.result(g.expect("a read", o.Path(g.Form), request, http.StatusOK, g.Table.SuccessCode(g.Form))).Get(path).Raw
	}
	said := map[string]bool{}
	for _, f := range s.Fields {
		said[f.What] = true
		switch f.What {
		case "no value":
			for _, zero := range []string{`0`, `""`} {
				if got := read(f.Path, zero, "W"); got != f.Value {
					g.t.Errorf("%s of an unpaid bill is %s for %s, but the guide says %s", f.Path, got, zero, f.Value)
				}
			}
		case "paired":
			for _, pair := range append(f.Pairs, [2]string{`"A_WORD"`, `"A_WORD"`}) {
				if got := read(f.Path, pair[0], "F"); got != pair[1] {
					g.t.Errorf("%s is %s for %s, but the guide says %s", f.Path, got, pair[0], pair[1])
				}
			}
		case "unpaired":
			if got := read(f.Path, `"CARD_VAN"`, "F"); got != `"CARD_VAN"` {
				g.t.Errorf("%s is %s for a word, but the guide says that it arrives as it is", f.Path, got)
			}
		}
	}
	if !said["no value"] || said["paired"] == said["unpaired"] {
		g.t.Errorf("the guide has no values: %+v", s)
	}
}

// Each code of the service arrives as the guide says.
func TestGuideSaysWhichCodesArrive(t *testing.T) {
	t.Parallel()
	for _, forms := range [][2]string{{"legacy", "v2"}, {"v2", "legacy"}, {"legacy", "legacy"}, {"v2", "v2"}} {
		for name, overlay := range guideOverlays(t) {
			t.Run(forms[0]+" to "+forms[1]+" "+name, func(t *testing.T) {
				t.Parallel()
				g := newGuided(t, forms[0], forms[1], overlay, fmt.Sprintf(noExplain, "refuse"))
				o, s := g.Table.Operation("bill.read"), g.Systems[0]
				request, _ := g.document(o, translate.Request, g.Form)
				arrive := map[string]bool{}
				own := []string{"9800", "9980", "9999", "NEW_CODE"}
				for _, code := range slices.Concat(g.Table.Catalogue()[1:], own) {
					want := code
					for _, c := range s.Codes {
						if c.Service == code {
							want = c.Partner
						}
					}
					g.reply(fmt.Sprintf(`{"code":%q,"msg":"no","message":"no","data":null}`, code))
					g.expect("the code "+code, o.Path(g.Form), request, http.StatusOK, want)
					if code != "NEW_CODE" && (code[0] != '9' || g.system == "legacy") {
						arrive[want] = true
					}
				}
				for _, m := range g.Table.Meanings() {
					gone := slices.Contains(s.Codes, guideCode{"", m.Code, m.Means})
					if m.Form == g.Form && gone == arrive[m.Code] {
						t.Errorf("%s occurs: %v, but the guide says gone: %v", m.Code, arrive[m.Code], gone)
					}
				}
				for _, code := range slices.Concat(g.Codes["exists"], g.Codes["not_found"]) {
					if !arrive[code] {
						t.Errorf("no code of the service arrives as %s", code)
					}
				}
			})
		}
	}
}

// The answers of the gateway itself, and to a call whose outcome is unknown, have the status and code of the guide.
func TestGuideSaysHowTheGatewayFails(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		for _, status := range []string{"own", "always-200"} {
			t.Run(form+" "+status, func(t *testing.T) {
				t.Parallel()
				g := newGuided(t, form, "v2", guideOverlays(t)["pairs"],
					"limits: {body: 4KiB, partner: {rate: 0.1, burst: 20}}\nfailures: {explain: 0s, status: "+status+"}\n")
				read, create := g.Table.Operation("bill.read").Path(g.Form), g.Table.Operation("bill.create").Path(g.Form)
				request, _ := g.document(g.Table.Operation("bill.read"), translate.Request, g.Form)
				bill := strings.Replace(g.ExampleCreate, "YOUR-KEY", "the-apikey", 1)
				failure := map[string]guideFailure{}
				for _, f := range g.Answers() {
					failure[f.Case] = f
				}
				expect := func(name, path, body string) {
					t.Helper()
					g.expect(name, path, body, failure[name].Status, failure[name].Code)
				}
				other := "/if/none"
				if form == "v2" {
					other = "/none"
				}
				expect("path", other, request)
				expect("large", read, `{"a":"`+strings.Repeat("a", 4<<10)+`"}`)
				expect("invalid", read, `{"a":1,"a":2}`)
				for name, method := range map[string]string{"method": http.MethodPut, "type": http.MethodPost} {
					req, err := http.NewRequest(method, g.url+read, strings.NewReader(request))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", "text/plain")
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					body, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if f := failure[name]; res.StatusCode != f.Status || gjson.GetBytes(body, "code").String() != f.Code {
						t.Errorf("%s: HTTP %d %s; the guide says %+v", name, res.StatusCode, body, f)
					}
				}

				g.answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
				expect("read lost", read, request)
				lost, answer, _ := g.post(create, bill)
				if text := gjson.Get(answer, g.Table.TextName(g.Form)).Raw; lost != http.StatusBadGateway ||
					strings.Replace(answer, text, `"…"`, 1) != g.Unknown() {
					t.Errorf("HTTP %d, %s; the guide says 502, %s", lost, answer, g.Unknown())
				}

				g.reply(`{"code":"0000","message":"ok","data":{}}`)
				var limited http.Header
				for range 2 * g.Limits.Partner.Burst { // more than one per ten seconds
					if g.post(read, request); g.sent() == "" {
						_, _, limited = g.post(read, request)
						expect("read not sent", read, request)
						expect("not sent", create, bill)
						break
					}
				}
				if limited.Get("Retry-After") == "" {
					t.Errorf("no Retry-After of a call over the limit: %v", limited)
				}
			})
		}
	}
}

// A service that does not answer, and one that cannot be reached, have the answers of the guide.
func TestGuideSaysHowTheServiceFails(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		hangs := proxytest.Config(t, "upstreams: {up: {form: v2, url: \"http://"+proxytest.Listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })+"\", timeout: 50ms}}\nfailures: {explain: 0s}\n")
		down := proxytest.Config(t, "upstreams: {up: {form: v2, url: \"http://127.0.0.2:9\"}}\n")
		for name, c := range map[string]*config.Config{"read late": hangs, "read not sent": down} {
			g := &guided{t: t, system: "v2", guide: newGuide(c, translate.Form(form), nil), url: serveGateway(t, c)}
			o := g.Table.Operation("bill.read")
			request, _ := g.document(o, translate.Request, g.Form)
			i := slices.IndexFunc(g.Answers(), func(f guideFailure) bool { return f.Case == name })
			said := g.Answers()[i]
			g.expect(name, o.Path(g.Form), request, said.Status, said.Code)
			create := g.Table.Operation("bill.create").Path(g.Form)
			if c == hangs {
				g.expect("unknown outcome", create, g.ExampleCreate, http.StatusGatewayTimeout, "")
			} else {
				g.expect("a create that is not sent", create, g.ExampleCreate, said.Status, said.Code)
			}
		}
	}
}

// The test values of the guide have the results that it names, at each form of the service.
func TestGuideTestValues(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		for _, system := range []string{"legacy", "v2"} {
			for name, overlay := range guideOverlays(t) {
				t.Run(form+" "+system+" "+name, func(t *testing.T) {
					t.Parallel()
					g := newGuided(t, form, system, overlay, "")
					options := sandbox.Options{}
					if system == "legacy" {
						options.LegacyCodes = map[string]string{"BILL_003": "9980"}
						if name == "pairs" {
							options.LegacyCodes["BILL_001"] = "9800"
						}
					}
					service := sandbox.New(options)
					t.Cleanup(func() { _ = service.Close() })
					g.answer(service.ServeHTTP)
					mine := strings.NewReplacer("YOUR-KEY", "demo-partner-key", "YOUR-MEMBER", "demo-member", "YOUR-STORE", "demo-store")
					create := mine.Replace(g.ExampleCreate)
					for text, hash := range g.Hashes {
						if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != hash {
							t.Errorf("%s is not the hash of %s", hash, text)
						}
					}
					whole, short := g.Hashes["12345678900000000001,01000000000,20000"], g.Hashes["12345678900000000001,20000"]
					path := func(name string) string { return g.Table.Operation(name).Path(g.Form) }
					wrong := strings.Replace(create, whole, short, 1)
					little := strings.NewReplacer(`"20000"`, `"19999"`, ` 20000,`, ` 19999,`).Replace(create)
					little = strings.Replace(little, whole, sandbox.Hash("12345678900000000001", "01000000000", "19999"), 1)
					g.expect("a wrong hash", path("bill.create"), wrong, 200, g.Code("VALIDATION_002"))
					g.expect("less than 20,000", path("bill.create"), little, 200, g.Code("PAYMENT_005"))
					g.expect("a read of an unknown id", path("bill.read"), about(g, create, ""), 200, g.Codes["not_found"]...)
					g.expect("a create", path("bill.create"), create, 200, g.Table.SuccessCode(g.Form))
					g.expect("the same create again", path("bill.create"), create, 200, g.Codes["exists"]...)
					g.expect("a destroy", path("bill.destroy"), about(g, create, short), 200, g.Table.SuccessCode(g.Form))
					answer := g.expect("a read", path("bill.read"), about(g, create, ""), 200, g.Table.SuccessCode(g.Form))
					if state := g.result(answer).Get(g.StateField).String(); state != "D" {
						t.Errorf("the state is %q in %s", state, answer)
					}
				})
			}
		}
	}
}

// about returns a request about the bill of a create: a destroy if there is a hash, else a read.
func about(g *guided, create, hash string) string {
	bill, price := "bill.", any(20000)
	if g.Form == "legacy" {
		bill, price = "", "20000"
	}
	id := g.Table.Operation("bill.read").PathOf(translate.Request, "bill", g.Form)
	body, _ := sjson.Delete(create, "bill")
	body, _ = sjson.Set(body, id, "12345678900000000001")
	if hash != "" {
		body, _ = sjson.Set(body, bill+"price", price)
		body, _ = sjson.Set(body, bill+"hash", hash)
	}
	return body
}
