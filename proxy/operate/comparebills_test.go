package operate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A comparing is an operator whose bills are compared by their names.
type comparing struct {
	*testOperator
	read, merchants []string
	took            [2]time.Duration
}

func newComparing(t *testing.T, url string, bills ...string) *comparing {
	t.Helper()
	c := &comparing{testOperator: newTestOperator(t, proxytest.Open(t, url), separate)}
	c.Operator.Knows = func(id partner.ID) bool { return id == partner.Of("one") }
	c.CompareBill = func(_ context.Context, id partner.ID, merchant, bill string) (result evidence.Comparison, took [2]time.Duration) {
		equal(t, id, partner.Of("one"))
		c.read = append(c.read, bill)
		c.merchants = append(c.merchants, merchant)
		return map[string]evidence.Comparison{
			"same": {Class: evidence.Same, Succeeded: [2]bool{true, true}}, "refused": {Class: evidence.Same}, "old": {Class: evidence.NotThere, Succeeded: [2]bool{true, false}}, "none": {Class: evidence.NotThere},
			"new": {Class: evidence.NotThere, Succeeded: [2]bool{false, true}}, "moved": {Class: evidence.Moved}, "unclear": {Class: evidence.NoAnswer},
			"money": {Class: evidence.Differs, Differences: []evidence.Difference{{Path: "bill.price", Kind: evidence.InMoney, First: "20000", Second: "20001"}}},
		}[strings.TrimRight(bill, "0123456789")], c.took
	}
	must(t, c.store.Prove(t.Context(), partner.Of("one")))
	for i, bill := range bills {
		c.own(bill, time.Duration(i/2)*time.Minute)
	}
	return c
}

func (c *comparing) own(bill string, after time.Duration) {
	c.t.Helper()
	claim, err := c.store.Own(c.t.Context(), partner.Of("one"), bill, "legacy", noon, time.Time{}, "")
	must(c.t, err)
	works(c.t)(c.store.Complete(c.t.Context(), claim, store.Succeeded, noon.Add(after)))
}

const comparePath = "/rollout/compare?rate=100&partner="

func (c *comparing) compare(more string) operate.ComparedBills {
	c.t.Helper()
	return answers[operate.ComparedBills](c.testOperator, "POST", comparePath+hash("one")+more)
}

// Each result is counted under its name, with the first differences.
func TestBillsAreCompared(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		c := newComparing(t, url, "same1", "same2", "old1", "new1", "none1", "moved1", "unclear1", "money1", "refused1")
		r := c.compare("")
		if fmt.Sprint(r.Bills) != "map[differs:1 moved:1 not_there:3 refused:1 same:2 unclear:1]" || r.OldOnly != 1 || r.NewOnly != 1 || r.Left != 0 || r.Next != "" || r.Stopped != "" {
			t.Errorf("%+v", r)
		}
		if len(r.Fields) != 1 || r.Fields[0] != (operate.ComparedField{Bill: "money1", Field: "bill.price", Kind: evidence.InMoney, Old: "20000", New: "20001"}) {
			t.Errorf("%+v", r.Fields)
		}
	})
}

// The newest bills come first, in pages, without a gap or a repetition, while others are created.
func TestComparisonGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		c := newComparing(t, url, "same1", "same2", "same3", "same4", "same5") // 1 and 2 are of the same time, and so on
		c.owns("another partner", "legacy", 0, 3, 0)
		r := c.compare("&limit=2")
		c.own("same6", time.Hour)
		for r.Next != "" {
			r = c.compare("&limit=2&after=" + r.Next)
		}
		if got := strings.Join(c.read, " "); got != "same5 same3 same4 same1 same2" || r.Left != 0 {
			t.Errorf("%s, %d are left", got, r.Left)
		}
		if r := c.compare("&limit=3"); r.Left != 3 || r.Next == "" || c.read[5] != "same6" {
			t.Errorf("%+v %v", r, c.read)
		}
	})
}

// Bills of a list need not be in the ledger.
func TestBillsOfAListAreCompared(t *testing.T) {
	t.Parallel()
	c := newComparing(t, "memory:", "same1")
	if r := c.compare("&ids=old1%0Anew1%0A"); r.OldOnly != 1 || r.NewOnly != 1 || len(c.read) != 2 || r.Next != "" {
		t.Errorf("%+v %v", r, c.read)
	}
}

