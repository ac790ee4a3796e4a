package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// sharedPartner is a partner with a control token: others than the developer of this machine use the sandbox.
var sharedPartner = sandbox.Partner{Key: "hana-key", Name: "Hana", ControlToken: "hana-token-0123456789"}

// A sandbox that others use calls no address that only its machine reaches: a partner sees the answers. That of one developer does.
func TestR32_SharedSandboxCallsNoPrivateAddress(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		options sandbox.Options
		add     []sandbox.Partner // later
		refused bool
	}{
		"of a developer":                {},
		"a partner with a token":        {options: sandbox.Options{Partners: []sandbox.Partner{sharedPartner}}, refused: true},
		"a partner with a token, later": {add: []sandbox.Partner{sharedPartner}, refused: true},
		"not on loopback":               {options: sandbox.Options{Shared: true}, refused: true},
		"a partner without a token":     {add: []sandbox.Partner{{Key: "hana-key"}}},
		"allowed":                       {options: sandbox.Options{Shared: true, PrivateCallbacks: true}, add: []sandbox.Partner{sharedPartner}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sandbox.New(row.options)
			defer func() { _ = s.Close() }()
			p := newPartner(t, answerWith(200, successAnswer))
			call := func(url string) error {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
				must(t, err)
				res, err := s.Transport().RoundTrip(r)
				if err == nil {
					_ = res.Body.Close()
				}
				return err
			}
			if len(row.add) > 0 && !row.options.Shared { // a connection that is there must not be used for the next call
				must(t, call(p.url))
			}
			for _, one := range row.add {
				must(t, s.AddPartner(one))
			}
			before := len(p.received())
			for _, url := range []string{p.url, strings.Replace(p.url, "127.0.0.1", "localhost", 1), strings.Replace(p.url, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
				if err := call(url); (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "--private-callbacks") {
					t.Errorf("%s: %v", url, err)
				}
			}
			if called := len(p.received()) - before; (called == 0) != row.refused {
				t.Errorf("called %d times", called)
			}
		})
	}
}

// The attempt of a refused callback says why, and what the partner or the operator can do.
func TestRefusedCallbackSaysWhy(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{Partners: append(sandbox.DefaultPartners(), sharedPartner)})
	defer func() { _ = s.Close() }()
	r := start(t, sandbox.Options{Partners: append(sandbox.DefaultPartners(), sharedPartner), Transport: s.Transport()})
	p := newPartner(t, answerWith(200, successAnswer))
	r.must(newCall("v2", "create").with("callbackUrl", p.url))
	r.ctl(http.MethodPost, "/bills/"+billID+"/pay", "")
	c := r.awaitCallbackOf(billID, "F", "waiting", 1)
	if wrong := c.Attempts[0].Wrong; !strings.Contains(wrong, "calls no loopback or private address") || !strings.Contains(wrong, "--private-callbacks") {
		t.Error(wrong)
	}
	equal(t, len(p.received()), 0)
}
