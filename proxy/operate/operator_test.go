package operate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 21, 3, 34, 56, 0, time.UTC)

// allReasons are the kinds of all reasons, as force has them.
var allReasons = rollout.JoinKinds(rollout.ReasonKinds)

// hash is the ID of the partner with a key.
func hash(key string) string { return string(partner.Of(key)) }

// A testOperator is a router with its operator calls.
type testOperator struct {
	*operate.Operator
	*rollout.Router
	t     testing.TB
	store *store.Store
	logs  bytes.Buffer
	later atomic.Int64 // how much later than noon it is
}

func parse(t testing.TB, more string) *config.Config {
	t.Helper()
	return proxytest.Config(t, `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {legacy: {form: legacy, url: "http://127.0.0.2:9"}, fresh: {form: v2, url: "http://127.0.0.2:9"}}
route: {default: legacy}
`+more)
}

const separate = "rollout: {old: legacy, new: fresh}\nstore: {url: 'sqlite:bridge.db'}\n" // the store's path is not used: tests open their own

func newTestOperator(t testing.TB, s *store.Store, more string) *testOperator {
	t.Helper()
	d := &testOperator{t: t, store: s}
	var err error
	if s != nil && strings.Contains(more, "rollout") {
		if err := s.Begin(t.Context(), "begin", noon.Add(-time.Hour)); err != nil && !errors.Is(err, store.ErrState) {
			t.Fatal(err)
		}
	}
	c, logger := parse(t, more), slog.New(slog.NewJSONHandler(&d.logs, nil))
	now := func() time.Time { return noon.Add(time.Duration(d.later.Load())) }
	if d.Router, err = rollout.New(t.Context(), c, rollout.Options{Store: s, Logger: logger, Now: now}); err != nil {
		t.Fatal(err)
	}
	d.Operator = operate.New(operate.Options{
		Config: func() *config.Config { return c }, Store: s, Rollout: d.Router, Logger: logger, Now: now,
	})
	return d
}

// operatorInMemory is a testOperator with a store in memory.
func operatorInMemory(t *testing.T, more string) *testOperator {
	t.Helper()
	return newTestOperator(t, proxytest.Open(t, "memory:"), more)
}

// proves adds the counts that give a partner's creates a PASS.
func (d *testOperator) proves(key string) {
	for i := range 100 {
		for _, backend := range []evidence.Backend{evidence.Old, evidence.New} {
			d.Router.Counts().Ended(partner.Of(key), "bill.create", backend, evidence.End{Code: "0000", Succeeded: true, Arrived: d.Now()})
		}
		d.Router.Counts().Add(partner.Of(key), "bill.create", evidence.Comparison{Class: evidence.Same, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, true}, ReadBack: true, States: true, Paid: i < 5})
	}
}

// named is a partner in a text, by its key: <k> is its ID, <k:12> the first digits.
var named = regexp.MustCompile(`<[\w ]+(:\d+)?>`)

// filled replaces the partners of a text, and <all> by the kinds of all reasons.
func filled(text string) string {
	return named.ReplaceAllStringFunc(strings.ReplaceAll(text, "<all>", allReasons), func(name string) string {
		key, digits, short := strings.Cut(name[1:len(name)-1], ":")
		if n, err := strconv.Atoi(digits); short && err == nil {
			return hash(key)[:n]
		}
		return hash(key)
	})
}

// ask makes a call of the operator. Its target is filled.
func (d *testOperator) ask(method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequest(method, filled(target), nil))
	return w
}

// answers expects that a call succeeds.
func answers[T any](d *testOperator, method, target string) (answer T) {
	d.t.Helper()
	w := d.ask(method, target)
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		d.t.Fatalf("%s %s: %d %v %s, %v", method, target, w.Code, w.Header(), w.Body, err)
	}
	return answer
}

// denies expects that a call is refused, with one line of text and one more for each blocking reason.
func (d *testOperator) denies(status int, method, target, says string) {
	d.t.Helper()
	w, says := d.ask(method, target), filled(says)
	if w.Code != status || !strings.Contains(w.Body.String(), says) || strings.Count(w.Body.String(), "\n") != 1+strings.Count(w.Body.String(), "\n  ") {
		d.t.Errorf("%s %s: %d %swant %d and %s", method, target, w.Code, w.Body, status, says)
	}
}

// change expects that a change is made.
func (d *testOperator) change(target string) operate.Change {
	d.t.Helper()
	return answers[operate.Change](d, "POST", target)
}

// forced expects that a change is made against reasons.
func (d *testOperator) forced(target string) {
	d.t.Helper()
	if c := d.change(target); !c.Forced {
		d.t.Errorf("%s: %+v", target, c)
	}
}

