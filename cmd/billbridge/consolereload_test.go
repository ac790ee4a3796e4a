package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"billbridge/proxy/proxytest"
)

// The page of the config reads the config again, and shows a mistake at its line, also one that a reload by a signal found.
func TestConsoleShowsMistakesInTheConfig(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	config := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, token: secret-canary}\nupstreams: {new: {form: v2, url: " + upstream.URL + "}}\n"
	gateway := serve(t, t.TempDir(), nil, config)
	write := func(more string) { proxytest.WriteFile(t, gateway.file, config+more) }
	call := func(method, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+gateway.operator+path, strings.NewReader(url.Values{}.Encode()))
		must(t, err)
		r.Header.Set("Authorization", "Bearer secret-canary")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		reply := httptest.NewRecorder()
		answer, err := http.DefaultTransport.RoundTrip(r)
		must(t, err)
		defer func() { _ = answer.Body.Close() }()
		if _, err := reply.Body.ReadFrom(answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, reply.Body.String()
	}
	write("limits: {body: 2MiB}\n")
	if status, _ := call(http.MethodPost, "/config/reload"); status != http.StatusSeeOther {
		t.Errorf("a reload: %d", status)
	}
	if _, page := call(http.MethodGet, "/config"); !strings.Contains(page, "<code>2MiB</code>") || strings.Contains(page, "secret-canary") {
		t.Errorf("the page does not show the new limit, or shows the token:\n%s", page)
	}
	write("limits: {bodi: 2MiB}\n")
	if status, page := call(http.MethodPost, "/config/reload"); status != http.StatusBadRequest || !strings.Contains(page, "billbridge.yaml:4:10") || !strings.Contains(page, "limits: unknown key; did you mean body?") {
		t.Errorf("a mistake: %d\n%s", status, page)
	}
	write("limits:\n  depth: 1\n")
	must(t, gateway.cmd.Process.Signal(syscall.SIGHUP))
	if _, err := gateway.await("stderr", `config not reloaded.*depth`); err != nil {
		t.Fatal(err)
	}
	var page string
	proxytest.Eventually(t, func() bool {
		_, page = call(http.MethodGet, "/config")
		return strings.Contains(page, "billbridge.yaml:5:10")
	}, func() string { return page })
}
