package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// A config of each case passes check and serves: calls of each form, callbacks, and a partner that moves one stage.
func TestInitOfEachCase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      string
		legacy    bool // the backend has the form legacy
		callbacks bool
		flags     []string
	}{
		{kind: "pass-through", legacy: true, flags: []string{"--form", "legacy"}},
		{kind: "pass-through"},
		{kind: "translate"},
		{kind: "callbacks", callbacks: true},
		{kind: "migration", legacy: true, callbacks: true},
	} {
		t.Run(fmt.Sprint(c.kind, c.legacy), func(t *testing.T) {
			t.Parallel()
			_, backend, control := launchSandbox(t)
			_, other, _ := launchSandbox(t)
			delivered := make(chan string, 10)
			partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				delivered <- r.URL.Path
				_, _ = w.Write([]byte(`{"code":"0000"}`))
			}))
			t.Cleanup(partner.Close)
			var at atomic.Pointer[url.URL] // of the gateway, which is not running yet
			public := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at.Load()) }})
			t.Cleanup(public.Close)

			dir := t.TempDir()
			args := append([]string{"init", "--case", c.kind}, c.flags...)
			if c.callbacks {
				args = append(args, "--public-url", public.URL)
			}
			if c.kind == "migration" {
				args = append(args, "--old", backend, "--new", other)
			} else {
				args = append(args, "--new", backend)
			}
			said := runIn(t, dir, args...)
			file := filepath.Join(dir, "billbridge.yaml")
			for _, want := range []string{"billbridge.yaml was written", "billbridge check --config billbridge.yaml", "billbridge serve --config billbridge.yaml"} {
				if !strings.Contains(said, want) {
					t.Errorf("init does not say %q:\n%s", want, said)
				}
			}
			if got := runIn(t, dir, "check", "--config", "billbridge.yaml"); !strings.HasPrefix(got, "billbridge.yaml: ok\n") {
				t.Errorf("check says %s", got)
			}
			text := proxytest.ReadFile(t, file)
			const optional = "# allow: [10.20.0.0/16]" // the partner of this test has a loopback address
			if c.callbacks != strings.Contains(string(text), optional) {
				t.Errorf("callbacks in the config: %v", !c.callbacks)
			}
			private := strings.Replace(string(text), optional, "allow: [127.0.0.0/8]\n  ports: []", 1)
			gateway := serve(t, dir, nil, private, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
			admin := []string{"--admin", "http://" + gateway.operator, "--by", "anna"}
			if c.kind == "migration" {
				runIn(t, dir, append([]string{"rollout", "begin"}, admin...)...)
			}
			gatewayURL := "http://" + gateway.partners
			at.Store(&url.URL{Scheme: "http", Host: gateway.partners})

			for i, create := range []string{
				`/if/bill/send {"apikey":"demo-partner-key","member":"m","merchant":"s","bill":{"bill_id":"%s","price":"20000","hash":"%s","callbackURL":"%s"}}`,
				`/bill {"apiKey":"demo-partner-key","member":"m","merchant":"s","bill":{"billId":"%s","sendType":"TALK","price":20000,"hash":"%s","callbackUrl":"%s"}}`,
			} {
				path, format, _ := strings.Cut(create, " ")
				bill := fmt.Sprintf("1234567890000000000%d", i)
				body := fmt.Sprintf(format, bill, sandbox.Hash(bill, "", "20000"), partner.URL+"/paid/"+bill)
				if status, answer := httpCall(t, http.MethodPost, gatewayURL+path, body); status != http.StatusOK || !strings.Contains(answer, `"code":"0000"`) {
					t.Fatalf("create at %s: %d %s", path, status, answer)
				}
				if status, answer := httpCall(t, http.MethodPost, control+"/bills/"+bill+"/pay", ""); status != http.StatusOK {
					t.Fatalf("pay: %d %s", status, answer)
				}
				select {
				case got := <-delivered:
					if got != "/paid/"+bill {
						t.Errorf("a callback came to %s", got)
					}
				case <-time.After(patience):
					t.Fatal("no callback was delivered")
				}
			}
			if c.kind != "migration" {
				return
			}
			moved := runIn(t, dir, append([]string{"rollout", "next", "--partner", "5f7b2ed74a97", "--force", "settling"}, admin...)...)
			if !strings.HasPrefix(moved, "5f7b2ed74a97: canary 10%, was old, forced settling\n") {
				t.Errorf("rollout next says %s", moved)
			}
		})
	}
}

// launchSandbox starts a sandbox and returns its URL for partners and that of its control API.
func launchSandbox(t *testing.T, args ...string) (p *process, partners, control string) {
	t.Helper()
	p = launchInTempDir(t, append([]string{"sandbox", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"}, args...)...)
	line, err := p.await("stdout", `^  partners +(?P<url>\S+)$`)
	must(t, err)
	second, err := p.await("stdout", `^  control +(?P<url>http://[^ /]+)`)
	must(t, err)
	return p, line["url"], second["url"]
}

// runIn runs a command to its end in a folder and returns its output.
func runIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	p, err := launch(dir, "billbridge", args...)
	must(t, err)
	if code, err := p.end(); code != exitOK || err != nil {
		t.Fatalf("%q: %d, %v\n%s", args, code, err, p.all("stdout", "stderr"))
	}
	return p.all("stdout")
}