// unforced expects that a change is made, and that no reason is against it.
func (d *testOperator) unforced(target string) {
	d.t.Helper()
	if c := d.change(target); c.Forced {
		d.t.Errorf("%s: %+v", target, c)
	}
}

// refuses expects that a change is not made.
func (d *testOperator) refuses(target, says string) {
	d.t.Helper()
	d.denies(409, "POST", target, says)
}

// seen records that a partner was first seen some time ago.
func (d *testOperator) seen(key string, ago time.Duration) {
	d.t.Helper()
	must(d.t, d.store.Seen(d.t.Context(), partner.Of(key), noon.Add(-ago)))
}

// owns adds pending, owned and released bills of a partner at an upstream.
func (d *testOperator) owns(key, upstream string, pending, owned, released int) {
	d.t.Helper()
	for i := range pending + owned + released {
		c, err := d.store.Own(d.t.Context(), partner.Of(key), fmt.Sprint(upstream, i), upstream, noon, time.Time{})
		must(d.t, err)
		outcome := store.Succeeded
		switch {
		case i < pending:
			continue
		case i >= pending+owned:
			outcome = store.Refused
		}
		works(d.t)(d.store.Complete(d.t.Context(), c, outcome, noon))
	}
}

var creates atomic.Int64

// creates returns the upstream that a new bill of a partner goes to. The other backend does not have the bill.
func (d *testOperator) creates(key string) (rollout.Route, string) {
	d.t.Helper()
	asked := ""
	route, err := d.Router.Route(d.t.Context(), rollout.Call{
		Operation: "bill.create", Creates: true, Writes: true, Partner: partner.Of(key), Merchant: "s", Bill: fmt.Sprint("B", creates.Add(1)),
	}, func(_ context.Context, upstream string) rollout.ProbeResult {
		asked += upstream
		return rollout.Absent
	})
	must(d.t, err)
	return route, asked
}

func (d *testOperator) createsAt(key, upstream, asked string) {
	d.t.Helper()
	if route, of := d.creates(key); route.Upstream != upstream || of != asked {
		d.t.Errorf("a create goes to %s after %q was asked, want %s and %q", route.Upstream, of, upstream, asked)
	}
}

// A change is in effect on this replica when it is answered: nothing else reads the store in this test.
func TestOperatorDecides(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	for _, key := range []string{"k", "other"} {
		d.seen(key, time.Hour)
		d.proves(key)
	}
	did := func(target string, want operate.Change) {
		t.Helper()
		d.later.Add(int64(time.Second))
		want.At = noon.Add(time.Duration(d.later.Load()))
		got := d.change(target)
		want.Revision = got.Revision
		if diff := cmp.Diff(want, got); diff != "" || got.Revision < want.At.UnixMilli() {
			t.Errorf("%s, -want +got:\n%s", target, diff)
		}
	}
	percent := func(n int) *int { return &n }
	d.createsAt("k", "legacy", "")
	did("/rollout/stage?stage=new&by=anna&partner=<k:12>", operate.Change{Action: "stage", By: "anna", Partner: hash("k")[:12], From: "old", To: "new"})
	d.createsAt("k", "fresh", "legacy")
	d.createsAt("other", "legacy", "")
	did("/rollout/stop?by=ben", operate.Change{Action: "stop", By: "ben"})
	d.createsAt("k", "legacy", "")
	did("/rollout/resume?by=ben", operate.Change{Action: "resume", By: "ben"})
	d.createsAt("k", "fresh", "legacy")
	did("/rollout/stage?stage=canary&percent=100&by=%EB%B0%95&force=false&partner=<k>", operate.Change{
		Action: "stage", By: "박", Partner: hash("k")[:12], From: "new", To: "canary", ToPercent: percent(100), Effect: &operate.Effect{Split: "bill", Percent: 100},
	})
	d.createsAt("k", "fresh", "legacy")
	did("/rollout/stage?stage=canary&percent=0&by=anna&force=<all>&partner="+hash("k")[:20], operate.Change{
		Action: "stage", By: "anna", Partner: hash("k")[:12], From: "canary", FromPercent: percent(100), To: "canary", ToPercent: percent(0), Effect: &operate.Effect{Split: "bill"},
	}) // and not forced: there was no blocking reason
	d.createsAt("k", "legacy", "")
	did("/rollout/stage?stage=drained&by=anna&partner=default&force=<all>", operate.Change{
		Action: "stage", By: "anna", Partner: "default", From: "old", To: "drained", Forced: true, Overridden: []rollout.ReasonKind{rollout.Undrained}, // there are bills of other partners
	})
	d.createsAt("other", "fresh", "")
	did("/rollout/restored?by=carl", operate.Change{Action: "restored", By: "carl"})
	d.later.Add(int64(15 * time.Minute)) // until then "no such bill" of the other backend does not count
	d.createsAt("other", "fresh", "legacy")

	var log []string
	for _, c := range answers[[]operate.Change](d, "GET", "/audit") {
		log = append(log, fmt.Sprintf("%s %s %s %s>%s", c.Action, c.By, c.Partner, operate.InWords(c.From, c.FromPercent), operate.InWords(c.To, c.ToPercent)))
	}
	p := hash("k")[:12]
	want := []string{
		"restored carl  >", "stage anna default >drained", "stage anna " + p + " canary 100 %>canary 0 %", "stage 박 " + p + " new>canary 100 %",
		"resume ben  >", "stop ben  >", "stage anna " + p + " >new", "begin begin  >",
	}
	equal(t, log, want, "the audit log")
	if got := answers[[]operate.Change](d, "GET", "/audit?limit=2"); len(got) != 2 {
		t.Errorf("the last two are %v", got)
	}
	for _, line := range []string{
		`"msg":"the rollout was changed","action":"stop","by":"ben"}`,
		`"action":"stage","by":"anna","partner":"` + p + `","from":"canary 100 %","to":"canary 0 %","forced":false}`,
		`"action":"stage","by":"anna","partner":"default","from":"old","to":"drained","forced":true,"overridden":"open_bills"}`,
	} {
		has(t, d.logs.String(), line)
	}
	lacks(t, d.logs.String(), hash("k")[:13], "the log has more than 12 digits")
}

