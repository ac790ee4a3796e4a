package console

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"billbridge/proxy"
	"billbridge/proxy/operate"
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
	ready := func(list ...Problem) func() []Problem { return func() []Problem { return list } }
	for name, row := range map[string]struct {
		options Options
		reload  error
		call    *proxy.Finished
		want    []string
	}{
		"nothing":   {Options{Ready: ready()}, nil, finished("x"), nil},
		"not ready": {Options{Ready: ready(Problem{"store", "the store cannot be written to"})}, nil, nil, []string{"problem  Not ready: store: the store cannot be written to"}},
		"reload":    {Options{}, errors.New("billbridge.yaml:1:1: canary"), nil, []string{"problem  The last reload of the config was refused"}},
		"unknown":   {Options{}, nil, &proxy.Finished{Times: proxy.Times{At: time.Now()}, Unknown: true}, []string{"problem /calls?outcome=unknown Writes with an unknown outcome in the last 60 minutes: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, row.options)
			if row.reload != nil {
				c.Operator.NoteReading(row.reload)
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
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for line := range strings.Lines(string(proxytest.ReadFile(t, "testdata/rolloutstates.txt"))) {
		state, want, _ := strings.Cut(strings.TrimSpace(line), " => ")
		var status operate.Status
		must(t, json.Unmarshal([]byte(state), &status))
		a := attentions{console: newConsole(t, Options{Now: func() time.Time { return noon }}), r: httptest.NewRequest("GET", "/", nil)}
		a.state(status)
		got := ""
		for _, one := range a.list {
			text, err := a.console.t("en", one.Key, one.Args)
			must(t, err)
			got += map[bool]string{true: "problem ", false: "notice "}[one.Bad] + one.Link + " " + string(text)
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" || len(a.list) > 1 {
			t.Errorf("%s: %q", line, got)
		}
	}
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
		`href="/calls?outcome=blocked"><b>1</b> <span>refused by gateway</span>`,
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

func TestManyAreAtLeast(t *testing.T) {
	t.Parallel()
	equal(t, atLeast(operate.Number{Number: 1000, More: true}), "1,000+")
}
