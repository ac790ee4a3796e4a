package proxy_test

import (
	"net/http"
	"testing"
)

// corsHeaders are what browsers read.
var corsHeaders = []string{
	"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age",
	"Access-Control-Expose-Headers", "Access-Control-Allow-Credentials", "Vary",
}

// A page of a listed origin may call the paths of the table, and read every answer. Another origin, another path and a gateway without
// cors answer as if there were no browsers.
func TestPagesOfListedOriginsMayCall(t *testing.T) {
	t.Parallel()
	const shop, other = "https://shop.example.com", "http://127.0.0.1:3000"
	back := newBackend(t, replyWith(200, `{"code":"BILL_003","msg":"x"}`))
	listed := newGatewayTo(t, "legacy", back, "cors: ["+other+", "+shop+"]")
	none := newGatewayTo(t, "legacy", back)
	preflight := map[string]string{
		"Access-Control-Allow-Origin": shop, "Access-Control-Allow-Methods": "POST", "Vary": "Origin",
		"Access-Control-Allow-Headers": "content-type, x-request-id", "Access-Control-Max-Age": "600",
	}
	read := map[string]string{
		"Access-Control-Allow-Origin": shop, "Access-Control-Expose-Headers": "X-Request-Id", "Vary": "Origin",
	}
	asks := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"}
	for _, row := range []struct {
		b            *gateway
		method, path string
		headers      []string
		status       int
		want         map[string]string
	}{
		{listed, "OPTIONS", "/if/bill/read", append(asks, "Origin", shop), 204, preflight},
		{listed, "OPTIONS", "/bill//read", append(asks, "Origin", shop), 204, preflight}, // a doubled slash counts as one
		{listed, "OPTIONS", "/if/bill/nothing", append(asks, "Origin", shop), 404, read},
		{listed, "OPTIONS", "/if/bill/read", []string{"Origin", shop}, 405, read}, // no preflight
		{listed, "OPTIONS", "/if/bill/read", append(asks, "Origin", "https://shop.example.com.evil.example"), 405, nil},
		{listed, "OPTIONS", "/if/bill/read", append(asks, "Origin", "null"), 405, nil},
		{listed, "OPTIONS", "/if/bill/read", append(asks, "Origin", shop, "Origin", other), 405, nil},
		{listed, "OPTIONS", "/if/bill/read", asks, 405, nil},
		{none, "OPTIONS", "/if/bill/read", append(asks, "Origin", shop), 405, nil},
		{listed, "POST", "/if/bill/read", []string{"Origin", shop}, 200, read},
		{listed, "POST", "/if/bill/read", []string{"Origin", shop, "Content-Type", "text/plain"}, 415, read},
		{listed, "POST", "/if/bill/read", []string{"Origin", "https://evil.example"}, 200, nil},
		{listed, "POST", "/if/bill/read", nil, 200, nil},
		{none, "POST", "/if/bill/read", []string{"Origin", shop}, 200, nil},
	} {
		body := ""
		if row.method == http.MethodPost {
			body = legacy("read").body()
		}
		got := row.b.do(row.method, row.path, body, row.headers...)
		equal(t, got.status, row.status, row.method, row.path, row.headers)
		for _, name := range corsHeaders {
			equal(t, got.header.Get(name), row.want[name], row.method, row.path, row.headers, name)
		}
		if got.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s %q: no request id", row.method, row.path, row.headers)
		}
	}
}
