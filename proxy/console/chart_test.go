package console

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// The charts of a partner show old and new side by side in each hour that has calls, on a scale for both.
func TestChartsCompareBackendsByTheHour(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	hour := func(at, backend, calls, failed int, took time.Duration) store.Hour {
		h := store.Hour{At: since.Add(time.Duration(at) * time.Hour), Backend: backend}
		for i := range calls {
			h.Observe(i < failed, took)
		}
		return h
	}
	got := hoursOf(operate.Hours{Since: since, Hours: []store.Hour{
		hour(0, 0, 1000, 5, 30*time.Millisecond), hour(0, 1, 4, 3, 800*time.Millisecond), hour(47, 1, 2, 0, 0), hour(48, 1, 9, 9, time.Second),
	}}, time.FixedZone("", 9*3600))
	if got.Sums[0].Calls != 1000 || got.Sums[1].Calls != 6 || got.Failed(got.Sums[1]) != "50.0 % (3 / 6)" || got.P99(got.Sums[0]) != "≤ 30 ms" || got.Failed(store.Sums{}) != "–" || got.P99(store.Sums{}) != "–" {
		t.Errorf("%+v", got.Sums)
	}
	want := []chart{
		{"partner.hours.failed", "partner.hour.failed", "partner.hours.ago", "100 %", "50 %", 48, []column{
			{0, []any{"2026-11-27T12:00:00+09:00", "0.5 % (5 / 1,000)", "75.0 % (3 / 4)"}, []bar{{"bar-old", 0, 58, 4, 2}, {"bar", 4, 15, 4, 45}}},
			{470, []any{"2026-11-29T11:00:00+09:00", "–", "0.0 % (0 / 2)"}, nil},
		}},
		{"partner.hours.p99", "partner.hour.p99", "partner.hours.ago", "1.0 s", "500 ms", 48, []column{
			{0, []any{"2026-11-27T12:00:00+09:00", "≤ 30 ms", "≤ 1.0 s"}, []bar{{"bar-old", 0, 58, 4, 2}, {"bar", 4, 0, 4, 60}}},
			{470, []any{"2026-11-29T11:00:00+09:00", "–", "–"}, nil},
		}},
	}
	equal(t, got.Charts, want)
}

// The page of a partner has its hours, or says that there is no call.
func TestPartnerPageShowsHours(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	page := "/partners/" + partner.ShortOf("hana")
	lacks(t, d.shows(page, 200, "No call in the last 48 hours.", "<dt>Calls, 24 h</dt><dd>0</dd>"), `class="chart"`, "a chart without calls")
	end := evidence.End{Code: "0000", Succeeded: true, Arrived: time.Now(), Took: time.Second}
	for range 3 {
		d.Operator.Rollout.Counts().Ended(partner.Of("hana"), "bill.read", evidence.New, end)
	}
	end.Failed, end.Arrived = true, time.Now().Add(-30*time.Hour)
	d.Operator.Rollout.Counts().Ended(partner.Of("hana"), "bill.read", evidence.Old, end)
	body := d.shows(page, 200, "<dt>Calls, 24 h</dt><dd>3</dd>", "100.0 % (1 / 1)", "0.0 % (0 / 3)", "≤ 1.0 s", ": failed at the old backend –, at the new one 0.0 % (0 / 3)", "48 h ago")
	equal(t, strings.Count(body, `class="bar-old"`)+strings.Count(body, `class="bar"`), 2+1+1+1, "bars and keys")
	d.shows("/partners", 200, "Calls in the last 24 hours: 3")
}
