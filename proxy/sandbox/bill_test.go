package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// Every operation on a bill in every state, in both forms, for bills created in either: only the changes of the state
// table happen.
func TestOnlyDocumentedStateChanges(t *testing.T) {
	t.Parallel()
	type outcome struct{ code, state string }
	table := map[string]map[string]outcome{
		"resend":  {"W": {"0000", "W"}, "F": {"BILL_006", "F"}, "C": {"BILL_006", "C"}, "D": {"BILL_006", "D"}},
		"read":    {"W": {"0000", "W"}, "F": {"0000", "F"}, "C": {"0000", "C"}, "D": {"0000", "D"}},
		"destroy": {"W": {"0000", "D"}, "F": {"BILL_002", "F"}, "C": {"BILL_002", "C"}, "D": {"BILL_002", "D"}},
		"cancel":  {"W": {"BILL_002", "W"}, "F": {"0000", "C"}, "C": {"BILL_002", "C"}, "D": {"BILL_002", "D"}},
		"create":  {"W": {"BILL_001", "W"}, "F": {"BILL_001", "F"}, "C": {"BILL_001", "C"}, "D": {"BILL_001", "D"}},
		"pay":     {"W": {"", "F"}, "F": {"refused", "F"}, "C": {"refused", "C"}, "D": {"refused", "D"}},
	}
	for op, row := range table {
		for from, want := range row {
			for _, createForm := range forms {
				for _, callForm := range forms {
					t.Run(strings.Join([]string{op, from, createForm, callForm}, "/"), func(t *testing.T) {
						t.Parallel()
						r := start(t)
						life := map[string][]string{"W": {}, "F": {"pay"}, "C": {"pay", "cancel"}, "D": {"destroy"}}[from]
						step := func(form, op string) string {
							if op != "pay" {
								code, _ := r.do(newCall(form, op))
								return code
							}
							if err := r.Pay(demoKey, billID); err != nil {
								return "refused"
							}
							return ""
						}
						r.must(newCall(createForm, "create"))
						for _, op := range life {
							step(createForm, op)
						}
						if got := r.state(); got != from {
							t.Fatalf("the bill is in state %s", got)
						}
						equal(t, (outcome{step(callForm, op), r.state()}), want)
					})
				}
			}
		}
	}
}

// A bill that expires today can be created until midnight in Seoul, whatever the zone of the clock.
func TestCreateRefusesAnExpiredBill(t *testing.T) {
	t.Parallel()
	dusk := time.Date(2026, 3, 31, 15, 0, 0, 0, time.UTC) // midnight in Seoul, when 2026-03-31 ends
	dawn := dusk.Add(-24 * time.Hour)
	for _, row := range []struct {
		at     time.Time
		expire string
		want   string
	}{
		{dusk.Add(-time.Second), "2026-03-31", "0000"},
		{dusk, "2026-03-31", "VALIDATION_001"},
		{dusk, "2026-04-01", "0000"},
		{dusk, "0000-01-01", "VALIDATION_001"},
		{dawn, "2026-03-31", "0000"},
		{dawn, "2026-03-30", "VALIDATION_001"},
	} {
		for _, form := range forms {
			for _, zone := range []*time.Location{time.UTC, time.FixedZone("", -10*3600), time.FixedZone("", 14*3600)} {
				r := start(t, sandbox.Options{Clock: func() time.Time { return row.at.In(zone) }})
				code, body := r.do(newCall(form, "create").with("expireDt", row.expire))
				equal(t, code, row.want, form, row, body)
				if field := map[string]string{"v2": "(bill.expireDt)", "legacy": "(bill.expire_dt)"}[form]; code != "0000" && !strings.Contains(body, field) {
					t.Errorf("the refusal does not name %s: %s", field, body)
				}
			}
		}
	}
	// The service's clock counts, which a tester sets.
	r := start(t)
	must(t, r.SetClock(dusk))
	gives(t, "VALIDATION_001", "after the clock was set")(r.do(newCall("v2", "create").with("expireDt", "2026-03-31")))
}
