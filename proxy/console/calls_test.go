package console

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
	"billbridge/translate/billing"
)

// namesConfig names two partners.
const namesConfig = testConfig + `
partners:
  5f7b2ed74a97: {name: Hana Clinic}
  aaaabbbbcccc: {name: Hana Academy}
`

var shownKeys = regexp.MustCompile(`href="/calls/([0-9a-z]+)"`)

// shownIDs returns the ids of the calls on a page, the newest first.
func shownIDs(c *Console, body string) string {
	var ids []string
	for _, key := range shownKeys.FindAllStringSubmatch(body, -1) {
		ids = append(ids, c.ring.find(key[1]).ID)
	}
	return strings.Join(ids, " ")
}

// Calls are found by each of their columns.
func TestCallsAreFiltered(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Config: configOf(proxytest.Config(t, namesConfig))})
	log := ""
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	calls, queries, _ := strings.Cut(string(proxytest.ReadFile(t, "testdata/callfilters.txt")), "query ")
	for i, change := range strings.Split(calls, "\ncall ")[1:] {
		f := finished(fmt.Sprint(i))
		f.At = noon.Add(time.Duration(i) * time.Minute).Local()
		must(t, json.Unmarshal([]byte(change), f))
		c.Finished(f)
		log = f.Line() + log
	}
	log = "not JSON\n" + log
	for row := range strings.SplitSeq(queries, "\nquery ") {
		query, want, _ := strings.Cut(strings.TrimSpace(row), " =>")
		want = strings.TrimSpace(want)
		status, body := get(t, c, "/calls"+query, "en")
		if got := shownIDs(c, body); status != http.StatusOK || got != want {
			t.Errorf("%s: %d, shows %q, want %q", query, status, got, want)
		}
		if got := searchedIDs(t, body, log); got != want && !strings.Contains(query, "bill=") { // the log lacks it
			t.Errorf("%s: the command finds %q, want %q", query, got, want)
		}
	}
}

var searchCommand = regexp.MustCompile(`<pre tabindex="0">journalctl -u billbridge -o cat \| ([^<]*)</pre>`)

// searchedIDs returns the ids of the calls that the command of a page finds in a log.
func searchedIDs(t *testing.T, body, log string) string {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("not checked: the command that searches the log, since jq is missing")
	}
	command := exec.CommandContext(t.Context(), "sh", "-c", html.UnescapeString(searchCommand.FindStringSubmatch(body)[1]))
	command.Stdin = strings.NewReader(log)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s: %s", err, command.Args[2], out)
	}
	var ids []string
	for _, found := range regexp.MustCompile(`"id":"(\d+)"`).FindAllStringSubmatch(string(out), -1) {
		ids = append(ids, found[1])
	}
	return strings.Join(ids, " ")
}

// The pages of a list have each call once.
func TestCallsHaveOlderPages(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for i := range callsOnPage + 5 {
		c.Finished(finished(fmt.Sprint(i)))
	}
	status, body := get(t, c, "/calls?outcome=ok", "en")
	older := regexp.MustCompile(`id="older" href="(/calls\?before=[^"]*)"`).FindStringSubmatch(body)
	if status != http.StatusOK || older == nil || !strings.HasSuffix(shownIDs(c, body), " 6 5") || !strings.Contains(body, "hx-get=") {
		t.Fatalf("%d, the older page is %v, shows %s", status, older, shownIDs(c, body))
	}
	_, body = get(t, c, strings.ReplaceAll(older[1], "&amp;", "&"), "en")
	if got := shownIDs(c, body); got != "4 3 2 1 0" || strings.Contains(body, "hx-get=") || !strings.Contains(older[1], "outcome=ok") {
		t.Errorf("the older page %s shows %q", older[1], got)
	}
}

// A filter that is not valid is refused, and its values, which may be keys, are not on the page.
func TestWrongFiltersAreNotShown(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Config: configOf(proxytest.Config(t, namesConfig))})
	c.Finished(finished("1"))
	for query, want := range map[string]string{
		"bill=" + strings.Repeat("x", longestFilter+1): "longer than any value",
		"id=" + strings.Repeat("%F0", 10):              "not UTF-8",
		"partner=canary-key-4f19":                      "No partner has such a name",
		"partner=5f7":                                  "No partner has such a name",
		"slower=canary":                                "number of milliseconds",
		"slower=-1":                                    "number of milliseconds",
		"slower=NaN":                                   "number of milliseconds",
		"slower=1e30":                                  "number of milliseconds",
		"from=canary":                                  "A time must be written",
		"to=2026-13-01T00:00":                          "A time must be written",
		"before=canary!":                               "page of the list",
		"bill=" + strings.Repeat("y", 1<<20):           "longer than any value",
	} {
		status, body := get(t, c, "/calls?operation=canary&"+query, "en")
		if status != http.StatusBadRequest || !strings.Contains(body, want) || strings.Contains(body, "canary") || len(body) > 20_000 {
			t.Errorf("%.80s: %d, want %q in:\n%.4000s", query, status, want, body)
		}
	}
}

