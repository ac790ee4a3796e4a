package sandbox_test

import (
	"cmp"
	"maps"
	"net/http"
	"testing"
)

// Each restriction of a contract applies to the operations it is for, in both forms, and to no other ("Authentication", 4
// and 5).
func TestContractRestrictions(t *testing.T) {
	t.Parallel()
	rows := []struct {
		key          string
		bills, links string // the codes of bill operations and sub-business operations; "" for no restriction
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
			r := start(t)
			for _, form := range forms {
				for _, op := range billOps {
					// Allowed creates use new ids. The other operations name no bill.
					id, allowed := "NONE", "BILL_003"
					if op == "create" {
						id, allowed = form, "0000"
					}
					gives(t, cmp.Or(row.bills, allowed), form, op)(r.do(newCall(form, op).with("apiKey", row.key).with("billId", id)))
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

func TestStrictPartnersBillMappedMerchantsOnly(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, form := range forms {
		for _, op := range billOps {
			for _, merchant := range []string{"elsewhere", "demo-closed", "demo-suspended"} {
				q := newCall(form, op).with("apiKey", "demo-strict-key").with("merchant", merchant)
				gives(t, "PARTNER_003", form, op, merchant)(r.do(q))
			}
		}
	}
	r.must(newCall("legacy", "create").with("apiKey", "demo-strict-key"))
}
