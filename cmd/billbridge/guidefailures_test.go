package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"github.com/tidwall/gjson"
)

// The answers of the gateway itself, and to a call whose outcome is unknown, have the status and code of the guide.
func TestGuideSaysHowTheGatewayFails(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		for _, status := range []string{"own", "always-200"} {
			t.Run(form+" "+status, func(t *testing.T) {
				t.Parallel()
				g := newGuided(t, form, "v2", guideOverlays(t)["pairs"],
					"limits: {body: 4KiB, partner: {rate: 0.1}}\nfailures: {explain: 0s, status: "+status+"}\n"+
						proxytest.Tuned(func(c *config.Config) { c.Limits.Partner.Burst = 20 }))
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
				if lost != http.StatusBadGateway || gjson.Valid(answer) {
					t.Errorf("HTTP %d, %s; the guide says 502 and plain text", lost, answer)
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
