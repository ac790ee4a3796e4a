package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A decision that comes while the gateway starts is made again until it is there, and the command says so once.
func TestCommandsWaitForAGatewayThatStarts(t *testing.T) {
	t.Parallel()
	calls := 0
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 4 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Method != http.MethodPost || r.URL.Path != "/rollout/stop" || r.URL.Query().Get("by") != "kim" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusConflict)
	}))
	t.Cleanup(gateway.Close)
	const want = "The gateway is starting. Trying again for 10s.\nbillbridge: the gateway refused the request (409): \n"
	if code, out, errs := runCommand(t, false, "rollout", "stop", "--admin", gateway.URL); code != exitError || out != "" || errs != want {
		t.Errorf("%d %s %q", code, out, errs)
	}
}
