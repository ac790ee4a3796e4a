package sandbox_test

import (
	"cmp"
	"maps"
	"net/http"
	"testing"

	"billbridge/proxy/sandbox"
)

// TestGates: what a contract does not allow is refused on every operation that
// the gate stands before, in both forms, and on no other ("Authentication", 4
// and 5).
func TestGates(t *testing.T) {
	t.Parallel()
	rows := []struct {
		key          string
		bills, links string // the codes on the bill operations and the sub-business ones; empty if the gate is not theirs
	}{
		{"no-such-key", "PARTNER_003", "PARTNER_003"},
		{"demo partner key", "PARTNER_002", "PARTNER_002"},
		{"데모-열쇠", "PARTNER_002", "PARTNER_002"},
		{"demo-removed-key", "PARTNER_005", "PARTNER_005"},
		{"demo-expired-key", "PARTNER_006", "PARTNER_006"},
		{"demo-nobill-key", "PARTNER_007", ""},
		{"demo-unlinked-key", "", "PARTNER_001"},
	}
	for _, row := range rows {
		t.Run(row.key, func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{})
			for _, form := range forms {
				for _, op := range billOps {
					// Whoever may bill makes a bill of each form, and names none in the rest.
					id, allowed := "NONE", "BILL_003"
					if op == "create" {
						id, allowed = form, "0000"
					}
					if code, _ := r.do(newAsk(form, op).with("apiKey", row.key).with("billId", id)); code != cmp.Or(row.bills, allowed) {
						t.Errorf("%s %s: got %s", form, op, code)
					}
				}
			}
			for path, call := range subBusiness {
				call = maps.Clone(call)
				call["apiKey"] = row.key
				status, body := r.post(path, encode(call))
				if code := codeOf(t, "v2", body); status != http.StatusOK || code != cmp.Or(row.links, "0000") {
					t.Errorf("%s: got %s", path, body)
				}
			}
		})
	}
}

// TestStrictStores: a partner whose stores are held to bills for none but those
// that are mapped, on every bill operation.
func TestStrictStores(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	for _, form := range forms {
		for _, op := range billOps {
			for _, merchant := range []string{"elsewhere", "demo-closed", "demo-suspended"} {
				q := newAsk(form, op).with("apiKey", "demo-strict-key").with("merchant", merchant)
				if code, body := r.do(q); code != "PARTNER_003" {
					t.Errorf("%s %s for %s: got %s", form, op, merchant, body)
				}
			}
		}
	}
	r.must(newAsk("legacy", "create").with("apiKey", "demo-strict-key"))
}
