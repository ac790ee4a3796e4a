package operate_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// compares counts reads of a partner in shadow with a class.
func (d *testOperator) compares(key string, n int, class evidence.Class, differences ...evidence.Difference) {
	for i := range n {
		d.Router.Counts().Add(partner.Of(key), "bill.read", evidence.Comparison{Class: class, Differences: differences, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, true}})
	}
}

// ends counts calls of a partner at a backend.
func (d *testOperator) ends(key, operation string, backend evidence.Backend, n int, end evidence.End) {
	for range n {
		d.Router.Counts().Ended(partner.Of(key), operation, backend, end)
	}
}

var fine = evidence.End{Code: "0000", Succeeded: true}

// counted adds the counts of a word of testdata/laterstages.txt.
func (d *testOperator) counted(word string) {
	d.t.Helper()
	wrong := evidence.Difference{Path: "apprPrice", Kind: evidence.InMoney}
	what, number, _ := strings.Cut(word, ":")
	n, _ := strconv.Atoi(number)
	bill := evidence.Comparison{Class: evidence.NotThere, Succeeded: [2]bool{true, false}, ReadBack: true}
	switch what {
	case "proved":
		d.proves("k")
	case "same":
		d.compares("k", n, evidence.Same)
	case "absent":
		d.compares("k", n, evidence.NotThere)
	case "wrong":
		d.compares("k", 1, evidence.Differs, wrong)
	case "else-other":
		d.compares("else", n, evidence.Differs, evidence.Difference{Path: "apprIssuer", Kind: evidence.InOther})
	case "wrong-bill":
		bill = evidence.Comparison{
			Class: evidence.Differs, Differences: []evidence.Difference{wrong}, Succeeded: [2]bool{true, true}, ReadBack: true,
		}
		fallthrough
	case "absent-bill":
		d.Router.Counts().Add(partner.Of("k"), "bill.create", bill)
	case "errors":
		d.ends("k", "bill.create", evidence.Old, n, fine)
		d.ends("k", "bill.create", evidence.New, n, evidence.End{Code: "ERROR"})
	case "read-back":
		d.readsBack("k", n, 5)
	case "unpaid":
		d.readsBack("k", n, 0)
	case "only-old":
		for i := range n {
			d.Router.Counts().Add(partner.Of("k"), "bill.read", evidence.Comparison{Class: evidence.NotThere, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, false}})
		}
	case "fine":
		d.ends("k", "bill.create", evidence.New, n, fine)
	case "cancelled":
		d.ends("k", "bill.cancel", evidence.New, n, fine)
	case "not-cancelled":
		d.ends("k", "bill.cancel", evidence.New, n, evidence.End{Code: "PAYMENT_002"})
	default:
		d.t.Fatalf("nothing is counted for %s", word)
	}
}

// A later stage needs a PASS, or force.
func TestLaterStagesNeedAPass(t *testing.T) {
	t.Parallel()
	for _, cells := range proxytest.Rows(t, "testdata/laterstages.txt") {
		stages, against := strings.Fields(cells[2]), cells[4]
		for _, of := range []string{hash("k"), "default"} {
			t.Run(cells[0]+"/"+of[:7], func(t *testing.T) {
				t.Parallel()
				d := operatorInMemory(t, strings.Replace(separate, "new: fresh", "new: fresh, bills: "+cells[1], 1))
				d.seen("k", time.Hour)
				set := "/rollout/stage?by=a&partner=" + of + "&stage="
				d.change(set + stages[0] + "&force=<all>")
				for word := range strings.FieldsSeq(cells[3]) {
					d.counted(word)
				}
				if against == "" {
					d.unforced(set + stages[1])
					return
				}
				d.refuses(set+stages[1], "\n  <k:12>: "+against)
				d.forced(set + stages[1] + "&force=<all>")
			})
		}
	}
}

// The calls of partners do not depend on the table: those that another version counted are a blocking reason, too.
func TestUnsupportedCallsOfAnotherTableVersionCount(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	d := newTestOperator(t, s, separate)
	d.seen("k", time.Hour)
	d.ends("k", "bill.create", evidence.New, 2, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{"BILL_010 bill.sendType", ""}})
	counted := d.Router.Counts().Drain()[0]
	data, err := json.Marshal(counted)
	must(t, err)
	works(t)(s.AddCounts(t.Context(), "another table", []store.Counts{{Partner: counted.Partner, Operation: counted.Operation, Data: data, Marked: true}}, noon, nil))
	set := "/rollout/stage?by=a&partner=<k>&stage="
	d.change(set + "new&force=<all>")
	d.refuses("/rollout/stop?by=a", "legacy cannot carry bill.create: BILL_010 bill.sendType (calls: 2,")
	d.refuses(set+"old", "legacy cannot carry bill.create: BILL_010 bill.sendType (calls: 2,")
	if r := answers[operate.Report](d, "GET", "/rollout/report"); len(r.Verdicts) != 0 {
		t.Errorf("the report is of this one: %+v", r)
	}
}

