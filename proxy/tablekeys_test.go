package proxy_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
)

// overlayFile is overlayPath in the section of the config that names it.
func overlayFile(t *testing.T, text string) string {
	t.Helper()
	return fmt.Sprintf("table: {overlay: %q}\n", overlayPath(t, text))
}

// overlayAfter is overlayFile at the end of the section rollout, for newRolloutWith.
func overlayAfter(t *testing.T, text string) string {
	t.Helper()
	return "}\n" + strings.TrimSuffix(overlayFile(t, text), "}\n")
}

// withStatus is a table whose form v2 has HTTP statuses with a meaning.
const withStatus = "forms: {v2: {status: {402: PAYMENT_003, 404: BILL_003}}}"

// If the reply to a probe answers the call, it has the status that the caller's form has for its code.
func TestAnswerOfAProbeHasTheStatusOfTheForm(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"old", "new"} {
		parallel(t, stage, func(t *testing.T) {
			gone := func(backend string, service http.Handler) http.Handler {
				if backend == "new" {
					return replyWith(404, `{"code":"BILL_003","message":"none","data":null}`)
				}
				return service
			}
			play(newRolloutWith(t, stage, gone, overlayAfter(t, withStatus)), `
404:BILL_003 v2 read,destroy
200:BILL_003 legacy read,destroy
`)
		})
	}
}

// The requests of this operation do not name the partner.
const unnamed = "operations: {+points.left: {v2: /read/points, legacy: /if/read/points, effect: read, request: {shop: shop}, reply: {points: points}}}\n"

// Limits of a partner do not apply to calls that name none: they would limit all callers together.
func TestNoPartnerLimitWithoutAPartner(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"0000","message":"ok","data":{}}`))
	b := newGatewayTo(t, "v2", back, "limits: {partner: {rate: 0.1}}", overlayFile(t, unnamed))
	for range 5 {
		b.post("/read/points", `{"shop":"s"}`).is(t, 200)
	}
	b.send(v2("read"))
	b.send(v2("read")).is(t, 503)
}

// A read that names no bill goes to the backend of the stage. It is not compared.
func TestReadWithoutABillGoesByTheStage(t *testing.T) {
	t.Parallel()
	for stage, calls := range map[string]string{"old": "1 0", "shadow": "1 0", "new": "0 1", "drained": "0 1"} {
		parallel(t, stage, func(t *testing.T) {
			overlay := "operations: {+points.left: {v2: /read/points, legacy: /if/read/points, effect: read, request: {use: who}, reply: {points: points}}}\n"
			points := replyWith(200, `{"code":"0000","message":"ok","msg":"ok","data":{"points":1},"points":1}`)
			play(newRolloutWith(t, stage, everywhere(points), overlayAfter(t, overlay)), `
post 200 /read/points {"apiKey":"demo-partner-key","member":"m","merchant":"s"} | "points":
calls `+calls)
		})
	}
}

// An operation that changes the last day of a bill moves its end in the ledger.
func TestOperationThatMovesTheEndOfABill(t *testing.T) {
	t.Parallel()
	const overlay = "operations: {+bill.extend: {v2: /bill/extend, legacy: /if/bill/extend, effect: write, " +
		"request: {use: who, bill.billId: {legacy: bill_id, role: bill}, bill.expireDt: {legacy: expire_dt, role: expiry}}, reply: {}}}\n"
	code := "0000"
	extends := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replyWith(200, `{"code":"`+code+`","msg":"ok"}`).ServeHTTP(w, r)
	})
	m := newRolloutWith(t, "old", paths(map[string]http.Handler{"/extend": extends}), overlayAfter(t, overlay))
	m.expect(legacy("create"), success)
	before := m.waitForOwner(func(o proxytest.Owner) bool { return o.State == ledger.Owned }).Ends
	later := before.AddDate(0, 2, 0).Format(time.DateOnly)
	for _, code = range []string{"BILL_006", "0000"} {
		row, err := m.owner()
		must(t, err)
		equal(t, row.Ends.Equal(before), true, row.Ends)
		play(m, `post 200 /if/bill/extend {"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill_id":"1234567890ABCDEFGHIJ","expire_dt":"LATER"} | CODE`, "LATER", later, "CODE", code)
	}
	m.waitForOwner(func(o proxytest.Owner) bool { return o.Ends.Format(time.DateOnly) >= later })
}

// overlayPath writes an overlay, and returns the name of its file.
func overlayPath(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	proxytest.WriteFile(t, file, text)
	return file
}
