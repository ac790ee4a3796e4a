package proxy_test

import (
	"strings"
	"testing"

	"billbridge/proxy/evidence"
)

// What the new backend shows of a bill against what it has shown or acknowledged before holds back its partner, whoever
// saw it. What a copy of its data shows that is behind does not.
func TestContradictionsAreEvidence(t *testing.T) {
	t.Parallel()
	const (
		unpaid       = `fault new {"operation":"bill.read","count":1,"body":"{\"code\":\"0000\",\"message\":\"ok\",\"data\":{\"apiKey\":\"` + demoKey + `\",\"billId\":\"` + demoBill + `\",\"apprState\":\"W\"}}"}`
		acknowledged = `{\"code\":\"0000\",\"message\":\"ok\",\"data\":{\"apiKey\":\"` + demoKey + `\",\"billId\":\"` + demoBill + `\"}}"}`
	)
	for _, row := range rows(`
a paid bill is shown unpaid | pay | success v2 read; older 3m; UNPAID; success v2 read | FAIL (state)
a paid bill is shown unpaid by a copy that is behind | pay | success v2 read; UNPAID; success v2 read; older 61s; success v2 read | vanished
a paid bill is shown unpaid twice | pay | success v2 read; UNPAID; success v2 read; older 61s; UNPAID; success v2 read | FAIL (state)
a cancel is acknowledged and not done | pay | success v2 read; CANCEL; success v2 cancel; older 61s; success v2 read; older 61s; success v2 read | FAIL (state)
a destroy is acknowledged and not done | | success v2 read; DESTROY; success v2 destroy; older 61s; success v2 read; older 61s; success v2 read | FAIL (state)
a cancel is done | pay | success v2 read; success v2 cancel; older 61s; success v2 read | ok
a destroy is done | | success v2 read; success v2 destroy; older 61s; success v2 read | ok
`) {
		parallel(t, row[0], func(t *testing.T) {
			m := newRolloutGateway(t, "new")
			play(m, "success v2 create\nlogged operation=bill.create")
			m.verdict("bill.create", evidence.ByReadBack, compared(1))
			if row[1] == "pay" {
				play(m, "pay new "+demoBill)
			}
			play(m, strings.NewReplacer("success v2 read", "success v2 read\nlogged operation=bill.read", "success v2 cancel", "success v2 cancel\nlogged operation=bill.cancel",
				"success v2 destroy", "success v2 destroy\nlogged operation=bill.destroy", "; ", "\n", "UNPAID", unpaid,
				"CANCEL", `fault new {"operation":"bill.cancel","count":1,"skip":true,"body":"`+acknowledged,
				"DESTROY", `fault new {"operation":"bill.destroy","count":1,"skip":true,"body":"`+acknowledged).Replace(row[2]))
			if strings.HasPrefix(row[3], "FAIL") {
				v := m.verdict("bill.create", evidence.ByReadBack, func(v evidence.Verdict) bool { return v.Ruling == evidence.Fail })
				checkText(t, "FAIL "+v.Fields[0].Path, row[3])
				return
			}
			// The line of the last read is written after what it contradicts.
			const contradicts = `"msg":"a backend contradicts`
			checkText(t, m.logs.String(), `!"level":"WARN",`+contradicts)
			equal(t, strings.Count(m.logs.String(), contradicts), strings.Count(row[3], "vanished"))
		})
	}
}
