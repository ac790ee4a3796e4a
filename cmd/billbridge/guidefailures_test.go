package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/translate"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

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
					must(t, err)
					req.Header.Set("Content-Type", "text/plain")
					res, err := http.DefaultClient.Do(req)
					must(t, err)
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