// A second stop keeps the name and time of the first, and a second resume is refused. Neither is in the audit log.
func TestStoppedAndResumedTwice(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	d, other := newTestOperator(t, s, separate), newTestOperator(t, s, separate)
	d.seen("k", time.Hour)
	d.proves("k")
	d.change("/rollout/stage?stage=new&by=anna&partner=<k>")
	d.refuses("/rollout/resume?by=carl", "Not changed: the rollout is not stopped")
	first := d.change("/rollout/stop?by=ben")
	log := d.ask("GET", "/audit").Body.String()
	if first.Already || strings.Count(log, `"action"`) != 3 {
		t.Errorf("%+v, and in the audit log %s", first, log)
	}
	first.Already = true
	logged := d.logs.Len()
	for _, testOperator := range []*testOperator{d, other} { // other has not read the change yet
		testOperator.later.Add(int64(time.Minute))
		for _, target := range []string{"stop?by=carl", "stop?by=carl&force=<all>", "stop?by=ben"} {
			equal(t, testOperator.change("/rollout/"+target), first, target)
		}
		if route, _ := testOperator.creates("k"); route.Reason != "stop" {
			t.Errorf("%+v", route)
		}
	}
	if now := d.ask("GET", "/audit").Body.String(); now != log || d.logs.Len() != logged {
		t.Errorf("the audit log is %s\nwas %s\nand the log\n%s", now, log, &d.logs)
	}
	// A second stop has no blocking reasons.
	first.Revision = d.change("/rollout/restored?by=anna").Revision
	equal(t, d.change("/rollout/stop?by=carl"), first)
	d.change("/rollout/resume?by=carl")
	d.refuses("/rollout/resume?by=ben", "Not changed: the rollout is not stopped")
	d.refuses("/rollout/stop?by=carl", "the store was restored from a backup")
}

// The status shows this for every store of the tests.
const (
	begun = `"begun":{"by":"begin","at":"2026-11-21T02:34:56Z"},`
	clock = `"clock":{"store":"2026-11-21T03:34:56Z","offset_seconds":0,"stepped":false},`
)

