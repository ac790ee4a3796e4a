package console

import (
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

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
	ready := func(list ...Problem) func() []Problem { return func() []Problem { return list } }
	for name, row := range map[string]struct {
		options Options
		reload  error
		call    *proxy.Finished
		want    []string
	}{
		"nothing":   {Options{Ready: ready()}, nil, finished("x"), nil},
		"not ready": {Options{Ready: ready(Problem{"store", "the store cannot be written to"})}, nil, nil, []string{"problem  Not ready: store: the store cannot be written to"}},
		"breaker":   {Options{Gateway: openBreaker{at}}, nil, nil, []string{"problem /calls?outcome=failed&upstream=old The breaker of the upstream old is open since "}},
		"reload":    {Options{}, errors.New("billbridge.yaml:1:1: canary"), nil, []string{"problem /config The last reload of the config was refused"}},
		"unknown":   {Options{}, nil, &proxy.Finished{At: time.Now(), Unknown: true}, []string{"problem /calls?outcome=unknown Writes with an unknown outcome in the last 60 minutes: 1"}},
		"failed":    {Options{}, nil, &proxy.Finished{At: time.Now(), Called: true, Reason: "reset"}, []string{"notice /calls?outcome=failed Calls that failed in the last 60 minutes: 1"}},
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
			gives(t, http.StatusOK, "in Korean")(get(t, c, "/", "ko"))
		})
	}
}

// The state of the rollout needs a person only while it is so.
func TestOverviewShowsTheStateOfTheRollout(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.Local)
	for _, row := range []struct {
		status operate.Status
		want   []string
	}{
		{operate.Status{Stopped: &operate.Declared{By: "anna", At: at}}, []string{"problem /partners The kill switch is on, by anna, since "}},
		{operate.Status{Stopped: &operate.Declared{By: "anna", At: at}, Unstored: true}, []string{"problem /partners The kill switch is on, by anna, on this gateway only"}},
		{operate.Status{Started: &at}, []string{"notice /partners The rollout has not begun"}},
		{operate.Status{Begun: &operate.Declared{}, Restored: &operate.Declared{By: store.ByFailOver, At: time.Now()}}, []string{"problem /partners PostgreSQL failed over at "}},
		{operate.Status{Begun: &operate.Declared{}, Restored: &operate.Declared{By: store.ByFailOver, At: time.Now().Add(-25 * time.Hour)}}, nil},
		{operate.Status{Begun: &operate.Declared{}, Restored: &operate.Declared{By: "anna", At: time.Now()}}, nil},
		{operate.Status{Begun: &operate.Declared{}, Clock: &operate.Clock{Stepped: true}}, []string{"problem  The clock differs"}},
		{operate.Status{Begun: &operate.Declared{}, Failing: 1}, []string{"problem /partners Partners with a FAIL in the rollout report: 1"}},
	} {
		a := attentions{console: newConsole(t, Options{}), r: httptest.NewRequest("GET", "/", nil)}
		a.state(row.status)
		var got []string
		for _, one := range a.list {
			got = append(got, map[bool]string{true: "problem ", false: "notice "}[one.Bad]+one.Link+" "+string(one.Text))
		}
		if !slices.EqualFunc(got, row.want, strings.HasPrefix) {
			t.Errorf("%+v: %q, want %q", row.status, got, row.want)
		}
	}
}

// Failed callbacks and writes with an unknown outcome need a person, and so does a store that cannot be read.
func TestOverviewOfAStore(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	s.add("one", "B1", store.Dead, time.Hour)
	s.add("one", "B2", store.Dead, time.Hour)
	s.unknown("one", "B3", "r1")
	must(t, errors.Join(s.store.Prove(t.Context(), partner.Of("one")), s.operator.Rollout.SetGauges(t.Context())))
	s.Finished(&proxy.Finished{At: s.now, Unknown: true})
	want := []string{
		"notice /partners The rollout has not begun",
		"problem /bills Writes whose outcome is still unknown after the reads of the gateway: 1",
		"problem /deliveries?state=failed Failed callbacks that wait for a decision: 2",
	}
	if got := attentionsOn(s.page("/")); !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("%q, want %q", got, want)
	}
	equal(t, atLeast(operate.Number{Number: 1000, More: true}), "1,000+", "more than 1000")
	must(t, s.store.Close())
	want = []string{"problem /partners The rollout cannot be read: store: closed", "problem /deliveries The callbacks cannot be read: store: closed"}
	if got := attentionsOn(s.page("/")); !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("%q, want %q", got, want)
	}
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
	c := newConsole(t, Options{Now: func() time.Time { return now }})
	started := now
	for i := range 1500 {
		f := finished("x")
		f.At = now
		if i < 3 {
			f.Succeeded, f.Reason = false, "reset"
		}
		c.Finished(f)
	}
	f := finished("a later one")
	f.At, f.Called, f.Succeeded, f.Operation = now.Add(48*time.Minute), false, false, "bill.create"
	c.Finished(f)
	now = now.Add(59 * time.Minute)
	_, body := get(t, c, "/", "en")
	for _, part := range []string{
		`<span>2,000</span><span>1,000</span><span>0</span>`,
		`<title>59 min ago: calls 1,500, red 3</title><rect class="hit" x="0" width="10" height="60"/><rect class="bar" x="0" y="15" width="8" height="45"/><rect class="bar-bad" x="0" y="58" width="8" height="2"/>`,
		`<title>11 min ago: calls 1, red 0</title>`, `href="/calls?outcome=blocked"><b>1</b> <span>refused by gateway</span>`,
		`href="/calls?operation=bill.read&amp;upstream=new&amp;outcome=failed">3<`, `href="/calls?operation=bill.create&amp;upstream=new&amp;outcome=blocked">1<`,
		`data-label="p99">2.9 ms<`,
		"<b>1,501</b>", `data-label="calls">1,500<`, "Counted since <time datetime=\"" + started.Format(time.RFC3339), "127.0.0.1:1<", "/calls?operation=bill.read&amp;upstream=new",
	} {
		has(t, body, part, "after 59 minutes")
	}
	now = now.Add(time.Hour)
	if _, body := get(t, c, "/", "en"); !strings.Contains(body, "<b>0</b>") || strings.Contains(body, "Counted since") || strings.Contains(body, "1,500") || !strings.Contains(body, "No call has ended yet") {
		t.Errorf("after two hours:\n%s", body)
	}
}
