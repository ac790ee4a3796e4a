package proxy_test

import (
	"strings"
	"testing"
)

// A reload takes the tokens of the config at once, without a restart. A config whose tokens are refused leaves those in use.
func TestReloadReplacesTheAdminTokens(t *testing.T) {
	t.Parallel()
	good := anyPort + oneUpstream("v2", refusedURL)
	with := func(tokens string) string {
		return strings.Replace(good, "{listen: 127.0.0.1:0}", "{listen: 127.0.0.1:0, "+tokens+"}", 1)
	}
	p := newProcess(t, with("token: first"))
	reload := func(text, token string, status int) {
		t.Helper()
		p.text.Store(&text)
		if got := p.admin("POST", "/-/reload", "Authorization", "Bearer "+token); got.status != status {
			t.Errorf("%s: %d %s, want %d", token, got.status, got.body, status)
		}
	}
	reload(with("token: second"), "wrong", 401)
	reload(with("tokens: [{name: anna, token: second, may: operate}, {name: wall, token: second, may: read}]"), "first", 400)
	reload(with("tokens: [{name: anna, token: second, may: operate}, {name: wall, token: third, may: read}]"), "first", 200)
	reload(good, "first", 401)
	reload(good, "third", 403)
	if got := p.admin("GET", "/metrics", "Authorization", "Bearer third"); got.status != 200 {
		t.Errorf("metrics with a token that may read: %d", got.status)
	}
	reload(good, "second", 200)
	if got := p.admin("POST", "/-/reload"); got.status != 200 {
		t.Errorf("a reload without tokens: %d %s", got.status, got.body)
	}
}