// The status shows stages, bills and times; partners by 12 digits.
func TestOperatorShows(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	w := d.ask("GET", "/rollout")
	if want := `{"old":"legacy","new":"fresh","bills":"separate","split":"bill","settle":"15m",` + begun + `"default":{"stage":"old"},` + clock + `"partners":[]}` + "\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	if w := d.ask("GET", "/audit"); strings.Count(w.Body.String(), "action") != 1 { // the begin
		t.Errorf("%s", w.Body)
	}
	d.seen("k", time.Hour)
	d.seen("young", time.Minute)
	d.owns("k", "legacy", 1, 2, 3)
	d.owns("k", "fresh", 0, 1, 0)
	d.owns("owner", "legacy", 0, 1, 0)
	for _, target := range []string{
		"stage?by=anna&stage=canary&percent=10&partner=<k>", "stage?by=anna&stage=shadow&partner=default",
		"stage?by=anna&stage=new&force=<all>&partner=<staged>", "stop?by=ben", "restored?by=carl",
	} {
		d.change("/rollout/" + target)
	}
	of := map[string]string{
		"k": `{"partner":"` + hash("k")[:12] + `","stage":"canary","percent":10,"by":"anna","at":"2026-11-21T03:34:56Z","effect":{"split":"bill","percent":10,"bills":0,"merchants":0,"reached":0},"by_default":false,"seen":"2026-11-21T02:34:56Z","settled":true,` +
			`"bills":[{"upstream":"fresh","pending":0,"owned":1,"over":0,"ended":0,"released":0},{"upstream":"legacy","pending":1,"owned":2,"over":0,"ended":0,"released":3}]}`,
		"young":  `{"partner":"` + hash("young")[:12] + `","stage":"shadow","by":"anna","at":"2026-11-21T03:34:56Z","by_default":true,"seen":"2026-11-21T03:33:56Z","settled":false,"settles_at":"2026-11-21T03:48:56Z"}`,
		"owner":  `{"partner":"` + hash("owner")[:12] + `","stage":"shadow","by":"anna","at":"2026-11-21T03:34:56Z","by_default":true,"settled":false,"bills":[{"upstream":"legacy","pending":0,"owned":1,"over":0,"ended":0,"released":0}]}`,
		"staged": `{"partner":"` + hash("staged")[:12] + `","stage":"new","by":"anna","at":"2026-11-21T03:34:56Z","forced":true,"by_default":false,"settled":false}`,
		"nobody": `{"partner":"` + hash("nobody")[:12] + `","stage":"shadow","by":"anna","at":"2026-11-21T03:34:56Z","by_default":true,"settled":false}`,
	}
	head := `{"old":"legacy","new":"fresh","bills":"separate","split":"bill","settle":"15m","stopped":{"by":"ben","at":"2026-11-21T03:34:56Z"},` +
		`"restored":{"by":"carl","at":"2026-11-21T03:34:56Z"},` + begun + `"refused_until":"2026-11-21T03:49:56Z","default":{"stage":"shadow","by":"anna","at":"2026-11-21T03:34:56Z"},` + clock + `"partners":[`
	var all []string
	for key := range of {
		if key != "nobody" {
			all = append(all, of[key])
		}
		if w := d.ask("GET", "/rollout?partner="+hash(key)); w.Body.String() != head+of[key]+"]}\n" {
			t.Errorf("%s\nwant\n%s", w.Body, of[key])
		}
	}
	w = d.ask("GET", "/rollout")
	rest, ok := strings.CutPrefix(w.Body.String(), head)
	for _, one := range all {
		has(t, rest, one, w.Body)
	}
	if !ok || len(rest) != len(strings.Join(all, ","))+len("]}\n") {
		t.Errorf("%s\nwant\n%s", w.Body, head)
	}
	if shown := answers[operate.Status](d, "GET", "/rollout"); shown.Partners[0].Partner > shown.Partners[1].Partner {
		t.Errorf("in no order: %+v", shown.Partners)
	}
}

// Partners that were seen, that have a stage and that have bills are in one order, each once.
func TestStatusHasPages(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	var want []string
	for i := range 20 {
		key := fmt.Sprint("key", i)
		want = append(want, hash(key)[:12])
		switch i % 3 {
		case 0:
			must(t, d.store.Seen(t.Context(), partner.ID(hash(key)), time.Now()))
		case 1:
			d.owns(key, "legacy", 1, 0, 0)
		default:
			must(t, d.store.SetStage(t.Context(), store.Stage{Partner: partner.ID(hash(key)), Stage: "shadow", By: "kim", At: time.Now()}))
		}
	}
	slices.Sort(want)
	for _, limit := range []int{1, 3, 19, 20, 21} {
		var got []string
		bills, pages := 0, 0
		for after := ""; ; pages++ {
			page := answers[operate.Status](d, "GET", fmt.Sprintf("/rollout?limit=%d%s", limit, after))
			if len(page.Partners) > limit {
				t.Errorf("a page of %d has %d", limit, len(page.Partners))
			}
			for _, p := range page.Partners {
				got = append(got, p.Partner)
				bills += len(p.Bills)
			}
			if page.Next == "" {
				break
			}
			after = "&after=" + page.Next
		}
		if diff := cmp.Diff(want, got); diff != "" || bills != 7 || pages != (20-1)/limit {
			t.Errorf("pages of %d: %d, bills %d\n%s", limit, pages, bills, diff)
		}
	}
	d.denies(400, "GET", "/rollout?limit=0", "limit must be 1 to 10000, but is")
	d.denies(400, "GET", "/rollout?after=x", "after must be next of the previous page")
}

var (
	must, works  = proxytest.Must, proxytest.Works
	has, lacks   = proxytest.Has, proxytest.Lacks
	gives, fails = proxytest.Gives, proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
