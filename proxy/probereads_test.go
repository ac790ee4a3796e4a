package proxy_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// An overlay adds a read with role: bill in one form or in both. Probes still use bill.read. With the added read every
// read of an unknown bill panicked, and creates were not sent.
func TestOverlayReadIsNotUsedForProbes(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{
		"in one form":   `v2: /bill/check, effect: read, request: [{v2: apiKey, role: partner}, {v2: bill.billId, role: bill}], reply: [{v2: billId}]`,
		"in both forms": `v2: /bill/check, legacy: /if/bill/check, effect: read, request: [{v2: apiKey, legacy: apikey, role: partner}, {v2: bill.billId, legacy: bill_id, role: bill}], reply: [{v2: billId, legacy: bill_id}]`,
	} {
		parallel(t, name, func(t *testing.T) {
			overlay := filepath.Join(t.TempDir(), "mine.yaml")
			proxytest.WriteFile(t, overlay, "operations: {bill.check: {new: true, "+second+"}}")
			m := newRolloutWith(t, "new", noFront,
				"}\ntable: {overlay: "+overlay) // after the end of the section rollout
			for _, client := range forms {
				m.expect(newCall(client, "read"), noSuchBill)
			}
			m.expect(legacy("create"), success)
			equal(t, len(m.fresh.Bills()), 1)
			m.expect(legacy("read"), success)
			for _, b := range []*backend{m.oldCalls, m.newCalls} {
				for _, got := range b.received() {
					if strings.HasSuffix(got.target, "/check") {
						t.Errorf("a bill was read with %s", got.target)
					}
				}
			}
			checkText(t, m.logs.String(), "!panic")
		})
	}
}

// A read that an overlay adds can succeed without the state of the bill. Only a state shows that a bill with an
// unknown create exists.
func TestReadWithoutAStateDoesNotShowTheBill(t *testing.T) {
	t.Parallel()
	overlay := filepath.Join(t.TempDir(), "mine.yaml")
	must(t, os.WriteFile(overlay, []byte("operations: {bill.check: {new: true, v2: /bill/check, legacy: /if/bill/check, effect: read, "+
		"request: [{v2: apiKey, legacy: apikey, role: partner}, {v2: bill.billId, legacy: bill_id, role: bill}], reply: [{v2: valid, legacy: valid}]}}"), 0o600))
	m := newRolloutWith(t, "new", func(_ string, service http.Handler) http.Handler {
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
	m.expect(v2("create"), unknown)
	got := m.post("/bill/check", `{"apiKey":"`+demoKey+`","bill":{"billId":"`+demoBill+`"}}`)
	if got.status != 200 || !strings.Contains(got.body, `"valid":"Y"`) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	id := partner.Of(demoKey)
	m.send(v2("read").with("billId", "another")) // on the same connection, so the previous call is recorded
	if row, err := m.store.Owner(t.Context(), id, demoBill); err != nil || row.State != store.Pending || row.Upstream != "new" {
		t.Errorf("the ledger has %+v, %v", row, err)
	}
}
