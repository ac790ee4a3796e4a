package proxy_test

import (
	"net/http"
	"testing"

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
			m := newRolloutWith(t, "new", noFront, overlayAfter(t, "operations: {bill.check: {new: true, "+second+"}}"))
			for _, client := range forms {
				m.expect(newCall(client, "read"), noSuchBill)
			}
			m.expect(legacy("create"), success)
			equal(t, len(m.fresh.Bills()), 1)
			m.expect(legacy("read"), success)
			for _, got := range append(m.oldCalls.received(), m.newCalls.received()...) {
				checkText(t, got.target, "!/check")
			}
			checkText(t, m.logs.String(), "!panic")
		})
	}
}

// A read that an overlay adds can succeed without the state of the bill. Only a state shows that a bill with an
// unknown create exists.
func TestReadWithoutAStateDoesNotShowTheBill(t *testing.T) {
	t.Parallel()
	overlay := "operations: {bill.check: {new: true, v2: /bill/check, legacy: /if/bill/check, effect: read, " +
		"request: [{v2: apiKey, legacy: apikey, role: partner}, {v2: bill.billId, legacy: bill_id, role: bill}], reply: [{v2: valid, legacy: valid}]}}"
	valid := replyWith(200, `{"code":"0000","message":"ok","data":{"valid":"Y"}}`)
	m := newRolloutWith(t, "new", paths(map[string]http.Handler{"/bill": nil, "/bill/check": valid}), overlayAfter(t, overlay))
	m.expect(v2("create"), unknown)
	m.post("/bill/check", `{"apiKey":"`+demoKey+`","bill":{"billId":"`+demoBill+`"}}`).is(t, 200, `"valid":"Y"`)
	m.send(v2("read").with("billId", "another")) // on the same connection, so the previous call is recorded
	row := m.waitForOwner(func(o store.Owner) bool { return o.Upstream == "new" })
	equal(t, row.State, store.Pending)
}
