package proxy_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/server"
)

// TestSuccessOfAnotherBill: an upstream that has lost count of its replies must not make one partner's success
// another's. It is no answer, so a write's outcome is unknown; a refusal names no bill and passes.
func TestSuccessOfAnotherBill(t *testing.T) {
	t.Parallel()
	replies := map[string]string{
		"v2":     `{"code":"0000","message":"ok","data":{"apiKey":"other-key","billId":"99999999999999999999","hash":"other-hash","apprState":"F"}}`,
		"legacy": `{"code":"0000","msg":"ok","apikey":"other-key","bill_id":"99999999999999999999","hash":"other-hash","appr_state":"F"}`,
	}
	for upstream, reply := range replies {
		back := newBackend(t, says(200, reply))
		b := newBridge(t, toOne(upstream, back.url, "failures: {status: always-200}"))
		for _, client := range forms {
			for _, op := range operations {
				if upstream == "legacy" && op == "resend" {
					continue // its reply has only code and msg
				}
				q := newCall(client, op)
				got := b.send(q)
				want := told{502, "null"}
				if !isWrite(op) {
					want = told{200, "ERROR"} // always-200
				}
				got.holds(t, client, want.status, want.code)
				if strings.Contains(got.body, "other-") || strings.Contains(got.body, "9999") {
					t.Errorf("%s %s over %s shows another's reply: %s", client, op, upstream, got.body)
				}
			}
		}
	}
}

// TestR38_DrainOutlivesAReload: a call under way ends by the config it began with, so a reload to shorter timeouts
// does not shorten the drain.
func TestR38_DrainOutlivesAReload(t *testing.T) {
	t.Parallel()
	text := func(timeout string) string {
		return "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {up: {form: v2, url: " + nowhere + ", timeout: " + timeout + "}}\n"
	}
	load := func() (*config.Config, error) { return parse(t, text("1s")), nil }
	logs := newLogs()
	s, err := server.Listen(t.Context(), parse(t, text("60s")), load, nil, server.Build{}, slog.New(slog.NewJSONHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := logs.String(); !strings.Contains(got, `"msg":"draining","at_most":"1m`) {
		t.Errorf("the drain takes less than a minute: %s", got)
	}
}