// Reads stop when a backend is slower than partners know it, or its breaker is open.
func TestComparisonDoesNotSlowABackendDown(t *testing.T) {
	t.Parallel()
	c := newComparing(t, "memory:", "same1", "same2", "same3", "same4", "same5", "same6", "same7")
	h := store.Hour{Partner: partner.Of("another"), At: noon.Truncate(time.Hour), Backend: int(evidence.New)}
	for range 100 {
		h.Observe(false, 9*time.Millisecond)
	}
	works(t)(c.store.AddHours(t.Context(), []store.Hour{h}))
	c.took = [2]time.Duration{time.Second, 9 * time.Millisecond} // nothing is known of the old backend
	if r := c.compare(""); r.Stopped != "" || r.Left != 0 {
		t.Errorf("%+v", r)
	}
	c.took[1] = 11 * time.Millisecond
	r := c.compare("")
	if r.Stopped != "a read at fresh takes 11ms, and 99 % of the partners' calls there took at most 10ms" || r.Left != 2 || r.Next == "" {
		t.Errorf("%+v", r)
	}
	// Also if an answer has few bills.
	c.took[1] = 0
	read := c.CompareBill
	c.CompareBill = func(ctx context.Context, id partner.ID, merchant, bill string) (evidence.Comparison, [2]time.Duration) {
		c.later.Add(int64(3 * time.Second))
		result, _ := read(ctx, id, merchant, bill)
		return result, [2]time.Duration{0, 3 * time.Second}
	}
	if r := c.compare(""); !strings.HasPrefix(r.Stopped, "a read at fresh takes 3s, ") || r.Left != 6 {
		t.Errorf("%+v", r)
	}
	c.CompareBill = read
	c.Operator.Opened = func(upstream string) bool { return upstream == "legacy" }
	if r := c.compare("&after=" + r.Next); r.Stopped != "the breaker of legacy is open" || r.Left != 2 {
		t.Errorf("%+v", r)
	}
}

// A comparison whose caller gives up ends, and does not count the bill that it was reading.
func TestComparisonEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c := newComparing(t, "memory:", "same1", "same2", "same3", "same4")
	ctx, cancel := context.WithCancel(t.Context())
	read := c.CompareBill
	c.CompareBill = func(inner context.Context, id partner.ID, merchant, bill string) (evidence.Comparison, [2]time.Duration) {
		if bill == "same3" {
			cancel()
		}
		return read(inner, id, merchant, bill)
	}
	r, err := c.CompareBills(ctx, operate.BillsToCompare{PartnerRef: operate.PartnerRef{Partner: hash("one")}, Rate: 100})
	if err != nil || r.Bills["same"] != 0 || r.Left != 4 { // same3 and same4 are the newest
		t.Errorf("%+v %v", r, err)
	}
}

// A bill is read with the merchant that the ledger has, also if its id is given.
func TestBillsAreComparedWithTheirMerchants(t *testing.T) {
	t.Parallel()
	c := newComparing(t, "memory:", "same1")
	claim, err := c.store.Own(t.Context(), partner.Of("one"), "same2", "legacy", noon, time.Time{}, "second shop")
	must(t, err)
	works(t)(c.store.Complete(t.Context(), claim, store.Succeeded, noon.Add(-time.Minute)))
	equal(t, c.compare("").Bills["same"], 2)
	equal(t, c.compare("&ids=same2%0Asame3").Bills["same"], 2)
	equal(t, c.merchants, []string{"", "second shop", "second shop", ""}, c.read)
}

func TestComparisonsAreRefused(t *testing.T) {
	t.Parallel()
	c := newComparing(t, "memory:")
	one := hash("one")
	for path, says := range map[string]string{
		"/rollout/compare?rate=100":                               "partner is missing",
		comparePath + "default":                                   "partner must be one partner",
		"/rollout/compare?partner=" + one:                         "rate must be 1 to 100 bills per second, but is 0",
		"/rollout/compare?rate=101&partner=" + one:                "but is 101",
		comparePath + one + "&after=x":                            "after must be the next of the answer before",
		comparePath + one + "&limit=1&ids=a%0Ab":                  "at most 1 ids",
		comparePath + one + "&ids=a&after=MTc5NTI2MTcwMDAwMCBCMQ": "no after",
	} {
		c.denies(400, "POST", path, says)
	}
	c.denies(409, "POST", comparePath+hash("two"), "when it has called since the start")
	c.CompareBill = func(ctx context.Context, _ partner.ID, _, _ string) (result evidence.Comparison, took [2]time.Duration) {
		c.denies(409, "POST", comparePath+one, "compares bills for another request now")
		return result, took
	}
	_ = c.compare("&ids=a")
}
