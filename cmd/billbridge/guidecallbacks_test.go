package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Callbacks are what the guide says: the fields of a read in the partner's form, repeated with the same id until the partner answers as the
// guide says, for a partner whose every 2xx counts after one attempt.
func TestGuideSaysHowCallbacksAreAnswered(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		for _, success := range []string{"documented", "any-2xx"} {
			t.Run(form+" "+success, func(t *testing.T) {
				t.Parallel()
				service := sandbox.New(sandbox.Options{})
				t.Cleanup(func() { _ = service.Close() })
				backend := httptest.NewServer(service)
				t.Cleanup(backend.Close)
				server := httptest.NewUnstartedServer(nil)
				c := proxytest.Config(t, fmt.Sprintf(`
upstreams: {up: {form: v2, url: %q}}
store: {url: "sqlite:%s"}
callbacks: {public_url: "http://%s", allow: [127.0.0.0/8], ports: [], schedule: [0s, 0s, 24h]}
partners: {%s: {name: Hana, callbacks: {success: %s}}}
`, backend.URL, filepath.Join(t.TempDir(), "store.db"), server.Listener.Addr(), partner.Of("demo-partner-key"), success))
				g := newGuide(c, translate.Form(form), &c.Partners[0])
				opened := proxytest.Open(t, c.Store.URL.Reveal())
				relayed := relay.New(c, relay.Options{Store: opened})
				gateway, err := proxy.New(c, proxy.Options{Relay: relayed})
				must(t, err)
				server.Config.Handler = gateway
				server.Start()
				t.Cleanup(func() { server.Close(); gateway.Close() })
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { relayed.Run(ctx); close(ended) }()
				t.Cleanup(func() { stop(); <-ended })

				type attempt struct{ method, id, body string }
				attempts := make(chan attempt, 10)
				receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					attempts <- attempt{r.Method, r.Header.Get("webhook-id"), string(body)}
					answer := string(c.Table.Callback().Answer(g.Form))
					if len(attempts) == 1 {
						answer = `{}`
					}
					_, _ = io.WriteString(w, answer)
				}))
				t.Cleanup(receiver.Close)

				address := "bill.callbackUrl"
				if form == "legacy" {
					address = "bill.callbackURL"
				}
				create := strings.NewReplacer("YOUR-KEY", "demo-partner-key", "YOUR-MEMBER", "demo-member", "YOUR-STORE", "demo-store").Replace(g.ExampleCreate)
				create, _ = sjson.Set(create, address, receiver.URL)
				res, err := http.Post(server.URL+c.Table.Operation("bill.create").Path(g.Form), "application/json", strings.NewReader(create))
				must(t, err)
				answer, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if gjson.GetBytes(answer, "code").String() != g.Table.SuccessCode(g.Form) {
					t.Fatalf("the create: %s", answer)
				}
				must(t, service.Pay("demo-partner-key", "12345678900000000001"))
				var last store.Callback
				proxytest.Eventually(t, func() bool {
					page, err := opened.Page(t.Context(), store.Filter{Limit: 10})
					must(t, err)
					for _, last = range page.Callbacks {
						return last.State == store.Delivered
					}
					return false
				}, func() string { return fmt.Sprintf("not delivered: %+v", last) })
				want := 2
				if g.Success() == "any-2xx" {
					want = 1
				}
				if len(attempts) != want || last.Attempts != want {
					t.Fatalf("%d attempts, and %d in the store; the guide says that the success is %s", len(attempts), last.Attempts, g.Success())
				}
				for id := ""; len(attempts) > 0; {
					a := <-attempts
					if a.method != c.Table.Callback().Method() || a.id == "" || id != "" && a.id != id {
						t.Errorf("the attempt is %s, webhook-id %q after %q", a.method, a.id, id)
					}
					if id = a.id; gjson.Get(a.body, g.StateField).String() != "F" {
						t.Errorf("no %s at the top level of %s", g.StateField, a.body)
					}
				}
			})
		}
	}
}
