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

// A caller calls the API of runs.
type caller struct {
	*Runs
	*testing.T
}

func newCaller(t *testing.T) caller {
	return caller{&Runs{Base: "http://desk", Context: t.Context()}, t}
}

func (c caller) call(owner, method, path, body string, status int) string {
	c.Helper()
	w := httptest.NewRecorder()
	c.Serve(w, httptest.NewRequest(method, "/api/runs"+path, strings.NewReader(body)), owner)
	if w.Code != status {
		c.Errorf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	return w.Body.String()
}

const plan = `{"partner":"shop","form":"v2","api_key":"` + testKey + `","timeout":"2s","react":"1300ms"}`

// hanasCI is where the calls of the partner hana to its run ci go.
var hanasCI = "/r/" + partner.Of("hana").Short() + "-ci"

// A practice is started over HTTP, followed, and exported. Its calls come to an address of its own, which ends with it.
func TestRunOverHTTP(t *testing.T) {
	t.Parallel()
	c := newCaller(t)
	server := httptest.NewServer(c.Calls(http.NotFoundHandler()))
	defer server.Close()
	c.Base = server.URL
	ctx, stop := context.WithCancel(t.Context())
	s := &shop{
		form: "v2", habit: "creates-twice", key: testKey, base: server.URL + hanasCI, send: "URL", ctx: ctx,
		client: &http.Client{Timeout: 2 * time.Second}, reconcile: time.Minute, retry: time.Second,
	}
	test := httptest.NewServer(s)
	s.self = test.URL
	defer func() {
		stop()
		test.Close()
		s.all.Wait()
	}()
	body := fmt.Sprintf(`{"plan":%s,"hook":"%s/desk","name":"ci","case":["A1"]}`, plan, test.URL)
	var p practice
	get := func() {
		p = practice{}
		must(t, json.Unmarshal([]byte(c.call("hana", "GET", "/"+c.list[0].ID, "", 200)), &p))
	}
	must(t, json.Unmarshal([]byte(c.call("hana", "POST", "", body, 201)), &p))
	equal(t, p.BaseURL, server.URL+hanasCI)
	equal(t, p.Status, "RUNNING")
	has(t, c.call("hana", "POST", "", body, 409), "a run has this name")
	c.call("duri", "POST", "", body, 201) // the name of another partner's run
	c.list[1].stop()
	has(t, c.call("hana", "GET", "/"+p.ID+"/report", "", 409), "has not ended")
	proxytest.Eventually(t, func() bool { get(); return p.Status != "RUNNING" }, func() string { return fmt.Sprintf("%+v", p) })
	equal(t, p.Outcome, Failed)
	equal(t, *p.ExitCode, 1)
	equal(t, len(p.Cases), 1)
	has(t, p.Cases[0].Title+": "+p.Cases[0].Why, "A bill is created as ordered: a second bill was sent for one order")
	has(t, c.call("", "GET", "/"+p.ID+"/report", "", 200), "a second bill was sent")
	has(t, c.call("hana", "GET", "/"+p.ID+"/junit", "", 200), `failures="1"`)
	c.call("hana", "GET", "/"+p.ID+"/log", "", 405)
	got, err := http.Post(server.URL+hanasCI+"/bill", "application/json", strings.NewReader("{}"))
	must(t, err)
	_ = got.Body.Close()
	equal(t, got.StatusCode, 404)
}

// A partner sees its own runs only. A run that is stopped is interrupted, and there are few at once.
func TestRunsOfOthers(t *testing.T) {
	t.Parallel()
	c := newCaller(t)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"state":"new"}`) }))
	defer hook.Close()
	body := `{"plan":` + plan + `,"hook":"` + hook.URL + `"}`
	for range mostRuns {
		c.call("hana", "POST", "", body, 201)
	}
	has(t, c.call("hana", "POST", "", body, 409), "too many runs at once")
	id := "/" + c.list[0].ID
	for _, call := range []string{"GET ", "DELETE ", "GET report", "GET junit"} {
		method, what, _ := strings.Cut(call, " ")
		c.call("duri", method, strings.TrimSuffix(id+"/"+what, "/"), "", 404)
	}
	equal(t, c.call("duri", "GET", "", "", 200), "[]\n")
	equal(t, strings.Count(c.call("", "GET", "", "", 200), `"base_url"`), mostRuns)
	c.call("hana", "PUT", id, "", 405)
	for _, p := range c.list[1:] {
		c.call("hana", "DELETE", "/"+p.ID, "", 200)
	}
	ended := func(n int) {
		t.Helper()
		proxytest.Eventually(t, func() bool {
			return strings.Count(c.call("", "GET", "", "", 200), `"status":"INTERRUPTED","error":"context canceled"`) == n
		}, func() string { return c.call("", "GET", "", "", 200) })
	}
	ended(mostRuns - 1)
	for n := range keptRuns {
		c.call("", "POST", "", body, 201)
		c.list[len(c.list)-1].stop()
		ended(min(mostRuns+n, keptRuns-1))
	}
	c.call("", "GET", id, "", 200) // it still runs
	equal(t, len(c.list), keptRuns)
	c.call("", "DELETE", id, "", 200)
	ended(keptRuns)
	c.call("", "GET", id+"/report", "", 200) // what was recorded until then
}

func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	c := newCaller(t)
	for body, says := range map[string]string{
		"":                       "EOF",
		`{"plan":{"form":"v3"}}`: "form: expected v2 or legacy",
		`{"plan":` + plan + `}`:  "hook: expected the base URL",
		`{"plan":` + plan + `,"hook":"http://h","case":["U","U99"]}`: `got: \"U99\"`,
		`{"nonsense":1}`: "nonsense",
		`{"plan":` + plan + `,"hook":"http://h","name":"a/b"}`:                    "name: expected 1 to 40",
		`{"plan":` + plan + `,"hook":"` + strings.Repeat("h", mostOfAPlan) + `"}`: "too large",
		`{"plan":{"form":"v2","api_key":"k","practice":false},"hook":"http://h"}`: "practice",
	} {
		has(t, c.call("", "POST", "", body, 400), says)
	}
	equal(t, len(c.list), 0)
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
	c := newCaller(t)
	c.Transport = refusing{}
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the hook was called") }))
	defer hook.Close()
	c.call("hana", "POST", "", `{"plan":`+plan+`,"hook":"`+hook.URL+`","case":["A1"]}`, 201)
	id := "/" + c.list[0].ID
	proxytest.Eventually(t, func() bool {
		return strings.Contains(c.call("hana", "GET", id+"/log", "", 200), "is not called")
	}, func() string { return c.call("hana", "GET", id+"/log", "", 200) })
	c.call("hana", "DELETE", id, "", 200)
}
