package console

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
	"billbridge/proxy/store"
)

// A stubRollout has a status and bills.
type stubRollout struct {
	Rollout
	status operate.Status
	bills  operate.BillList
	err    error
}

func (s stubRollout) Status(context.Context, operate.Page) (operate.Status, error) {
	return s.status, s.err
}

func (s stubRollout) Bills(context.Context, operate.BillFilter) (operate.BillList, error) {
	return s.bills, s.err
}

// callbackVerbs is another name, because a method has that of the interface.
type callbackVerbs = Callbacks

// stubCallbacks have numbers and one callback.
type stubCallbacks struct {
	callbackVerbs
	counts operate.Counts
	one    operate.Callback
	err    error
}

func (s stubCallbacks) Counts(context.Context, operate.CountLimit) (operate.Counts, error) {
	return s.counts, s.err
}

func (s stubCallbacks) Callback(context.Context, operate.CallbackRef) (operate.Callback, error) {
	return s.one, s.err
}

func (s stubCallbacks) Callbacks(context.Context, operate.CallbackFilter) (operate.CallbackPage, error) {
	return operate.CallbackPage{Callbacks: []operate.Callback{s.one}}, s.err
}

var noted = regexp.MustCompile(`<li class="(problem|notice)">(?:<a id="[^"]+" href="([^"]*)">)?([^<]*)`)

// attentionsOn returns what a page says needs a person: severity, link and text of each.
func attentionsOn(body string) (list []string) {
	for _, found := range noted.FindAllStringSubmatch(body, -1) {
		list = append(list, html.UnescapeString(found[1]+" "+found[2]+" "+found[3]))
	}
	return list
}

// What needs a person comes first on the overview, each with a link, and only while it is so.
func TestOverviewShowsWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.Local)
	when := at.Format(time.RFC3339)
	dead := func(n int, more bool) Callbacks {
		return stubCallbacks{counts: operate.Counts{"waiting": {Number: 7}, "dead": {Number: n, More: more}}}
	}
	is := func(s operate.Status) Options { return Options{Rollout: stubRollout{status: s}} }
	ready := func(list ...Problem) func() []Problem { return func() []Problem { return list } }
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		options Options
		reload  error
		call    *proxy.Finished
		want    []string
	}{
		"nothing":         {Options{Ready: ready(), Callbacks: dead(0, false), Rollout: stubRollout{status: operate.Status{Begun: &operate.Declared{}}}}, nil, finished("x"), nil},
		"not ready":       {Options{Ready: ready(Problem{"store", "the store cannot be written to"})}, nil, nil, []string{"problem  Not ready: store: the store cannot be written to"}},
		"unpaired codes":  {Options{Gateway: unpaired{}}, nil, nil, []string{"notice /calls?upstream=old The upstream old answered with codes that partners of the other form do not know: 9800, 9980. Add pairs to the table."}},
		"breaker":         {Options{Gateway: openBreaker{at}}, nil, nil, []string{"problem /calls?outcome=failed&upstream=old The breaker of the upstream old is open since " + when}},
		"callbacks":       {Options{Callbacks: dead(3, false)}, nil, nil, []string{"problem /deliveries?state=dead Failed callbacks that wait for a decision: 3"}},
		"many callbacks":  {Options{Callbacks: dead(1000, true)}, nil, nil, []string{"problem /deliveries?state=dead Failed callbacks that wait for a decision: 1,000+"}},
		"broken API":      {Options{Callbacks: stubCallbacks{err: broken}, Rollout: stubRollout{err: broken}}, nil, nil, []string{"problem /partners The rollout cannot be read: broken", "problem /deliveries The callbacks cannot be read"}},
		"stopped":         {is(operate.Status{Stopped: &operate.Declared{By: "anna", At: at}}), nil, nil, []string{"problem /partners The kill switch is on, by anna, since " + when}},
		"stopped here":    {is(operate.Status{Stopped: &operate.Declared{By: "anna", At: at}, Unstored: true}), nil, nil, []string{"problem /partners The kill switch is on, by anna, on this gateway only"}},
		"not begun":       {is(operate.Status{Started: &at}), nil, nil, []string{"notice /partners The rollout has not begun"}},
		"lost writes":     {is(operate.Status{Begun: &operate.Declared{}, Restored: &operate.Declared{By: store.ByFailOver, At: time.Now()}}), nil, nil, []string{"problem /partners PostgreSQL failed over at "}},
		"lost long ago":   {is(operate.Status{Begun: &operate.Declared{}, Restored: &operate.Declared{By: store.ByFailOver, At: time.Now().Add(-25 * time.Hour)}}), nil, nil, nil},
		"restored":        {is(operate.Status{Begun: &operate.Declared{}, Restored: &operate.Declared{By: "anna", At: time.Now()}}), nil, nil, nil},
		"clock":           {is(operate.Status{Begun: &operate.Declared{}, Clock: &operate.Clock{Stepped: true}}), nil, nil, []string{"problem  The clock differs"}},
		"reload":          {Options{}, errors.New("billbridge.yaml:1:1: canary"), nil, []string{"problem /config The last reload of the config was refused"}},
		"unknown":         {Options{}, nil, &proxy.Finished{At: time.Now(), Unknown: true}, []string{"problem /calls?outcome=unknown Writes with an unknown outcome in the last 60 minutes: 1"}},
		"failed":          {Options{}, nil, &proxy.Finished{At: time.Now(), Called: true, Reason: "reset"}, []string{"notice /calls?outcome=failed Calls that failed in the last 60 minutes: 1"}},
		"unknown bills":   {Options{Rollout: stubRollout{status: operate.Status{Begun: &operate.Declared{}}, bills: operate.BillList{Bills: make([]operate.BillLine, 1), LeftOut: 4}}}, nil, &proxy.Finished{At: time.Now(), Unknown: true}, []string{"problem /bills Writes with an unknown outcome that nobody has resolved: 5"}},
		"failed verdicts": {is(operate.Status{Begun: &operate.Declared{}, Failing: 1}), nil, nil, []string{"problem /partners Partners with a FAIL in the rollout report: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, row.options)
			if row.reload != nil {
				c.Reloaded(row.reload)
			}
			if row.call != nil {
				c.Finished(row.call)
			}
			status, body := get(t, c, "/", "en")
			got := attentionsOn(body)
			ok := status == http.StatusOK && len(got) == len(row.want) && strings.Contains(body, "Nothing needs a person") == (row.want == nil) && !strings.Contains(body, "canary")
			for i := range row.want {
				ok = ok && strings.HasPrefix(got[i], row.want[i])
			}
			if !ok {
				t.Errorf("%d: got %q, want %q", status, got, row.want)
			}
			if status, _ := get(t, c, "/", "ko"); status != http.StatusOK {
				t.Errorf("in Korean: %d", status)
			}
		})
	}
}

