package sandbox_test

import (
	"io"
	"net/http"
	"testing"

	"billbridge/proxy/sandbox"
)

// A call with the token of a partner stays limited to the partner if the token ends before the body has arrived.
func TestCallIsLimitedThoughItsTokenEnds(t *testing.T) {
	t.Parallel()
	for path, rest := range map[string]string{
		"/points": `{"partner":"b-key","points":3}`, "/clock": `{"advance":"1h"}`, "/faults": `{"partner":"b-key"}`, "/partners": `{"api_key":"c-key"}`, "/bills/B1/pay": ``,
	} {
		r := start(t, sandbox.Options{ControlToken: "operator", Partners: []sandbox.Partner{
			{Key: "a-key", ControlToken: "token-a"}, {Key: "b-key", ControlToken: "token-b"},
		}})
		r.must(newCall("v2", "create").with("apiKey", "b-key").with("billId", "B1"))
		body, partner := io.Pipe()
		go func() {
			_, _ = io.WriteString(partner, " ") // somebody reads it: the call was admitted
			_ = r.RemovePartner("a-key")
			_, _ = io.WriteString(partner, rest)
			_ = partner.Close()
		}()
		v := arrivalOf("POST "+path, "127.0.0.1", "127.0.0.1:8082", "Authorization=Bearer token-a", "")
		v.Body = body
		if status, says := v.of(r.Control()); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, says)
		}
	}
}
