package console

import (
	"encoding/json"
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
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
)

// An api answers the paths of the admin API with JSON, or with a text. It has no other paths.
type api map[string]any

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, ok := a[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if text, ok := answer.(string); ok {
		_, _ = w.Write([]byte(text))
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
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
	dead := func(n int, more bool) api {
		return api{"/callbacks/counts": relay.Counts{"waiting": {Number: 7}, "dead": {Number: n, More: more}}}
	}
	for name, row := range map[string]struct {
		options Options
		reload  error
		call    *proxy.Finished
		want    []string
	}{
		"nothing":         {Options{Ready: api{"/-/ready": "ready\nserving: ok\nstore: ok\n"}, Callbacks: dead(0, false), Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}}}}, nil, finished("x"), nil},
		"not ready":       {Options{Ready: api{"/-/ready": "not ready: the store cannot be written to\nserving: ok\nstore: the store cannot be written to\n"}}, nil, nil, []string{"problem  Not ready: store: the store cannot be written to"}},
		"unpaired codes":  {Options{Gateway: unpaired{}}, nil, nil, []string{"notice /calls?upstream=old The upstream old answered with codes that partners of the other form do not know: 9800, 9980. Add pairs to the table."}},
		"breaker":         {Options{Gateway: openBreaker{at}}, nil, nil, []string{"problem /calls?outcome=failed&upstream=old The breaker of the upstream old is open since " + when}},
		"callbacks":       {Options{Callbacks: dead(3, false)}, nil, nil, []string{"problem /deliveries?state=dead Failed callbacks that wait for a decision: 3"}},
		"many callbacks":  {Options{Callbacks: dead(1000, true)}, nil, nil, []string{"problem /deliveries?state=dead Failed callbacks that wait for a decision: 1,000+"}},
		"broken API":      {Options{Callbacks: api{}, Rollout: api{}}, nil, nil, []string{"problem /partners The rollout cannot be read: 404 page not found", "problem /deliveries The callbacks cannot be read"}},
		"stopped":         {Options{Rollout: api{"/rollout": rollout.Status{Stopped: &rollout.Declared{By: "anna", At: at}}}}, nil, nil, []string{"problem /partners The kill switch is on, by anna, since " + when}},
		"stopped here":    {Options{Rollout: api{"/rollout": rollout.Status{Stopped: &rollout.Declared{By: "anna", At: at}, Unstored: true}}}, nil, nil, []string{"problem /partners The kill switch is on, by anna, on this gateway only"}},
		"not begun":       {Options{Rollout: api{"/rollout": rollout.Status{Started: &at}}}, nil, nil, []string{"notice /partners The rollout has not begun"}},
		"lost writes":     {Options{Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}, Restored: &rollout.Declared{By: store.ByFailOver, At: time.Now()}}}}, nil, nil, []string{"problem /partners PostgreSQL failed over at "}},
		"lost long ago":   {Options{Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}, Restored: &rollout.Declared{By: store.ByFailOver, At: time.Now().Add(-25 * time.Hour)}}}}, nil, nil, nil},
		"restored":        {Options{Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}, Restored: &rollout.Declared{By: "anna", At: time.Now()}}}}, nil, nil, nil},
		"clock":           {Options{Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}, Clock: &rollout.Clock{Stepped: true}}}}, nil, nil, []string{"problem  The clock differs"}},
		"reload":          {Options{}, errors.New("billbridge.yaml:1:1: canary"), nil, []string{"problem /config The last reload of the config was refused"}},
		"unknown":         {Options{}, nil, &proxy.Finished{At: time.Now(), Unknown: true}, []string{"problem /calls?outcome=unknown Writes with an unknown outcome in the last 60 minutes: 1"}},
		"failed":          {Options{}, nil, &proxy.Finished{At: time.Now(), Called: true, Reason: "reset"}, []string{"notice /calls?outcome=failed Calls that failed in the last 60 minutes: 1"}},
		"unknown bills":   {Options{Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}}, "/rollout/bills": rollout.BillList{Bills: make([]rollout.BillLine, 1), LeftOut: 4}}}, nil, &proxy.Finished{At: time.Now(), Unknown: true}, []string{"problem /bills Writes with an unknown outcome that nobody has resolved: 5"}},
		"failed verdicts": {Options{Rollout: api{"/rollout": rollout.Status{Begun: &rollout.Declared{}, Failing: 1}}}, nil, nil, []string{"problem /partners Partners with a FAIL in the rollout report: 1"}},
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
	c := newConsole(t, Options{Now: func() time.Time { return now }, Callbacks: api{"/callbacks/counts": relay.Counts{"waiting": {Number: 1234}}}})
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
