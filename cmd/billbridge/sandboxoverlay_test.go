package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// With the overlay for the sandbox, v2 partners of a legacy sandbox cause no mismatch and no warning, in reads and in callbacks, whatever
// is paid by.
func TestSandboxWithItsOverlayCausesNoMismatch(t *testing.T) {
	t.Parallel()
	service := sandbox.New(sandbox.Options{Partners: []sandbox.Partner{{Key: "k"}}})
	backend := httptest.NewServer(service)
	t.Cleanup(backend.Close)
	var received atomic.Int64
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		_, _ = w.Write([]byte(`{"code":"0000"}`))
	}))
	t.Cleanup(partner.Close)
	var bridge atomic.Pointer[url.URL] // the gateway's port is not known before it has started
	public := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(bridge.Load()) }})
	t.Cleanup(public.Close)
	folder := t.TempDir()
	proxytest.WriteFile(t, filepath.Join(folder, "sandbox-overlay.yaml"), embeddedText(t, "sandbox-overlay.yaml"))
	g := serve(t, folder, nil, fmt.Sprintf(`listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
table: {overlay: sandbox-overlay.yaml}
upstreams: {old: {form: legacy, url: %q}}
route: {default: old}
store: {url: "sqlite:bridge.db"}
callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: []}
`, backend.URL, public.URL))
	bridge.Store(&url.URL{Scheme: "http", Host: g.partners})

	payments := []sandbox.Payment{
		{Method: "SIMPLE_PAY"},
		{Method: "CARD_VAN", Months: 3},
		{Method: "KEYIN"},
		{Method: "OFFLINE_CARD"},
		{Method: "OFFLINE_CASH", CashReceipt: "personal", CashNumber: "01000000000"},
		{Method: "OFFLINE_CASH", CashReceipt: "business", CashNumber: "0000000000"},
		{Method: "OFFLINE_CASH", CashReceipt: "self"},
	}
	for i, payment := range payments {
		id := fmt.Sprint("BILL", i)
		call := func(operation string) {
			body := operationBody("v2", operation, billRef{"k", id}, "m", false)
			if operation == "create" {
				body = createBody("v2", billRef{"k", id}, partner.URL)
			}
			httpCall(t, http.MethodPost, "http://"+g.partners+operationPath("v2", operation), body)
		}
		call("create")
		call("read")
		works(t)(service.PayWith("k", id, payment))
		call("read")
		call("cancel")
		call("read")
	}
	proxytest.Eventually(t, func() bool { return received.Load() == int64(len(payments)) }, func() string { return fmt.Sprint(received.Load()) })
	_, metrics := httpCall(t, http.MethodGet, "http://"+g.operator+"/metrics", "")
	wrong := regexp.MustCompile(`billbridge_(?:reply_mismatches_total\{.*\}|callbacks_fields_total\{.*what="mismatched".*\}) [1-9].*`)
	if found := wrong.FindAllString(metrics, -1); found != nil {
		t.Errorf("%q", found)
	}
	if found := regexp.MustCompile(`billbridge_requests_total\{.*code="0000".*\} [1-9].*`).FindAllString(metrics, -1); len(found) != 3 {
		t.Errorf("creates, reads and cancels: %q", found)
	}
	if errs := g.all("stderr"); regexp.MustCompile(`"level":"(WARN|ERROR)"`).MatchString(errs) {
		t.Errorf("warnings:\n%s", errs)
	}
}
