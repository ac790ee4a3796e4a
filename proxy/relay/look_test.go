package relay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
)

var oftenRead = proxytest.Tuned(func(c *config.Config) { c.Limits.Reads = 1000 })

// A looking is a relay that reads bills, and a partner that answers every callback.
type looking struct {
	*testRelay
	clock *clock
	path  string                // of the callback address of the bill
	state string                // that reads show; "" for no such bill
	body  func(s string) string // the callback of a read
	reads int
	got   []string // the states that the partner got
	while func()   // runs during a read
}

func newLooking(t *testing.T, deliver bool, more string) *looking {
	t.Helper()
	clock := newClock()
	l := &looking{clock: clock, state: "W", while: func() {}}
	l.testRelay = newTestRelay(t, setup{
		callbacks: fmt.Sprintf(", schedule: [0s], reconcile: {deliver: %v}%s", deliver, more) + tuned(func(c *config.Callbacks) {
			c.Window = time.Hour
		}) + oftenRead, now: clock.now,
	})
	l.body = func(state string) string { return notice("v2", key, bill, `,"apprState":"`+state+`"`) }
	l.Carry(l.partner())
	must(t, l.store.Prove(t.Context(), partner.Of(key)))
	l.path = l.bind(asked("v2", "https://partner.example.com/"))
	return l
}

// partner answers every callback.
func (l *looking) partner() carrier {
	return func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		l.got = append(l.got, gjson.GetBytes(body, "apprState").Str)
		return reply(200, documented["v2"]), nil
	}
}

var means = map[string]string{"W": "unpaid", "F": "paid", "C": "cancelled", "D": "destroyed"}

// after lets time pass, makes the reads that are due and delivers what is due.
func (l *looking) after(d time.Duration) {
	l.t.Helper()
	l.clock.add(d)
	l.operator.Knows = func(partner.ID) bool { return true }
	l.operator.ReadBill = func(_ context.Context, upstream string, as rollout.Credentials, of string) (says rollout.BackendBill, _ rollout.Credentials) {
		if of == "OTHER" { // only its callback matters
			return says, as
		}
		l.reads++
		l.while()
		if of != bill || as.Member != "m" || as.Merchant != "s" || upstream != "up" {
			l.t.Errorf("read %s at %s as %+v", of, upstream, as)
		}
		if says.State = l.state; l.state != "" {
			says.Shows.Means, says.Callback = means[l.state], []byte(l.body(l.state))
		}
		return says, as
	}
	must(l.t, l.operator.ReadDue(l.t.Context()))
	for l.round() > 0 {
	}
}

// missing returns the states of the bills whose callback is missing, and why none was made.
func (l *looking) missing() string {
	l.t.Helper()
	found, all, err := l.store.Missing(l.t.Context(), "", 10)
	must(l.t, err)
	var list []string
	for _, one := range found {
		list = append(list, strings.TrimSpace(one.Shown+" "+one.Why))
	}
	equal(l.t, all, len(found))
	return strings.Join(list, ", ")
}

// own is a callback of the upstream.
func (l *looking) own(state string) {
	l.accept(l.path, notice("v2", key, bill, `,"apprState":"`+state+`","apprNum":"1"`))
}

// Each row is what happens to a bill in the hours after it was created: a state changes it at the upstream, +STATE is a callback of the
// upstream, *STATE one of another bill, a number lets so many minutes pass.
func TestLooks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		events             string
		reads              int
		missing, got, made string // without deliver; with deliver; how many were made
	}{
		"a bill that is not paid":                    {"360 360 360", 3, "", "", "0"},
		"no such bill":                               {"- 360 360", 2, "", "", "0"},
		"a callback in time":                         {"F +F 360 360", 2, "", "F", "0"},
		"one read":                                   {"F 360 29", 1, "", "", "0"},
		"a lost payment":                             {"F 360 30", 2, "paid", "F", "1"},
		"it stays missing, and is read on":           {"F 360 30 360 360", 4, "paid", "F", "1"},
		"a callback between the two reads":           {"F 360 +F 30 360", 2, "", "F", "0"},
		"a callback after what was made":             {"F 360 30 +F 360", 3, "", "F", "1"},
		"a callback days after what was made":        {"F 360 30 3000 +F 0", 3, "", "F", "1"},
		"two reads that differ":                      {"*C F 360 C 30", 2, "", "", "0"},
		"three reads, and two are the same":          {"*C F 360 C 30 30", 3, "cancelled", "C", "1"},
		"the bill is back before the second read":    {"F 360 W 30 F 360", 3, "", "", "0"},
		"an upstream that does not report cancels":   {"+F C 360 30 360", 1, "", "F", "0"},
		"a lost cancel":                              {"*C +F C 360 30", 2, "cancelled", "F C", "1"},
		"an older callback after a made one":         {"*C C 360 30 +F 360", 3, "", "C", "1"},
		"a cancel that was reported":                 {"*C +F +C C 360 360 3600", 1, "", "F C", "0"},
		"an old state after what was made":           {"F 360 30 W +W 0", 2, "", "F", "1"},
		"a callback of another state after the made": {"F 360 30 C +C 360", 3, "", "F C", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, deliver := range []bool{false, true} {
				l := newLooking(t, deliver, "")
				for event := range strings.FieldsSeq(row.events) {
					minutes := 0
					switch _, err := fmt.Sscan(event, &minutes); {
					case err == nil:
						l.after(time.Duration(minutes) * time.Minute)
					case event == "-":
						l.state = ""
					case event[0] == '*':
						other := asked("v2", "https://partner.example.com/other")
						other.Bill = "OTHER"
						l.accept(l.bind(other), notice("v2", key, "OTHER", `,"apprState":"`+event[1:]+`"`))
						l.round()
						l.got = nil
					case event[0] == '+':
						l.own(event[1:])
					default:
						l.state = event
					}
				}
				l.round()
				made := 0
				for _, c := range l.stored() {
					if c.Made() {
						made++
					}
				}
				if !deliver {
					equal(t, l.reads, row.reads, "reads")
					equal(t, l.missing(), row.missing, "missing")
					equal(t, made, 0)
					continue
				}
				equal(t, strings.Join(l.got, " "), row.got, "the partner has")
				equal(t, fmt.Sprint(made), row.made, "made")
				equal(t, l.missing(), "", "missing")
			}
		})
	}
}