// A caller cannot put HTML on a page.
func TestHostileValuesAreEscaped(t *testing.T) {
	t.Parallel()
	const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>'{{.}}javascript:alert(1)`
	c := newConsole(t, Options{})
	f := finished(script)
	f.Partner, f.Bill, f.Operation, f.Client, f.Form, f.Upstream, f.Route, f.Code, f.Reason, f.Field = script, script, script, script, script, script, script, script, script, script
	f.Request = []byte(`{"apikey":"k","<script>alert(1)</script>":"x","bill_id":"<script>alert(1)</script>"}`)
	f.Reply = []byte(`<script>alert(1)</script>`)
	f.RequestSize, f.ReplySize, f.ReplyStatus = len(f.Request), len(f.Reply), 200
	f.Translation = c.Config().Table.Operation("bill.read").Translation("legacy", "v2")
	c.Finished(f)
	q := url.QueryEscape(script)
	targets := []string{"/", "/calls", "/calls/" + keyOf(c.ring.newest()), "/calls/" + url.PathEscape(script), "/" + url.PathEscape(script)}
	for _, key := range []string{"partner", "operation", "client", "form", "upstream", "route", "code", "bill", "id", "slower", "from", "to", "outcome", "before", "lang", "next", q} {
		targets = append(targets, "/calls?"+key+"="+q, "/sign-in?"+key+"="+q, "/?"+key+"="+q)
	}
	for _, target := range targets {
		for _, language := range pages.Languages {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			r.Header.Set("Accept-Language", language)
			r.Header.Set("X-Request-Id", script)
			status, body := do(c, r)
			for _, bad := range []string{"<script>alert", "<img src=x", `"><` + "script", "href=\"javascript:"} {
				lacks(t, body, bad, target, status)
			}
		}
	}
	if _, body := get(t, c, "/calls", "en"); !strings.Contains(body, "&lt;script&gt;alert(1)") {
		t.Error("the test shows nothing: the call is not on the page")
	}
}

// One call shows what became of its fields, with the values that may be shown, and its line of the log.
func TestCallShowsItsFieldsAndItsLine(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Config: configOf(proxytest.Config(t, namesConfig))})
	f := finished("the-id")
	f.Request = []byte(`{"apikey":"canary-key","member":"m","merchant":"s","bill_id":"BILL-1"}`)
	f.Reply = []byte(`{"code":"0000","message":"OK","data":{"apiKey":"canary-key","billId":"BILL-1","apprState":"F","apprPrice":30000,"apprIssuer":"canary-name","extra":1}}`)
	f.RequestSize, f.ReplySize, f.ReplyStatus, f.BodyTook = len(f.Request), len(f.Reply), 200, time.Millisecond
	f.Translation = c.Config().Table.Operation("bill.read").Translation("legacy", "v2")
	c.Finished(f)
	status, body := get(t, c, "/calls/"+keyOf(c.ring.newest()), "en")
	for _, part := range []string{
		"Hana Clinic", "BILL-1", "apprPrice", "30000", "appr_price", "converted", "renamed", "dropped", "•••", "legacy → v2", "owner of the bill",
		`&#34;id&#34;:&#34;the-id&#34;`, `&#34;upstream_ms&#34;:2`, `x="33.33" width="0.00"`,
	} {
		has(t, body, part)
	}
	if status != http.StatusOK || strings.Contains(body, "canary") || t.Failed() {
		t.Errorf("%d\n%s", status, body)
	}
	large := finished("large")
	large.RequestSize, large.ReplySize, large.ReplyStatus, large.Translation, large.Logged = proxy.MaxKept+1, 1, 200, f.Translation, false
	c.Finished(large)
	_, body = get(t, c, "/calls/"+keyOf(c.ring.newest()), "en")
	if !strings.Contains(body, "The message is not kept") || !strings.Contains(body, "The log does not have this line") {
		t.Errorf("a large call that was not logged:\n%s", body)
	}
	hidden := finished("hidden")
	hidden.Bill, hidden.Unknown, hidden.Succeeded = "01044448217", true, false
	c.Finished(hidden)
	if _, body := get(t, c, "/calls/"+keyOf(c.ring.newest()), "en"); strings.Contains(body, hidden.Bill) || !strings.Contains(body, `&#34;bill&#34;:&#34;•••&#34;`) {
		t.Errorf("a phone in the place of a bill id:\n%s", body)
	}
	for _, key := range []string{"0", "none", strings.Repeat("z", 1000), "..%2f..%2fmetrics", keyOf(c.ring.newest() + 1)} {
		if status, body := get(t, c, "/calls/"+key, "en"); status != http.StatusNotFound || !strings.Contains(body, "not kept any more") {
			t.Errorf("the call %.50s: %d %s", key, status, body)
		}
	}
}

// A caller can write a phone or its key into the field of the bill. No page shows it.
func TestR35_BillsThatLookLikePhonesAreHidden(t *testing.T) {
	t.Parallel()
	const phone = "01098765432"
	s := newStored(t)
	c := s.Console
	s.unknown("one", phone, "r1")
	id := s.add("one", phone, store.Dead, time.Hour)
	f := finished("x")
	f.Bill = phone
	c.Finished(f)
	for _, path := range []string{"/calls", "/calls/" + keyOf(c.ring.last), "/bills", "/deliveries", "/deliveries/" + id} {
		if status, body := get(t, c, path, ""); status != http.StatusOK || strings.Contains(strings.ReplaceAll(body, id, ""), phone) || !strings.Contains(body, billing.Hidden) {
			t.Errorf("%s: %d, shows the phone: %t", path, status, strings.Contains(body, phone))
		}
	}
}
