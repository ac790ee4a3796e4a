package operate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
)

// A comparing is an operator whose bills are compared by their names.
type comparing struct {
	*testOperator
	read []string
}

func newComparing(t *testing.T) *comparing {
	t.Helper()
	c := &comparing{testOperator: operatorInMemory(t, shared)}
	c.Operator.Knows = func(id partner.ID) bool { return id == partner.Of("one") }
	c.CompareBill = func(_ context.Context, id partner.ID, bill string) evidence.Comparison {
		equal(t, id, partner.Of("one"))
		c.read = append(c.read, bill)
		return map[string]evidence.Comparison{
			"same": {Class: evidence.Same, Succeeded: [2]bool{true, true}}, "refused": {Class: evidence.Same}, "old": {Class: evidence.NotThere, Succeeded: [2]bool{true, false}}, "none": {Class: evidence.NotThere},
			"new": {Class: evidence.NotThere, Succeeded: [2]bool{false, true}}, "moved": {Class: evidence.Moved}, "unclear": {Class: evidence.NoAnswer},
			"money": {Class: evidence.Differs, Differences: []evidence.Difference{{Path: "bill.price", Kind: evidence.InMoney, Old: "20000", New: "20001"}}},
		}[strings.TrimRight(bill, "0123456789")]
	}
	must(t, c.store.Prove(t.Context(), partner.Of("one")))
	return c
}

const comparePath = "/rollout/compare?partner="

func (c *comparing) compare(bills ...string) operate.ComparedBills {
	c.t.Helper()
	return answers[operate.ComparedBills](c.testOperator, "POST", comparePath+hash("one")+"&ids="+strings.Join(bills, "%0A")+"%0A")
}

// Each result is counted under its name, with the first differences.
func TestBillsAreCompared(t *testing.T) {
	t.Parallel()
	c := newComparing(t)
	r := c.compare("same1", "same2", "old1", "new1", "none1", "moved1", "unclear1", "money1", "refused1")
	if fmt.Sprint(r.Bills) != "map[differs:1 moved:1 not_there:3 refused:1 same:2 unclear:1]" || r.OldOnly != 1 || r.NewOnly != 1 || r.Left != 0 || r.Stopped != "" {
		t.Errorf("%+v", r)
	}
	if len(r.Fields) != 1 || r.Fields[0] != (operate.ComparedField{Bill: "money1", Field: "bill.price", Kind: evidence.InMoney, Old: "20000", New: "20001"}) {
		t.Errorf("%+v", r.Fields)
	}
	equal(t, strings.Join(c.read, " "), "same1 same2 old1 new1 none1 moved1 unclear1 money1 refused1")
}

// Reads stop when the breaker of a backend is open.
func TestComparisonStopsWhileABreakerIsOpen(t *testing.T) {
	t.Parallel()
	c := newComparing(t)
	c.Operator.Opened = func(upstream string) bool { return upstream == "legacy" && len(c.read) == 1 }
	if r := c.compare("same6", "same7", "same8"); r.Stopped != "the breaker of legacy is open" || r.Left != 2 {
		t.Errorf("%+v", r)
	}
}

// A comparison whose caller gives up ends, and does not count the bill that it was reading.
func TestComparisonEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c := newComparing(t)
	ctx, cancel := context.WithCancel(t.Context())
	read := c.CompareBill
	c.CompareBill = func(inner context.Context, id partner.ID, bill string) evidence.Comparison {
		if bill == "same3" {
			cancel()
		}
		return read(inner, id, bill)
	}
	r, err := c.CompareBills(ctx, operate.BillsToCompare{PartnerRef: operate.PartnerRef{Partner: hash("one")}, IDs: "same1\nsame3\nsame2"})
	if err != nil || r.Bills["same"] != 1 || r.Left != 2 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestComparisonsAreRefused(t *testing.T) {
	t.Parallel()
	c := newComparing(t)
	one := hash("one")
	for path, says := range map[string]string{
		"/rollout/compare":      "partner is missing",
		comparePath + "default": "partner must be one partner",
		comparePath + one:       "ids must be 1 to 1000 bills, each on a line",
		comparePath + one + "&ids=a" + strings.Repeat("%0Aa", 1000): "ids must be 1 to 1000 bills, each on a line",
	} {
		c.denies(400, "POST", path, says)
	}
	c.denies(409, "POST", comparePath+hash("two")+"&ids=a", "when it has called since the start")
	c.CompareBill = func(context.Context, partner.ID, string) evidence.Comparison {
		c.denies(409, "POST", comparePath+one+"&ids=b", "compares bills for another request now")
		return evidence.Comparison{}
	}
	_ = c.compare("a")
	apart := operatorInMemory(t, separate)
	apart.denies(409, "POST", comparePath+one+"&ids=a", "with bills: separate each bill is at one backend, so there is nothing to compare")
}