// A made callback has the values of the read and no other, is marked, and is counted and logged as missing once.
func TestMadeCallback(t *testing.T) {
	t.Parallel()
	const values = `,"apprDt":20261121123456,"apprPrice":"0020000","apprState":"F","udItem":null`
	l := newLooking(t, true, "")
	l.body = func(string) string { return notice("v2", key, bill, values) }
	l.state = "F"
	l.after(6 * time.Hour)
	l.after(30 * time.Minute)
	l.after(6 * time.Hour)
	c := l.only()
	equal(t, string(c.Body), notice("v2", key, bill, values))
	if !c.Made() || c.State != store.Delivered || c.Says != "paid" {
		t.Errorf("%+v", c)
	}
	l.counts("billbridge_callbacks_accepted_total")
	for _, line := range []string{"the callback of a bill is missing", "a callback was made from a read"} {
		equal(t, strings.Count(l.logs.String(), line), 1, line)
	}
	has(t, l.logs.String(), `"callback":"`+c.ID+`"`)
	lacks(t, l.logs.String(), key)
}

// Nothing is invented: if the read lacks what a callback needs, or names another partner or bill, the bill is only listed, with the reason.
func TestCallbacksThatCannotBeMade(t *testing.T) {
	t.Parallel()
	paid := `,"apprState":"F"}`
	for name, row := range map[string]struct{ body, why string }{
		"without the key":        {`{"billId":"` + bill + `"` + paid, "no_partner"},
		"without the bill":       {`{"apiKey":"` + key + `"` + paid, "no_bill"},
		"with a masked key":      {`{"apiKey":"demo****","billId":"` + bill + `"` + paid, "another_partner"},
		"of another bill":        {`{"apiKey":"` + key + `","billId":"OTHER"` + paid, "another_bill"},
		"without a state":        {notice("v2", key, bill), "state"},
		"with another state":     {notice("v2", key, bill, `,"apprState":"C"`), "state"},
		"with a field twice":     {notice("v2", key, bill, `,"apprState":"F","apprState":"F"`), "ambiguous"},
		"that is not a callback": {`[]`, "state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLooking(t, true, "")
			l.body, l.state = func(string) string { return row.body }, "F"
			for _, d := range []time.Duration{6 * time.Hour, 30 * time.Minute, 6 * time.Hour} {
				l.after(d)
			}
			equal(t, l.missing(), "paid "+row.why)
			equal(t, len(l.stored()), 0)
			l.counts("billbridge_callbacks_missing", `{upstream="up"} 1`)
			l.own("F") // ends it
			equal(t, l.missing(), "")
		})
	}
}

// A restored store may lack a callback that was delivered: of the bills from before, none is made.
func TestNoCallbackIsMadeAfterARestore(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	must(t, l.store.Change(t.Context(), store.Change{Action: store.Restored, By: "test", At: l.clock.now()}))
	l.state = "F"
	for _, d := range []time.Duration{6 * time.Hour, 30 * time.Minute, 6 * time.Hour} {
		l.after(d)
	}
	equal(t, l.missing(), "paid restored")
	equal(t, len(l.stored()), 0)
	l.own("F")
	equal(t, l.missing(), "")
}

// After a made callback, callbacks.reconcile is removed: later ones of the upstream are delivered as before.
func TestReconcileIsRemovedAfterAMadeCallback(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	l.state = "F"
	l.after(6 * time.Hour)
	l.after(30 * time.Minute)
	equal(t, strings.Join(l.got, " "), "F", "made")
	l.Use(setup{callbacks: ", schedule: [0s]" + tuned(func(c *config.Callbacks) { c.Window = time.Hour })}.config(t))
	l.Carry(l.partner())
	for _, state := range []string{"F", "C", "NEWSTATE", "C"} {
		l.own(state)
		l.round()
	}
	equal(t, strings.Join(l.got, " "), "F C NEWSTATE")
}

