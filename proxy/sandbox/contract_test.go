package sandbox_test

import (
	"cmp"
	"maps"
	"net/http"
	"testing"

	"billbridge/proxy/proxytest"
)

// Each restriction of a contract applies to the operations it is for, in both forms, and to no other ("Authentication", 4
// and 5).
func TestContractRestrictions(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/contracts.txt") {
		key, onBills, onLinks := row[0], row[1], row[2]
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			for _, form := range forms {
				for _, op := range billOps {
					// Allowed creates use new ids. The other operations name no bill.
					id, allowed := "NONE", "BILL_003"
					if op == "create" {
						id, allowed = form, "0000"
					}
					gives(t, cmp.Or(onBills, allowed), form, op)(r.do(newCall(form, op).with("apiKey", key).with("billId", id)))
				}
			}
			for path, call := range subBusiness {
				call = maps.Clone(call)
				call["apiKey"] = key
				status, body := r.post(path, encode(call))
				if code := codeOf(t, "v2", body); status != http.StatusOK || code != cmp.Or(onLinks, "0000") {
					t.Errorf("%s: got %s", path, body)
				}
			}
		})
	}
}