// unpaired is a gateway whose upstream answered with codes without a pair.
type unpaired struct{}

func (unpaired) Upstreams() []proxy.UpstreamStatus {
	up := &config.Upstream{Name: "old", Form: "legacy", Address: config.Address{URL: &url.URL{Host: "127.0.0.1"}}}
	return []proxy.UpstreamStatus{{Upstream: up, Breaker: "closed", Unpaired: []string{"9800", "9980"}}}
}

// openBreaker is a gateway whose upstream has an open breaker.
type openBreaker struct{ at time.Time }

func (g openBreaker) Upstreams() []proxy.UpstreamStatus {
	up := &config.Upstream{Name: "old", Form: "legacy", Address: config.Address{URL: &url.URL{Host: "127.0.0.1"}}}
	return []proxy.UpstreamStatus{{Upstream: up, Breaker: "open", Opened: &g.at}}
}

// The numbers are those of the last 60 minutes, and a gateway that has started since says so.
func TestOverviewCountsSixtyMinutes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	c := newConsole(t, Options{Now: func() time.Time { return now }, Callbacks: stubCallbacks{counts: operate.Counts{"waiting": {Number: 1234}}}})
	started := now
	for range 1500 {
		f := finished("x")
		f.At = now
		c.Finished(f)
	}
	now = now.Add(59 * time.Minute)
	_, body := get(t, c, "/", "en")
	for _, part := range []string{"<b>1,500</b>", `data-label="calls">1,500<`, "Counted since <time datetime=\"" + started.Local().Format(time.RFC3339), "127.0.0.1:1<", ">1,234<", "/calls?operation=bill.read&amp;upstream=new"} {
		if !strings.Contains(body, part) {
			t.Errorf("after 59 minutes there is no %q", part)
		}
	}
	now = now.Add(time.Minute)
	if _, body := get(t, c, "/", "en"); !strings.Contains(body, "<b>0</b>") || strings.Contains(body, "Counted since") || strings.Contains(body, "1,500") || !strings.Contains(body, "No call has ended yet") {
		t.Errorf("after 60 minutes:\n%s", body)
	}
}
