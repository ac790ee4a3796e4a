package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// An upstream that reports a success with a code of its own: callers get the code of their form, and the code that
// the table has for a success is no success of this upstream.
func TestUpstreamWithItsOwnCodeOfASuccess(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, form string) {
		code := "00"
		text := map[string]string{"v2": `{"code":"%s","message":"ok","data":{"billId":"` + demoBill + `"}}`, "legacy": `{"code":"%s","msg":"ok","bill_id":"` + demoBill + `"}`}[form]
		back := newBackendFunc(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, text, code) })
		b := newGateway(t, fmt.Sprintf("upstreams: {up: {form: %s, url: %q, success: \"00\"}}\n", form, back.url))
		destroy := newCall(client, "destroy")
		if got := b.send(destroy); got.status != 200 || !strings.Contains(got.body, `"code":"0000"`) || !strings.Contains(got.body, demoBill) {
			t.Errorf("%d %s", got.status, got.body)
		}
		code = "0000"
		if got := b.send(destroy); got.status != 502 || !strings.Contains(got.body, `"code":null`) {
			t.Errorf("a code that is not its own: %d %s", got.status, got.body)
		}
		code = "BILL_006"
		if got := b.send(destroy); got.status != 200 || !strings.Contains(got.body, `"code":"BILL_006"`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// overlayFile writes an overlay, and returns the section of the config that names it.
func overlayFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	proxytest.WriteFile(t, file, text)
	return fmt.Sprintf("table: {overlay: %q}\n", file)
}

// The requests of this operation do not name the partner.
const unnamed = "operations: {points.left: {new: true, v2: /read/points, legacy: /if/read/points, effect: read, request: [{v2: shop, legacy: shop}], reply: [{v2: points, legacy: points}]}}\n"

// Limits of a partner do not apply to calls that name none: they would limit all callers together.
func TestNoPartnerLimitWithoutAPartner(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"0000","message":"ok","data":{}}`))
	b := newGatewayTo(t, "v2", back, "limits: {partner: {rate: 0.1, burst: 1}}", overlayFile(t, unnamed))
	for range 5 {
		if got := b.post("/read/points", `{"shop":"s"}`); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	b.post("/bill/read", v2("read").body())
	if got := b.post("/bill/read", v2("read").body()); got.status != 503 {
		t.Errorf("a second call of a partner: %d %s", got.status, got.body)
	}
}

// A read that names no bill goes to the backend of the stage, and with route: default to the default upstream in
// every stage. It is not compared.
func TestReadWithoutABillGoesByTheStage(t *testing.T) {
	t.Parallel()
	for stage, toNew := range map[string]bool{"old": false, "shadow": false, "new": true, "drained": true} {
		for _, route := range []string{"", "stage", "default"} {
			parallel(t, stage+"/"+route, func(t *testing.T) {
				overlay := "operations: {points.left: {new: true, v2: /read/points, legacy: /if/read/points, effect: read, request: [{common: identity}], reply: [{v2: points, legacy: points}]}}\n"
				if route != "" {
					overlay = strings.Replace(overlay, "effect: read", "effect: read, route: "+route, 1)
				}
				answers := func(string, http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						_, _ = io.WriteString(w, `{"code":"0000","message":"ok","msg":"ok","data":{"points":1},"points":1}`)
					})
				}
				m := newRolloutWith(t, stage, answers, "}\n"+strings.TrimSuffix(overlayFile(t, overlay), "}\n"))
				if got := m.post("/read/points", `{"apiKey":"`+demoKey+`","member":"m","merchant":"s"}`); got.status != 200 || !strings.Contains(got.body, `"points":`) {
					t.Fatalf("%d %s", got.status, got.body)
				}
				if toNew && route != "default" {
					m.checkCalls(t, 0, 1)
				} else {
					m.checkCalls(t, 1, 0)
				}
			})
		}
	}
}

// An operation that changes the last day of a bill moves its end in the ledger.
func TestOperationThatMovesTheEndOfABill(t *testing.T) {
	t.Parallel()
	const overlay = "operations: {bill.extend: {new: true, v2: /bill/extend, legacy: /if/bill/extend, effect: write, " +
		"request: [{common: identity}, {v2: bill.billId, legacy: bill_id, role: bill}, {v2: bill.expireDt, legacy: expire_dt, role: expiry}], reply: []}}\n"
	code := "0000"
	extends := func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/extend") {
				_, _ = io.WriteString(w, `{"code":"`+code+`","msg":"ok"}`)
				return
			}
			service.ServeHTTP(w, r)
		})
	}
	m := newRolloutWith(t, "old", extends, "}\n"+strings.TrimSuffix(overlayFile(t, overlay), "}\n"))
	m.expect(legacy("create"), success)
	ends := func() time.Time {
		row, err := m.store.Owner(t.Context(), partner.Of(demoKey), demoBill)
		must(t, err)
		return row.Ends
	}
	eventually(t, "the bill has no owner", func() bool {
		row, err := m.store.Owner(t.Context(), partner.Of(demoKey), demoBill)
		return err == nil && row.State == store.Owned
	})
	before := ends()
	later := before.AddDate(0, 2, 0)
	extend := func() answer {
		return m.post("/if/bill/extend", `{"apikey":"`+demoKey+`","member":"m","merchant":"s","bill_id":"`+demoBill+`","expire_dt":"`+later.Format(time.DateOnly)+`"}`)
	}
	code = "BILL_006"
	if got := extend(); !strings.Contains(got.body, code) || !ends().Equal(before) {
		t.Errorf("refused: %d %s, the bill ends %s", got.status, got.body, ends())
	}
	code = "0000"
	if got := extend(); !strings.Contains(got.body, code) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	proxytest.Eventually(t, func() bool { return ends().Format(time.DateOnly) >= later.Format(time.DateOnly) }, func() string { return "the bill ends " + ends().String() })
}
