package web_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/sandbox/web"
)

// A visitor is a browser without scripts. It follows no redirect.
type visitor struct {
	*http.Client
	r *rig
}

func (r *rig) visitor(token string) visitor {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	must(r.t, err)
	v := visitor{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, r}
	if token != "" {
		if res, _ := v.post("/sign-in", "token="+token); res.StatusCode != http.StatusSeeOther {
			r.t.Fatalf("signing in: %d", res.StatusCode)
		}
	}
	return v
}

func (v visitor) get(path string) (status int, body string) {
	v.r.t.Helper()
	res, body := v.send(http.MethodGet, path, "")
	return res.StatusCode, body
}

// post sends a form with headers, given as name and value.
func (v visitor) post(path, form string, headers ...string) (res *http.Response, body string) {
	v.r.t.Helper()
	return v.send(http.MethodPost, path, form, append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
}

func (v visitor) send(method, path, form string, headers ...string) (res *http.Response, body string) {
	v.r.t.Helper()
	req, err := http.NewRequest(method, v.r.control+path, strings.NewReader(form))
	must(v.r.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err = v.Do(req)
	must(v.r.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(v.r.t, err)
	return res, string(text)
}

// idOf returns the ID of a partner in addresses.
func (r *rig) idOf(key string) string {
	for i, p := range r.Partners() {
		if p.Key == key {
			return fmt.Sprint(i + 1)
		}
	}
	r.t.Fatal("no such partner")
	return ""
}

var links = regexp.MustCompile(`(?:href|hx-get|action)="(/[^"]*)"`)

// crawl returns the text of all pages that a visitor gets to by links.
func (v visitor) crawl() (all string) {
	v.r.t.Helper()
	seen, queue := map[string]bool{}, []string{"/desk/calls", "/desk/bills", "/desk/scenarios", "/desk/clock"}
	for len(queue) > 0 {
		path := html.UnescapeString(queue[0])
		queue = queue[1:]
		if seen[path] || strings.HasPrefix(path, "/static/") {
			continue
		}
		seen[path] = true
		status, body := v.get(path)
		if strings.Contains(body, hostile) {
			v.r.t.Errorf("%s does not escape a text", path)
		}
		if status >= 400 && status != http.StatusMethodNotAllowed && status != http.StatusNotFound || strings.Contains(body, "style=") || strings.Contains(body, "onclick=\"") {
			v.r.t.Errorf("%s: %d %s", path, status, body)
		}
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			queue = append(queue, link[1])
		}
		all += html.UnescapeString(body)
	}
	if len(seen) < 8 {
		v.r.t.Fatalf("only %d pages", len(seen))
	}
	return all
}

// A partner sees its own calls, bills, scenarios and callbacks on every page, and nothing of others. Without a sign-in there are the
// partners without a token.
func TestAPartnerSeesOnlyItself(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fill()
	ofHana := []string{hanaKey, hanaToken, "Hana", "OF-HANA", "Slow reply"}
	ofDemo := []string{demoKey, "UNPAID", "REFUSES", "LOST", "no-such-key", "Callback twice", "no URL bills"}
	ofNobody := []string{duriKey, duriToken, "Duri", hanaToken}
	for token, texts := range map[string]struct{ shown, hidden []string }{
		hanaToken: {[]string{hanaKey, "OF-HANA", "HanaCustomer"}, ofDemo},
		"":        {[]string{demoKey, "UNPAID", "no URL bills"}, ofHana},
	} {
		pages := r.visitor(token).crawl()
		for _, text := range texts.shown {
			has(t, pages, text, token)
		}
		pages = scenarios.ReplaceAllString(pages, "")
		for _, text := range append(texts.hidden, ofNobody...) {
			lacks(t, pages, text, token)
		}
	}
}

// scenarios are the names of all scenarios, which everybody sees.
var scenarios = regexp.MustCompile(`(?s)<h2 id="\w+">.*?</h2>`)

// A partner changes nothing that others have, and not the clock of all. Addresses of others do not exist.
func TestAPartnerChangesOnlyItself(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fill()
	v := r.visitor(hanaToken)
	before := fmt.Sprint(r.Bills(), r.Callbacks(), r.Faults(), len(r.Exchanges()))
	own := strings.NewReplacer("=ID", "="+r.idOf(demoKey), "OWN", r.idOf(hanaKey))
	_, rows, _ := strings.Cut(string(proxytest.ReadFile(t, "testdata/others.txt")), "\n")
	for line := range strings.Lines(own.Replace(rows)) {
		words := strings.Fields(strings.ReplaceAll(line, "|", ""))
		res, _ := v.post(words[0], words[1])
		equal(t, fmt.Sprint(res.StatusCode), words[2], line)
	}
	for _, path := range []string{r.number("bill.read", "PAID"), "/desk/bill?bill=PAID", "/desk/bill?bill=PAID&partner=" + r.idOf(demoKey), "/desk/bill?bill=PAID&partner=" + r.idOf(hanaKey)} {
		gives(t, http.StatusNotFound, path)(v.get(path))
	}
	equal(t, fmt.Sprint(r.Bills(), r.Callbacks(), r.Faults(), len(r.Exchanges())), before, "something has changed")
}

// The only partner of a sandbox is not its operator: calls with unknown keys and the clock are not its own.
func TestTheOnlyPartnerIsNotTheOperator(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Partners: []sandbox.Partner{{Key: hanaKey, Name: "Hana", ControlToken: hanaToken}}})
	r.call("create", "no-such-key", "UNKNOWN", nil)
	r.call("create", hanaKey, "OF-HANA", nil)
	v := r.visitor(hanaToken)
	_, page := v.get("/desk/calls")
	has(t, page, "OF-HANA", "the calls")
	lacks(t, page, "UNKNOWN", "the calls")
	if res, _ := v.post("/desk/clock", "advance=1h"); res.StatusCode != http.StatusForbidden {
		t.Errorf("the clock: %d", res.StatusCode)
	}
	for _, path := range []string{"/desk/calls", "/desk/scenarios"} { // no partner is left
		if status, page := r.visitor("").get(path); status != http.StatusOK || strings.Contains(page, "Hana") {
			t.Errorf("%s without a sign-in: %d", path, status)
		}
	}
}

