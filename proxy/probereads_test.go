package proxy_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// An overlay adds a read with role: bill in one form or in both. Probes still use bill.read. With the added read every
// read of an unknown bill panicked, and creates were not sent.
func TestOverlayReadIsNotUsedForProbes(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{
		"in one form":   `v2: /bill/check, effect: read, request: [{v2: apiKey, role: partner}, {v2: bill.billId, role: bill}], reply: [{v2: billId}]`,
		"in both forms": `v2: /bill/check, legacy: /if/bill/check, effect: read, request: [{v2: apiKey, legacy: apikey, role: partner}, {v2: bill.billId, legacy: bill_id, role: bill}], reply: [{v2: billId, legacy: bill_id}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overlay := filepath.Join(t.TempDir(), "mine.yaml")
			proxytest.WriteFile(t, overlay, "operations: {bill.check: {new: true, "+second+"}}")
			m := newRolloutWith(t, "legacy", "v2", "new", func(_ string, service http.Handler) http.Handler { return service },
				"}\ntable: {overlay: "+overlay) // after the end of the section rollout
			for _, client := range forms {
				m.send(newCall(client, "read")).check(t, client, 200, "BILL_003")
			}
			m.send(newCall("legacy", "create")).check(t, "legacy", 200, "0000")
			if n := len(m.fresh.Bills()); n != 1 {
				t.Errorf("%d bills at the new backend", n)
			}
			m.send(newCall("legacy", "read")).check(t, "legacy", 200, "0000")
			for _, b := range []*backend{m.oldCalls, m.newCalls} {
				for _, got := range b.received() {
					if strings.HasSuffix(got.target, "/check") {
						t.Errorf("a bill was read with %s", got.target)
					}
				}
			}
			if text := m.logs.String(); strings.Contains(text, "panic") {
				t.Error(text)
			}
		})
	}
}

// After a panic in a probe it is unknown whether the other backend has the bill. Nothing is sent and the caller gets
// 503.
func TestPanicInAProbeSendsNothing(t *testing.T) {
	t.Parallel()
	old, fresh := newBackend(t, newService()), newBackend(t, newService())
	opened := proxytest.BeginRollout(t, "memory:", partner.Of(demoKey))
	if err := opened.SetStage(t.Context(), store.Stage{Stage: "new", By: "test", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	c := parse(t, fmt.Sprintf("upstreams: {old: {form: legacy, url: %q}, new: {form: v2, url: %q}}\nroute: {default: old}\n"+
		"store: {url: sqlite:unused.db}\nrollout: {old: old, new: new}\n", old.url, fresh.url))
	b := &gateway{t: t, logs: &proxytest.Log{}, registry: prometheus.NewRegistry()}
	logger := slog.New(slog.NewJSONHandler(b.logs, nil))
	router, err := rollout.New(t.Context(), c, rollout.Options{Store: opened, Registerer: b.registry, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if b.Gateway, err = proxy.New(c, proxy.Options{Registerer: b.registry, Logger: logger, Rollout: router}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b.Gateway)
	t.Cleanup(server.Close)
	b.url, b.client = server.URL, newClient(t, nil)

	b.WrapCalls("old", func(proxy.UpstreamCall, func()) error { panic(canaryKey) })
	for n, client := range forms {
		got := b.send(newCall(client, "create"))
		got.check(t, client, 503, "MAINTAINED_METHOD")
		b.checkMetrics(fmt.Sprintf(`billbridge_rollout_refused_total{reason="unclear"} %d`, n+1))
		if text := b.logs.String() + got.body; strings.Contains(text, canaryKey) || strings.Count(text, "panic in a probe") != n+1 {
			t.Errorf("the log is %s", text)
		}
	}
	if n := len(fresh.received()); n != 0 {
		t.Errorf("%d calls at the new backend", n)
	}
	// The bill is not blocked: it is created once the old backend answers.
	b.DoNotWrapCalls("old")
	b.send(newCall("legacy", "create")).check(t, "legacy", 200, "0000")
}

// A read that an overlay adds can succeed without the state of the bill. Only a state shows that a bill with an unknown
// create exists.
func TestReadWithoutAStateDoesNotShowTheBill(t *testing.T) {
	t.Parallel()
	overlay := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(overlay, []byte("operations: {bill.check: {new: true, v2: /bill/check, legacy: /if/bill/check, effect: read, "+
		"request: [{v2: apiKey, legacy: apikey, role: partner}, {v2: bill.billId, legacy: bill_id, role: bill}], reply: [{v2: valid, legacy: valid}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newRolloutWith(t, "legacy", "v2", "new", func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/bill":
				panic(http.ErrAbortHandler)
			case "/bill/check":
				replyWith(200, `{"code":"0000","message":"ok","data":{"valid":"Y"}}`).ServeHTTP(w, r)
			default:
				service.ServeHTTP(w, r)
			}
		})
	}, "}\ntable: {overlay: "+overlay)
	m.send(newCall("v2", "create")).check(t, "v2", unknown.status, unknown.code)
	got, err := doRequest(m.client, http.MethodPost, "http://"+m.Address()+"/bill/check", `{"apiKey":"`+demoKey+`","bill":{"billId":"`+demoBill+`"}}`)
	if err != nil || got.status != 200 || !strings.Contains(got.body, `"valid":"Y"`) {
		t.Fatalf("%v, %d %s", err, got.status, got.body)
	}
	id := partner.Of(demoKey)
	m.send(newCall("v2", "read").with("billId", "another")) // on the same connection, so the previous call is recorded
	if row, err := m.store.Owner(t.Context(), id, demoBill); err != nil || row.State != store.Pending || row.Upstream != "new" {
		t.Errorf("the ledger has %+v, %v", row, err)
	}
}
