package proxy_test

import (
	"fmt"
	"strings"
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
		b := newGateway(t, strings.NewReplacer("NEW", fresh.url, "OLD", old.url).Replace(config))
		for path := range subBusiness {
			before := fresh.count()
			got := b.post(path, request)
			equal(t, fmt.Sprint(got.status, got.body), "200"+answer, path)
			call := fresh.last(t)
			equal(t, call.target+call.body, path+request)
			fresh.expectCalls(t, before+1)
		}
		old.expectCalls(t, 0)
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