// Another site in the same browser changes nothing, and neither does another name that leads to this machine.
func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fill()
	before := fmt.Sprint(r.Bills(), r.Faults(), len(r.Exchanges()))
	form := url.Values{"partner": {"1"}, "bill": {"UNPAID"}, "token": {hanaToken}}.Encode()
	for _, path := range []string{"/desk/bill/pay", "/desk/scenarios/slow", "/desk/scenarios/off", "/desk/clock", "/sign-in", "/sign-out"} {
		for _, headers := range [][]string{{"Origin", "https://evil.example.com"}, {"Sec-Fetch-Site", "cross-site"}} {
			if res, _ := r.visitor("").post(path, form, headers...); res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
				t.Errorf("%s with %s: %d %v", path, headers, res.StatusCode, res.Cookies())
			}
		}
	}
	req, err := http.NewRequest(http.MethodGet, r.control+"/desk/calls", nil)
	must(t, err)
	req.Host = "evil.example.com"
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("DNS rebinding: %v %v", res, err)
	}
	equal(t, fmt.Sprint(r.Bills(), r.Faults(), len(r.Exchanges())), before, "something has changed")
}

// With a control token every page needs a sign-in: that of the operator shows everything. A session ends with its partner.
func TestSignIn(t *testing.T) {
	t.Parallel()
	const operator = "operator-token-012345"
	r := start(t, sandbox.Options{ControlToken: operator})
	r.fill()
	nobody := r.visitor("")
	for _, path := range []string{"/", "/desk/calls", "/desk/bills", "/desk/scenarios", "/desk/clock"} {
		if status, body := nobody.get(path); status != http.StatusSeeOther || strings.Contains(body, demoKey) {
			t.Errorf("%s: %d", path, status)
		}
	}
	if res, _ := nobody.post("/desk/clock", "advance=1h"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a change: %d", res.StatusCode)
	}
	for _, token := range []string{"", "wrong", demoKey, hanaKey} {
		if res, _ := nobody.post("/sign-in", "token="+token); res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) > 0 {
			t.Errorf("the token %q: %d", token, res.StatusCode)
		}
	}
	if status, body := nobody.get("/static/style.css"); status != http.StatusOK || !strings.Contains(body, "--ground") {
		t.Errorf("the style: %d", status)
	}
	res, _ := nobody.post("/sign-in", "token="+hanaToken)
	cookie := res.Header.Get("Set-Cookie")
	if !regexp.MustCompile(`^billbridge_sandbox_session=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`).MatchString(cookie) {
		t.Errorf("the cookie %s", cookie)
	}
	hana := nobody
	must(t, r.RemovePartner(hanaKey))
	gives(t, http.StatusSeeOther, "a session of a partner that was removed")(hana.get("/desk/calls"))
	all := r.visitor(operator)
	_, body := all.get("/desk/calls")
	for _, text := range []string{"OF-HANA", "UNPAID", "UNKNOWN", "Hana"} {
		has(t, body, text, "the calls of the operator")
	}
	if res, _ := all.post("/desk/clock", "advance=1h"); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the clock: %d", res.StatusCode)
	}
	all.post("/sign-out", "")
	gives(t, http.StatusSeeOther, "after signing out")(all.get("/desk/calls"))
}

