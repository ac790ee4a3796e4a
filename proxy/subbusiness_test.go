package proxy_test

import (
	"testing"
)

var subBusiness = map[string]string{
	"/auth/mapping": "mapping.register", "/read/mapping": "mapping.list", "/auth/mapping/status": "mapping.status",
	"/auth/merchant/mapping": "merchant.map", "/read/merchant": "merchant.list",
}

// Sub-business calls and replies pass byte for byte to a v2 upstream, also if the default upstream is legacy.
func TestSubBusinessCallsAreNotChanged(t *testing.T) {
	t.Parallel()
	request := "{ \"apiKey\" : \"demo-partner-key\",\n\t\"memberId\":\"m\",\"extra\":[1e3, {\"b\":\"\\u0041\"}] }\n"
	answer := " {\"data\":[{\"apiKey\":1.0,\"a\":\"\\u0041\"}],\r\n\"code\":\"0000\", \"message\":\"성공\"} "
	for _, config := range []string{
		"upstreams: {new: {form: v2, url: NEW}}\n",
		"upstreams: {old: {form: legacy, url: OLD}, new: {form: v2, url: NEW}}\nroute: {default: old}\n",
	} {
		fresh := newBackend(t, replyWith(200, answer))
		old := newBackend(t, replyWith(200, `{"code":"ERROR","msg":"x"}`))
		b := newGateway(t, quoteInto(config, "NEW", fresh.url, "OLD", old.url))
		n := 0
		for path := range subBusiness {
			got := b.post(path, request)
			if got.status != 200 || got.body != answer {
				t.Errorf("%s: %d %q", path, got.status, got.body)
			}
			calls := fresh.received()
			if n++; len(calls) != n || calls[n-1].body != request || calls[n-1].target != path {
				t.Errorf("%s: the upstream got %+v", path, calls)
			}
		}
		equal(t, old.count(), 0, old.received())
	}
}

// A legacy upstream has no sub-business operations: the call is refused.
func TestSubBusinessWithoutAV2Upstream(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "legacy")
	for path := range subBusiness {
		b.post(path, `{"apiKey":"demo-partner-key"}`).check(t, "v2", wantAnswer{404, "PARTNER_001"})
	}
	b.back.expectCalls(t, 0)
}
