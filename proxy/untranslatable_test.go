package proxy_test

import "testing"

// A request that the upstream's form cannot carry is refused with the code of the table. Nothing is sent.
func TestRequestThatCannotBeCarried(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{
		"": 400, "failures: {status: always-200}": 200,
	} {
		back := newBackend(t, replyWith(200, `{"code":"0000","msg":"ok"}`))
		b := newGatewayTo(t, "legacy", back, config)
		b.send(v2("create").with("sendType", "URL")).is(t, want, `"code":"BILL_010"`)
		back.expectCalls(t, 0)
	}
}
