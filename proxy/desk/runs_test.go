package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// planFor returns a plan with a hook and cases.
func planFor(hook, cases string) string {
	return `{"partner":"shop","form":"v2","api_key":"` + testKey + `","timeout":"2s","options":["callbacks"],"hook":"` + hook + `","case":[` + cases + `]}`
}

// post starts a practice, and returns the answer as far as it is there.
func post(t *testing.T, r *Runs, owner, body string, status int) *httptest.ResponseRecorder {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	w := httptest.NewRecorder()
	r.Serve(w, httptest.NewRequestWithContext(ctx, "POST", "/api/runs", strings.NewReader(body)), owner)
	equal(t, w.Code, status, w.Body)
	return w
}

// A practice is started over HTTP. The answer has the cases and, at the end, the report. The calls come to an address of
// the partner, which ends with the run.
func TestRunOverHTTP(t *testing.T) {
	t.Parallel()
	for owner, key := range map[string]string{"hana": "hana", "": testKey} {
		r := &Runs{}
		server := httptest.NewServer(r.Calls(http.NotFoundHandler()))
		defer server.Close()
		r.Base = server.URL
		base := server.URL + "/r/" + partner.Of(key).Short()
		ctx, stop := context.WithCancel(t.Context())
		s := &shop{
			form: "v2", habit: "creates-twice", key: testKey, base: base, send: "URL", ctx: ctx,
			client: &http.Client{Timeout: 2 * time.Second}, reconcile: time.Minute, retry: time.Second,
		}
		test := httptest.NewServer(s)
		s.self = test.URL
		defer func() {
			stop()
			test.Close()
			s.all.Wait()
		}()
		answer := json.NewDecoder(post(t, r, owner, planFor(test.URL+"/desk", `"A1"`), 200).Body)
		var first struct {
			BaseURL string `json:"base_url"`
		}
		var row struct{ Case, Title, Result, Text, Source, Repair string }
		var end struct {
			Outcome, Report, JUnit string
			ExitCode               int `json:"exit_code"`
		}
		for _, line := range []any{&first, &row, &end} {
			must(t, answer.Decode(line))
		}
		equal(t, first.BaseURL, base)
		has(t, strings.Join([]string{row.Case, row.Title, row.Result, row.Text, row.Repair, row.Source}, "; "),
			"A1; A bill is created as ordered; FAILED; a second bill was sent for one order")
		equal(t, []any{end.Outcome, end.ExitCode}, []any{Failed, 1})
		has(t, end.Report, "a second bill was sent")
		has(t, end.JUnit, `failures="1"`)
		got, err := http.Post(base+"/bill", "application/json", strings.NewReader("{}"))
		must(t, err)
		_ = got.Body.Close()
		equal(t, got.StatusCode, 404)
	}
}

// A partner has one run at a time, which ends when its caller disconnects. It does not touch the run of another.
func TestRunEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"state":"new"}`) }))
	defer hook.Close()
	r := &Runs{Base: "http://desk"}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.Serve(w, req, req.Header.Get("Owner")) }))
	defer api.Close()
	body := planFor(hook.URL, "")
	begin := func(owner string) (stop func()) {
		ctx, stop := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", api.URL+"/api/runs", strings.NewReader(body))
		must(t, err)
		req.Header.Set("Owner", owner)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		equal(t, res.StatusCode, 200)
		return stop
	}
	has := func(owner string) bool { _, ok := r.running.Load(partner.Of(owner).Short()); return ok }
	hana, duri := begin("hana"), begin("duri")
	defer duri()
	equal(t, post(t, r, "hana", body, 409).Body.String(), `{"error":"a run of this partner has not ended"}`+"\n")
	hana()
	proxytest.Eventually(t, func() bool { return !has("hana") }, func() string { return "the run of hana goes on" })
	equal(t, has("duri"), true)
}

func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	r := &Runs{}
	for body, says := range map[string]string{
		"{}": "partner: expected a name", "": "yaml", `{"nonsense":1}`: "nonsense",
		planFor("http://h", `"U","U99"`):                                    `got: \"U99\"`,
		planFor("nowhere", ""):                                              "hook: expected the URL of the order hook but got: nowhere",
		planFor(strings.Repeat("h", maxBody), ""):                           "too large",
		strings.Replace(planFor("http://h", ""), testKey, "${env:HOME}", 1): "api_key",
	} {
		has(t, post(t, r, "", body, 400).Body.String(), says)
	}
	w := httptest.NewRecorder()
	r.Serve(w, httptest.NewRequest("GET", "/api/runs", nil), "")
	equal(t, w.Code, 404)
}

// refusing makes no call.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is not called", r.URL.Path)
}

// A run that a partner has started calls its hook and its callback addresses as the sandbox calls them: not what only the machine of the
// sandbox reaches.
func TestR32_RunsCallByTheTransportOfTheSandbox(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the hook was called") }))
	defer hook.Close()
	body := planFor(hook.URL, `"A1"`)
	has(t, post(t, &Runs{Base: "http://desk", Transport: refusing{}}, "hana", body, 200).Body.String(), "is not called")
}
