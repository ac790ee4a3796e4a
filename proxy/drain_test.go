package proxy_test

import (
	"bufio"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
)

// After SIGTERM the gateway is not ready and serves for drain.delay, so that load balancers see it before it stops.
func TestR38_ServesWhileNotReadyForDrainDelay(t *testing.T) {
	t.Parallel()
	upstream := oneUpstream("v2", newBackend(t, newService()).url)
	for delay := time.Second; ; delay *= 4 { // a busy machine may not come to the call before the drain
		p := newProcess(t, anyPort+upstream+"drain: {delay: "+delay.String()+"}\n")
		p.stop()
		checkText(t, p.logs.Next(t), `"msg":"not ready, serving until the drain begins","delay":"`)
		p.ask(503, "GET /-/ready")
		got, err := p.client.Post(p.url+"/bill/read", "application/json", strings.NewReader(v2("read").body()))
		if err != nil && delay < time.Minute {
			continue
		}
		if err != nil || got.StatusCode != 200 || !got.Close {
			t.Fatalf("%v, %+v", err, got)
		}
		_ = got.Body.Close()
		checkText(t, p.logs.Next(t), `"operation":"bill.read"`)
		checkText(t, p.logs.Next(t), `"msg":"draining","at_most":`)
		return
	}
}

// By default the delay ends when no connection is open: nobody has to notice the stop.
func TestDefaultDrainDelayEndsWithTheLastConnection(t *testing.T) {
	t.Parallel()
	c := parse(t, anyPort+oneUpstream("v2", refusedURL))
	equal(t, c.Drain.Delay, config.DurationOrZero(2*time.Second))
	c.Drain.Delay = config.DurationOrZero(time.Hour) // so that it does not end by itself
	logs := &proxytest.Log{}
	s, err := server.Listen(t.Context(), c, nil, nil, server.Build{}, slog.New(slog.NewJSONHandler(logs, nil)))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	open := dial(t, s.Address(), "")
	in := bufio.NewReader(open)
	if got, err := rawAnswer(open, in, nextCall(v2("read"))); err != nil || got.Close {
		t.Errorf("%+v %v", got, err)
	}
	stop()
	for !strings.Contains(logs.Next(t), `"not ready, serving until the drain begins","delay":"1h0m0s"`) {
	}
	if got, err := rawAnswer(open, in, nextCall(v2("read"))); err != nil || !got.Close {
		t.Errorf("%+v %v", got, err)
	}
	_ = open.Close() // the gateway has closed it, too
	if err := receive(t, ended, "end of the server"); err != nil {
		t.Error(err)
	}
}

// During an outage of the store the gateway stays ready with ready.store: reported, and is not ready with required.
// The cause is shown only with the token.
func TestReadyStoreReportedKeepsTheGatewayReady(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"required", "reported"} {
		parallel(t, mode, func(t *testing.T) {
			m := newRolloutGateway(t, "old")
			p := newProcess(t, strings.Replace(*m.text.Load(), "admin: {", `admin: {token: "letmein", `, 1)+"ready: {store: "+mode+"}\n")
			token := []string{"Authorization", "Bearer letmein"}
			// On a busy machine the first pings can take longer than readiness waits.
			proxytest.Eventually(t, func() bool { return p.admin("GET", "/-/ready?verbose").body == "ready\nserving: ok\nstore: ok\n" },
				func() string { return p.admin("GET", "/-/ready?verbose").body })
			for _, metric := range []string{"store_up 1\n", "store_free_bytes "} {
				checkText(t, p.admin("GET", "/metrics", token...).body, "\nbillbridge_"+metric)
			}
			m.exec("ALTER TABLE billbridge_owners RENAME TO gone")
			eventually(t, "no outage", func() bool {
				return strings.Contains(p.admin("GET", "/-/ready?verbose").body, "cannot be written to")
			})
			want := answer{status: 503, body: "not ready: the store cannot be written to\nserving: ok\nstore: the store cannot be written to"}
			if mode == "reported" {
				want = answer{status: 200, body: "ready\nserving: ok\nstore: the store cannot be written to"}
			}
			end := map[string]string{"required": "\n", "reported": " (reported only)\n"}[mode]
			if got := p.admin("GET", "/-/ready?verbose"); got.status != want.status || got.body != want.body+end {
				t.Errorf("%d %q", got.status, got.body)
			}
			if got := p.admin("GET", "/-/ready?verbose", token...); got.status != want.status || !strings.Contains(got.body, "no such table: billbridge_owners") {
				t.Errorf("%d %q", got.status, got.body)
			}
			checkText(t, p.admin("GET", "/metrics", token...).body, "\nbillbridge_store_up 0\n")
			equal(t, strings.Count(p.logs.String(), "the store cannot be written to"), 1)
			p.expect(legacy("read"), refused) // the owner of the bill cannot be looked up
			m.exec("ALTER TABLE gone RENAME TO billbridge_owners")
			eventually(t, "the outage does not end", func() bool { return p.admin("GET", "/-/ready?verbose").body == "ready\nserving: ok\nstore: ok\n" })
		})
	}
}

// A call in progress keeps the timeouts of the config with which it started. A reload to shorter timeouts does not
// shorten the drain.
func TestR38_DrainOutlivesAReload(t *testing.T) {
	t.Parallel()
	text := func(timeout string) string {
		return "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {up: {form: v2, url: " + refusedURL + ", timeout: " + timeout + "}}\n"
	}
	load := func() (*config.Config, error) { return parse(t, text("1s")), nil }
	logs := &proxytest.Log{}
	s, err := server.Listen(t.Context(), parse(t, text("60s")), load, nil, server.Build{}, slog.New(slog.NewJSONHandler(logs, nil)))
	must(t, err)
	must(t, s.Reload())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	checkText(t, logs.String(), `"msg":"draining","at_most":"1m`)
}
