package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
)

// A last day that cannot be read is a line in the log with its field, without what is there, at most one a minute. The bill is known as long
// as one without a last day: at least for keep.
func TestLastDayThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const line = `"level":"WARN","msg":"the last day of a bill is not written as YYYY-MM-DD`
	m := newRolloutWith(t, "old", everywhere(replyWith(200, `{"code":"0000","msg":"ok"}`)), "")
	const keep = 2 * 365 * 24 * time.Hour // of the config
	bills := 0
	create := func(day any) {
		m.expect(legacy("create").with("billId", fmt.Sprintf("1234567890X%09d", bills)).with("expireDt", day), success)
		bills++
	}
	for _, readable := range []any{"2099-12-31", "0001-01-01", "", nil} {
		create(readable)
	}
	checkText(t, m.logs.String(), "!"+line)
	for _, day := range []any{"2099.12.31", "2099-12-31 23:59", "canary"} {
		create(day)
	}
	m.expect(legacy("create").with("expireDt", "20991231"), success)
	owner := m.waitForOwner(func(o proxytest.Owner) bool { return o.State == ledger.Owned })
	text := m.logs.String()
	checkText(t, text, line, `"operation":"bill.create","field":"bill.expire_dt"`, "!canary", "!20991231", "!2099.12.31")
	equal(t, strings.Count(text, line), 1)

	for _, known := range []bool{true, false} {
		at := time.Now().Add(keep)
		if !known {
			at = owner.Ends.Add(keep + time.Hour)
		}
		proxytest.Works(t)(m.store.SweepBills(t.Context(), at, at, keep))
		if _, err := m.owner(); (err == nil) != known {
			t.Errorf("at %s: %v", at, err)
		}
	}
}