// One difference in an exact field of any partner holds back every move to the same backend, until it is reset or overridden by name,
// also if another version of the table counted it.
func TestMoneyElsewhereHoldsBackEveryMove(t *testing.T) {
	t.Parallel()
	for _, kind := range []evidence.Kind{evidence.InMoney, evidence.InExact, evidence.InState} {
		s := proxytest.Open(t, "memory:")
		d := newTestOperator(t, s, separate)
		for _, key := range []string{"k", "else"} {
			d.seen(key, time.Hour)
			d.proves(key)
		}
		d.Router.Counts().Add(partner.Of("else"), "bill.read", evidence.Comparison{
			Class: evidence.Differs, Bill: "B-7", Succeeded: [2]bool{true, true}, Request: "call-7", At: noon,
			Differences: []evidence.Difference{{Path: "apprNum", Kind: kind, Old: "1000", New: "1001"}},
		})
		set := "/rollout/stage?by=a&partner=<k>&stage="
		text := "give force=money_elsewhere. Reasons:\n  <else:12>: apprNum of bill.read differs in 1: old 1000, new 1001 (bill B-7, request call-7, at 2026-11-21T03:34:56Z) [money_elsewhere]"
		held := func(target string) {
			t.Helper()
			d.refuses(target, text)
		}
		held(set + "canary&percent=5")
		held(set + "new")
		d.change(set + "new&force=money_elsewhere")
		held(set + "drained")
		d.unforced(set + "canary&percent=5") // backwards
		held("/rollout/next?by=a&partner=<k>")
		d.refuses("/rollout/stage?by=a&stage=new&partner=default", "[money_elsewhere]")
		must(t, d.Router.Counts().Flush(t.Context()))
		d = newTestOperator(t, s, overlaid(t, "operations: {bill.read: {reply: {apprNum: {role: null}}}}"))
		held(set + "canary&percent=25")
		d.change("/rollout/reset?by=a&force=verdict&partner=<else>")
		d.unforced(set + "canary&percent=25")
	}
}

// A clock that is wrong by years ends no bill and no reason, and blocks drained until somebody confirms it.
func TestWrongClockBlocksDrained(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	works(t)(s.Tick(t.Context(), noon))
	d := newTestOperator(t, s, separate)
	d.seen("k", time.Hour)
	d.seen("young", time.Minute)
	d.proves("k")
	d.ends("k", "bill.create", evidence.Old, 1, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{"", "BILL_010 bill.sendType"}})
	d.owns("k", "legacy", 0, 1, 0)
	d.later.Store(int64(2 * 365 * 24 * time.Hour))
	if list := answers[operate.BillList](d, "GET", "/rollout/bills?open=true"); len(list.Bills) != 1 {
		t.Errorf("%+v", list)
	}
	set := "/rollout/stage?by=a&stage=drained&partner="
	d.refuses(set+hash("k"), "give force=clock,open_bills,verdict,calls. Reasons:\n  the clock shows 2028-11-20T03:34:5")
	d.refuses(set+hash("young"), "give force=settling,clock,verdict. Reasons:")
	must(t, s.ConfirmClock(t.Context(), store.Author{Name: "a"}, noon.Add(2*365*24*time.Hour)))
	d.refuses(set+hash("young"), "give force=verdict. Reasons:")
}

// overlaid is a config with an overlay.
func overlaid(t *testing.T, overlay string) string {
	file := filepath.Join(t.TempDir(), "o.yaml")
	proxytest.WriteFile(t, file, overlay)
	return separate + "\ntable: {overlay: '" + file + "'}\n"
}

// What was proved stays proved unless the table changes what messages are or say: not by a description.
func TestEvidenceStaysUnlessTheTableChanges(t *testing.T) {
	t.Parallel()
	for overlay, stays := range map[string]bool{
		"{}":                       true,
		"fields: {message: words}": true,
		`forms: {legacy: {codes: {"9800": BILL_001}}}`:                        false,
		"operations: {bill.create: {request: {bill.message: {check: ..80}}}}": false,
	} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			s := proxytest.Open(t, "memory:")
			d := newTestOperator(t, s, separate)
			d.seen("k", time.Hour)
			d.proves("k")
			must(t, d.Router.Counts().Flush(t.Context()))
			d = newTestOperator(t, s, overlaid(t, overlay))
			d.change("/rollout/stage?by=a&stage=new&force=verdict&partner=<k>")
			if stays {
				d.change("/rollout/next?by=a&partner=<k>")
				return
			}
			d.refuses("/rollout/next?by=a&partner=<k>", "[verdict]")
		})
	}
}