// Wrong tokens in the form and in calls of the control API are slowed down together, as package pages says. A right token passes at once.
func TestWrongControlTokensAreSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sandbox.New(sandbox.Options{ControlToken: "operator"})
		defer s.Close()
		h, err := web.New(web.Options{Service: s})
		must(t, err)
		expect := func(path, token string, status int, took time.Duration) {
			t.Helper()
			r := httptest.NewRequest("GET", path, nil)
			if path == "/sign-in" {
				r = httptest.NewRequest("POST", path, strings.NewReader("token="+token))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			} else {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w, began := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, r)
			if is := time.Since(began); w.Code != status || is != took {
				t.Errorf("%s with %s: %d after %s, want %d after %s", path, token, w.Code, is, status, took)
			}
		}
		for i := range pages.FreeGuesses {
			expect([]string{"/sign-in", "/bills"}[i%2], "wrong", 401, 0)
		}
		for path, right := range map[string]int{"/sign-in": 303, "/bills": 200} {
			expect(path, "wrong", 401, pages.GuessDelay)
			expect(path, "operator", right, 0)
		}
	})
}

// Calls of runs need the token of the operator or of a partner, which then has only its own.
func TestRunsNeedAToken(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{ControlToken: "operator", Partners: []sandbox.Partner{{Key: hanaKey, Name: "Hana", ControlToken: hanaToken}}})
	defer s.Close()
	h, err := web.New(web.Options{Service: s, Runs: func(w http.ResponseWriter, _ *http.Request, partner string) {
		_, _ = io.WriteString(w, "runs of "+partner)
	}})
	must(t, err)
	for token, want := range map[string]string{"": "the control token is missing", "wrong": "the control token is missing", "operator": "runs of ", hanaToken: "runs of " + hanaKey} {
		r := httptest.NewRequest("GET", "/api/runs", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		has(t, w.Body.String(), want)
		if token == "operator" {
			lacks(t, w.Body.String(), hanaKey)
		}
	}
}

// A list without rows says whether the filter is the reason.
func TestListsSayWhyTheyAreEmpty(t *testing.T) {
	t.Parallel()
	v := start(t).visitor("")
	for path, says := range map[string]string{
		"/desk/calls": "The README of the sandbox has a first call.", "/desk/calls?code=NONE": "Nothing matches the filter.",
		"/desk/bills": "There are no bills.", "/desk/bills?state=D": "Nothing matches the filter.",
	} {
		if _, body := v.get(path); !strings.Contains(body, says) {
			t.Errorf("%s does not say: %s", path, says)
		}
	}
}
