package main

import (
	"database/sql"
	"strings"
	"testing"

	"billbridge/proxy/operate"
)

// The status of a store that can be read but not written to says so, and why.
func TestRolloutStatusSaysThatTheStoreCannotBeWritten(t *testing.T) {
	t.Parallel()
	_, upstreams := startBackends(t, "legacy", "v2", "", nil, nil)
	folder := t.TempDir()
	g := serve(t, folder, nil, upstreams+`listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
route: {default: old}
rollout: {old: old, new: new}
store: {url: "sqlite:bridge.db"}
`)
	status := func() string {
		code, out, errs := runCommand(t, false, "rollout", "status", "--admin", "http://"+g.operator)
		equal(t, code, exitOK, errs)
		return out
	}
	lacks(t, status(), "cannot be written to")
	db, err := sql.Open("sqlite", "file:"+folder+"/bridge.db?_pragma=busy_timeout(5000)")
	must(t, err)
	works(t)(db.Exec("ALTER TABLE billbridge_callbacks RENAME TO callbacks_gone"))
	must(t, db.Close())
	has(t, status(), "it cannot be written to: store: writing to the database: ")
}

// What a percentage of canary means, in words.
func TestEffectInWords(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		effect operate.Effect
		want   string
	}{
		{operate.Effect{Split: "bill", Percent: 10, Bills: 20, Merchants: 1, Reached: 1}, "about 10 % of new bills; 1 of 1 merchants (20 bills in the last day)"},
		{operate.Effect{Split: "merchant", Percent: 0, Bills: 20, Merchants: 1}, "0 % of new bills; 0 of 1 merchants (20 bills in the last day)"},
		{operate.Effect{Split: "merchant", Percent: 100, Bills: 1, Merchants: 1, Reached: 1}, "100 % of new bills; 1 of 1 merchants (1 bill in the last day)"},
		{operate.Effect{Split: "bill", Percent: 10}, "about 10 % of new bills; no bill was counted in the last day"},
		{operate.Effect{Split: "merchant", Percent: 10}, "about 10 % of merchants; no bill was counted in the last day"},
		{operate.Effect{Split: "bill", Bills: 2, Merchants: 2}, "0 % of new bills; 0 of 2 merchants (2 bills in the last day)"},
		{operate.Effect{Split: "merchant", Percent: 75, Bills: 20, Merchants: 2, Reached: 1}, "about 75 % of new bills; 1 of 2 merchants (20 bills in the last day)"},
		{operate.Effect{Percent: 25, Bills: 900, Merchants: 256, Reached: 60, Uncounted: true}, "about 25 % of new bills; 60 of more than 256 merchants (900 bills in the last day)"},
	} {
		var out strings.Builder
		if err := show(&out, "canary", row.effect); err != nil || out.String() != row.want {
			t.Errorf("%+v: %s, want %s, %v", row.effect, &out, row.want, err)
		}
	}
}
