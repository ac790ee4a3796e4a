package main

import (
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
	must(g.t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	must(g.t, err)
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

// guideOverlays returns tables without and with pairs, and where other words are null.
func guideOverlays(t *testing.T) map[string]string {
	pairs := string(proxytest.ReadFile(t, "testdata/guide/overlay.yaml"))
	return map[string]string{
		"no pairs": "{}\n", "pairs": pairs,
		"pairs, else null":    strings.Replace(pairs, "CARD_VAN}", "CARD_VAN}, {v2: null, legacy: other}", 1),
		"no pairs, else null": "operations: {bill.read: {reply: {apprPayType: {values: [{v2: null, legacy: other}]}}}}\n",
	}
}

// Each code of the service arrives as the guide says.
func TestGuideSaysWhichCodesArrive(t *testing.T) {
	t.Parallel()
	for _, forms := range [][2]string{{"legacy", "v2"}, {"v2", "legacy"}, {"legacy", "legacy"}, {"v2", "v2"}} {
		for name, overlay := range guideOverlays(t) {
			t.Run(forms[0]+" to "+forms[1]+" "+name, func(t *testing.T) {
				t.Parallel()
				g := newGuided(t, forms[0], forms[1], overlay, "failures: {explain: 0s}\n")
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
