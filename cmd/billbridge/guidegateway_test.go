package main

import (
	"cmp"
	"fmt"
	"io"
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
	must(t, err)
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

// guideOverlays returns tables without and with pairs, and where other words are null.
func guideOverlays(t *testing.T) map[string]string {
	pairs := string(proxytest.ReadFile(t, "testdata/guide/overlay.yaml"))
	return map[string]string{
		"no pairs": "{}\n", "pairs": pairs,
		"pairs, else null":    pairs + "        otherwise: null\n",
		"no pairs, else null": "operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type, otherwise: null}]}}\n",
	}
}

// Every field of a request and of a reply is treated as the guide says, for each pair of forms, with and without pairs of values.
func TestGuideSaysWhatBecomesOfFields(t *testing.T) {
	t.Parallel()
	for _, forms := range [][2]string{{"legacy", "v2"}, {"v2", "legacy"}} {
		for name, overlay := range guideOverlays(t) {
			t.Run(forms[0]+" to "+forms[1]+" "+name, func(t *testing.T) {
				t.Parallel()
				carry := map[bool]string{true: "not_found", false: "refuse"}[name == "pairs"]
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
	other := func(f guideField) string { // a word without a pair, as the guide says
		if f.Value == "null" {
			return "null"
		}
		return `"A_WORD"`
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
			for _, pair := range append(f.Pairs, [2]string{`"A_WORD"`, other(f)}) {
				if got := read(f.Path, pair[0], "F"); got != pair[1] {
					g.t.Errorf("%s is %s for %s, but the guide says %s", f.Path, got, pair[0], pair[1])
				}
			}
		case "unpaired":
			if got := read(f.Path, `"CARD_VAN"`, "F"); got != strings.Replace(other(f), "A_WORD", "CARD_VAN", 1) {
				g.t.Errorf("%s is %s for a word, but the guide says %s", f.Path, got, other(f))
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
