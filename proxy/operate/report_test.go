package operate_test

import (
	"bytes"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

var update = flag.Bool("update", false, "write the reports of testdata anew")

// canary adds calls at both backends, and bills that were read back.
func canary(t *evidence.Counts) {
	for i := range 120 {
		t.Ended(someone, "bill.create", evidence.Old, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{evidence.New: map[bool]string{true: "VALIDATION_001 bill.price"}[i == 7]}})
		t.Ended(someone, "bill.create", evidence.New, evidence.End{Code: []string{"0000", "BILL_001"}[i/100], Succeeded: i < 100, Mismatched: []string{"shortUrl"}})
		t.Add(someone, "bill.create", evidence.Comparison{Class: evidence.Same, Bill: strings.Repeat("y", i+1), Succeeded: [2]bool{true, true}, ReadBack: true})
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	full := newCounts()
	add(full, 118, evidence.Same)
	add(full, 7, evidence.NotThere)
	add(full, 2, evidence.Moved)
	add(full, 1, evidence.NoAnswer)
	add(full, 2, evidence.Differs,
		evidence.Difference{Path: "apprPrice", Kind: evidence.InMoney, Old: "30000", New: "(missing)"},
		evidence.Difference{Path: "apprState", Kind: evidence.InState, Old: "F", New: "W"},
		evidence.Difference{Path: "apprIssuer", Kind: evidence.InOther, Old: "aa|*a_a*", New: "<a>`[a](a)"},
		evidence.Difference{Path: "apiKey", Kind: evidence.InOther, Old: "(key)", New: "(key)"})
	for _, path := range []string{"apprNum", "apprDt", "apprMonthly"} {
		add(full, 1, evidence.Differs, evidence.Difference{Path: path, Kind: evidence.InOther, Old: "9", New: "99"})
	}
	other := partner.ID(strings.Repeat("b", 64))
	for i := range 150 {
		full.Add(other, "bill.read", evidence.Comparison{Class: evidence.Same, Bill: strings.Repeat("x", i%40+1), Succeeded: [2]bool{true, true}})
	}
	for range 12 {
		full.Add(other, "mapping.status", evidence.Comparison{Class: evidence.Same, Succeeded: [2]bool{true, true}})
	}
	canary(full)
	until, seen, tenth := since.Add(26*time.Hour), since.Add(-time.Hour), 10
	partners := []operate.PartnerStatus{
		{
			Who: operate.Who{Partner: someone[:12]}, StageSetting: operate.StageSetting{Stage: routing.StageCanary, Percent: &tenth}, Seen: &seen, Settled: true,
			Bills: []store.Bills{{Upstream: "old", Pending: 1, Owned: 16}, {Upstream: "new", Owned: 3, Released: 7}},
		},
		{Who: operate.Who{Partner: other.Short()}, StageSetting: operate.StageSetting{Stage: routing.StageShadow}, Default: true},
	}
	limits := evidence.Limits{Comparisons: 100, Bills: 30, Paid: 5, Mismatch: 0.03, Unclear: 0.05, Success: "0000"}
	whole := operate.NewReport(full.Snapshot(), limits, until, partners)
	whole.Ignored = []string{"apprMonthly", "apprSign"}
	whole.Version = "billbridge 1.2.3, commit abc, go1"
	whole.Backends = []operate.Backend{{Name: "legacy_1", URL: "https://legacy.example.com"}, {Name: "<fresh>", URL: "https://v2.example.com/partner"}}
	whole.Decisions = []operate.Change{
		{Revision: 1, Action: "begin", By: "anna", At: since},
		{Revision: 2, Action: "stage", By: "anna\t|\n# kim", At: since, Partner: "default", Moved: operate.Moved{To: "shadow"}},
		{Revision: 3, Action: "stage", By: "박", At: since, Partner: someone[:12], Name: "<b>하나</b> & Co", Moved: operate.Moved{From: "shadow", To: "canary", ToPercent: &tenth, Forced: true, Overridden: []moves.ReasonKind{moves.Unproven, moves.Unsettled}}},
		{Revision: 4, Action: "stage", By: "anna", At: since, Partner: other.Short(), Moved: operate.Moved{From: "new"}},
		{Revision: 5, Action: "assign", By: "anna", At: since, Partner: other.Short(), Subject: "<i>B1", Moved: operate.Moved{From: "old", To: "new", Forced: true, Overridden: []moves.ReasonKind{moves.NotAtBoth}}},
	}
	fewer := limits
	fewer.Comparisons, fewer.Bills = 500, 50
	for name, r := range map[string]operate.Report{
		"full":  whole,
		"empty": operate.NewReport(newCounts().Snapshot(), fewer, until, nil),
	} {
		r.Table = "0123456789ab"
		for ending, format := range map[string]string{"txt": "text", "json": "json"} {
			var got bytes.Buffer
			must(t, r.Write(&got, format))
			file := filepath.Join("testdata", "report", name+"."+ending)
			if *update {
				proxytest.WriteFile(t, file, got.Bytes())
			}
			want := proxytest.ReadFile(t, file)
			equal(t, got.String(), string(want), file)
		}
	}
}