// A callback to the address of a registration makes no read, whatever bill it names.
func TestAddressOfARegistrationIsNotRead(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	must(t, l.store.Unbind(t.Context(), l.path[len("/callback/"):]))
	l.path = l.bind(registration("v2", "s", "https://partner.example.com/"))
	l.own("F")
	l.after(48 * time.Hour)
	equal(t, l.reads, 0)
}

// The upstream's own callback comes during the second read: it is delivered, and none is made.
func TestCallbackDuringTheSecondRead(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	l.state = "F"
	l.after(6 * time.Hour)
	l.while = func() { l.own("F") }
	l.after(30 * time.Minute)
	l.while = func() {}
	l.after(6 * time.Hour)
	equal(t, strings.Join(l.got, " "), "F")
	equal(t, l.missing(), "")
}

// A failed callback is not missing: an operator decides on it.
func TestFailedCallbackIsNotMissing(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	l.Carry(always(500, ""))
	l.own("F")
	l.state = "F"
	for range 5 {
		l.after(6 * time.Hour)
	}
	if c := l.only(); c.State != store.Dead || c.Made() || l.missing() != "" {
		t.Errorf("%+v, missing: %s", c, l.missing())
	}
}

// A bill that another upstream owns is not read, unless the owner is that of another merchant. An unpaid one is read no more a day after its last day. Newer bills are read more often.
func TestWhichBillsAreLookedAt(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	for range 40 * 4 {
		l.after(6 * time.Hour)
	}
	// Each 6 h on the first day, then after a quarter of its age: 5, 6.25, … days.
	if l.reads < 15 || l.reads > 20 {
		t.Errorf("%d reads of a bill in 40 days", l.reads)
	}
	l = newLooking(t, true, "")
	works(t)(proxytest.On(l.store).Own(t.Context(), partner.Of(key), bill, "another", l.clock.now(), time.Time{}, ""))
	l.after(6 * time.Hour)
	equal(t, l.reads, 0)

	l = newLooking(t, true, "")
	works(t)(proxytest.On(l.store).Own(t.Context(), partner.Of(key), bill, "another", l.clock.now(), time.Time{}, "another merchant"))
	l.after(6 * time.Hour)
	equal(t, l.reads, 1)

	l = newLooking(t, true, tuned(func(c *config.Callbacks) { c.Retention = 240 * time.Hour }))
	l.after(120 * time.Hour)
	equal(t, l.reads, 1)
	l.state = "F"
	for range 10 {
		l.after(30 * time.Hour)
	}
	equal(t, l.reads, 1, "its callbacks may be removed soon")
	equal(t, len(l.stored()), 0)

	l = newLooking(t, false, tuned(func(c *config.Callbacks) { c.Retention = 240 * time.Hour }))
	l.state = "F"
	l.after(6 * time.Hour)
	l.after(30 * time.Minute)
	equal(t, l.missing(), "paid")
	l.after(200 * time.Hour)
	l.own("F")
	equal(t, l.missing(), "", "the callback came after the last read")

	l = newLooking(t, true, "")
	ends := asked("v2", "https://partner.example.com/")
	ends.Expiry = "2026-11-22"
	must(t, l.store.Unbind(t.Context(), l.path[len("/callback/"):]))
	l.bind(ends)
	for range 40 * 4 {
		l.after(6 * time.Hour)
	}
	if l.reads < 7 || l.reads > 9 {
		t.Errorf("%d reads of a bill that ended after a day and a half", l.reads)
	}
}

// A reload can make the time between the two reads longer.
func TestReloadOfReconcile(t *testing.T) {
	t.Parallel()
	l := newLooking(t, false, "")
	l.state = "F"
	l.after(6 * time.Hour)
	l.Use(setup{callbacks: ", reconcile: {}" + tuned(func(c *config.Callbacks) { c.Reconcile.After = 2 * time.Hour })}.config(t))
	l.after(30 * time.Minute)
	equal(t, l.reads, 2)
	equal(t, l.missing(), "")
	l.after(90 * time.Minute)
	equal(t, l.missing(), "paid")
	l.Use(setup{}.config(t))
	l.after(24 * time.Hour)
	equal(t, l.reads, 3, "it is off")
}

// After a made callback, one of the upstream that may report no state is delivered, and so is a form: nothing is read from it.
func TestFormsAndOthersAfterAMadeCallback(t *testing.T) {
	t.Parallel()
	for label, body := range map[string]string{formMedia: "appr_state=F", "application/json": `{"event":"receipt"}`} {
		l := newLooking(t, true, "")
		l.state = "F"
		l.after(6 * time.Hour)
		l.after(30 * time.Minute)
		equal(t, strings.Join(l.got, " "), "F", "made")
		l.accept(l.path, body, "Content-Type", label)
		equal(t, len(l.stored()), 2, body)
	}
}
