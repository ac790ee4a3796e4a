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
	"billbridge/proxy/routing"
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

// after lets hours pass, each time makes the reads that are due, and delivers what is due.
func (l *looking) after(hours ...float64) {
	l.t.Helper()
	for _, h := range hours {
		l.clock.add(time.Duration(h * float64(time.Hour)))
		l.look()
	}
}

func (l *looking) look() {
	l.t.Helper()
	l.operator.Knows = func(partner.ID) bool { return true }
	l.operator.ReadBill = func(_ context.Context, upstream string, as routing.Credentials, of string) (says routing.BackendBill, _ routing.Credentials) {
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

// Each row has what happens to a bill in the hours after it was created, how often it is read, what is missing without deliver, and with it
// what the partner gets and how many were made. Of what happens, a state changes it at the upstream, +STATE is a callback of the
// upstream, ~STATE one during the next read, *STATE one of another bill, from ! on callbacks fail, a number lets so many minutes pass.
func TestLooks(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/looks.txt") {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			for _, deliver := range []bool{false, true} {
				l := newLooking(t, deliver, "")
				for event := range strings.FieldsSeq(row[1]) {
					minutes := 0.0
					switch _, err := fmt.Sscan(event, &minutes); {
					case err == nil:
						l.after(minutes / 60)
					case event == "-":
						l.state = ""
					case event == "!":
						l.Carry(always(500, ""))
					case event[0] == '~':
						l.while = func() { l.while = func() {}; l.own(event[1:]) }
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
					equal(t, fmt.Sprint(l.reads), row[2], "reads")
					equal(t, l.missing(), row[3], "missing")
					equal(t, made, 0)
					continue
				}
				equal(t, strings.Join(l.got, " "), row[4], "the partner has")
				equal(t, fmt.Sprint(made), row[5], "made")
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
	l.after(6, 0.5, 6)
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
		// A restored store may lack a callback that was delivered.
		"of before a restore": {notice("v2", key, bill, `,"apprState":"F"`), "restored"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLooking(t, true, "")
			if row.why == "restored" {
				must(t, l.store.Change(t.Context(), store.Change{Action: store.Restored, By: "test", At: l.clock.now()}))
			}
			l.body, l.state = func(string) string { return row.body }, "F"
			l.after(6, 0.5, 6)
			equal(t, l.missing(), "paid "+row.why)
			equal(t, len(l.stored()), 0)
			l.counts("billbridge_callbacks_missing", `{upstream="up"} 1`)
			l.own("F") // ends it
			equal(t, l.missing(), "")
		})
	}
}

// After a made callback, callbacks.reconcile is removed: later ones of the upstream are delivered as before.
func TestReconcileIsRemovedAfterAMadeCallback(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	l.state = "F"
	l.after(6, 0.5)
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
	l.after(48)
	equal(t, l.reads, 0)
}

// A bill that another upstream owns is not read, unless the owner is that of another merchant. An unpaid one is read no more a day after its last day. Newer bills are read more often.
func TestWhichBillsAreLookedAt(t *testing.T) {
	t.Parallel()
	l := newLooking(t, true, "")
	for range 40 * 4 {
		l.after(6)
	}
	// Each 6 h on the first day, then after a quarter of its age: 5, 6.25, … days.
	if l.reads < 15 || l.reads > 20 {
		t.Errorf("%d reads of a bill in 40 days", l.reads)
	}
	l = newLooking(t, true, "")
	works(t)(proxytest.On(l.store).Own(t.Context(), partner.Of(key), bill, "another", l.clock.now(), time.Time{}, ""))
	l.after(6)
	equal(t, l.reads, 0)

	l = newLooking(t, true, "")
	works(t)(proxytest.On(l.store).Own(t.Context(), partner.Of(key), bill, "another", l.clock.now(), time.Time{}, "another merchant"))
	l.after(6)
	equal(t, l.reads, 1)

	l = newLooking(t, true, tuned(func(c *config.Callbacks) { c.Retention = 240 * time.Hour }))
	l.after(120)
	equal(t, l.reads, 1)
	l.state = "F"
	for range 10 {
		l.after(30)
	}
	equal(t, l.reads, 1, "its callbacks may be removed soon")
	equal(t, len(l.stored()), 0)

	l = newLooking(t, false, tuned(func(c *config.Callbacks) { c.Retention = 240 * time.Hour }))
	l.state = "F"
	l.after(6, 0.5)
	equal(t, l.missing(), "paid")
	l.after(200)
	l.own("F")
	equal(t, l.missing(), "", "the callback came after the last read")

	l = newLooking(t, true, "")
	ends := asked("v2", "https://partner.example.com/")
	ends.Expiry = "2026-11-22"
	must(t, l.store.Unbind(t.Context(), l.path[len("/callback/"):]))
	l.bind(ends)
	for range 40 * 4 {
		l.after(6)
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
	l.after(6)
	l.Use(setup{callbacks: ", reconcile: {}" + tuned(func(c *config.Callbacks) { c.Reconcile.After = 2 * time.Hour })}.config(t))
	l.after(0.5)
	equal(t, l.reads, 2)
	equal(t, l.missing(), "")
	l.after(1.5)
	equal(t, l.missing(), "paid")
	l.Use(setup{}.config(t))
	l.after(24)
	equal(t, l.reads, 3, "it is off")
}

// After a made callback, one of the upstream that may report no state is delivered, and so is a form: nothing is read from it.
func TestFormsAndOthersAfterAMadeCallback(t *testing.T) {
	t.Parallel()
	for label, body := range map[string]string{formMedia: "appr_state=F", "application/json": `{"event":"receipt"}`} {
		l := newLooking(t, true, "")
		l.state = "F"
		l.after(6, 0.5)
		equal(t, strings.Join(l.got, " "), "F", "made")
		l.accept(l.path, body, "Content-Type", label)
		equal(t, len(l.stored()), 2, body)
	}
}
