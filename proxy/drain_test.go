package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
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
	p := newProcess(t, anyPort+oneUpstream("v2", newBackend(t, newService()).url)+"drain: {delay: 5s}\n")
	p.stop()
	if line := p.logs.Next(t); !strings.Contains(line, `"msg":"not ready, serving until the drain begins","delay":"5s"`) {
		t.Error(line)
	}
	if got := p.admin("GET", "/-/ready"); got.status != 503 {
		t.Errorf("/-/ready: %d %s", got.status, got.body)
	}
	b := &gateway{t: t, url: "http://" + p.Address()}
	got := b.raw(false, nextCall(newCall("legacy", "create"))) // returns when the connection is closed
	if len(got) != 1 {
		t.Fatalf("%d answers", len(got))
	}
	got[0].check(t, "legacy", success.status, success.code)
	if got[0].header.Get("Connection") != "close" {
		t.Error("the answer has no Connection: close")
	}
	if line := p.logs.Next(t); !strings.Contains(line, `"operation":"bill.create"`) {
		t.Error(line)
	}
	if line := p.logs.Next(t); !strings.Contains(line, `"msg":"draining","at_most":`) {
		t.Error(line)
	}
}

// During the drain a caller gets 5 seconds for the rest of its body, even if timeouts.body is longer. Nothing is sent upstream.
func TestPartialRequestDoesNotDelayTheDrain(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	p := newProcess(t, anyPort+oneUpstream("v2", back.url)+"timeouts: {body: 1h}\n")
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	_, _ = io.WriteString(conn, head("/if/bill/send", "Content-Length: 100\r\nExpect: 100-continue\r\n"))
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // the gateway reads the body
		t.Fatalf("%q %v", line, err)
	}
	_, _ = io.WriteString(conn, `{"apikey":`)
	p.stop()
	_, _ = reader.ReadString('\n')
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	answer{res.StatusCode, res.Header, string(body)}.check(t, "legacy", 503, "MAINTAINED_METHOD")
	if want := "the body timed out, nothing was sent"; !strings.Contains(string(body), want) || !res.Close {
		t.Errorf("no %q in %s, or the connection stays open", want, body)
	}
	if err := receive(t, p.ended, "end of the server"); err != nil {
		t.Error(err)
	}
	if got := p.logs.String(); !strings.Contains(got, `"reason":"body timed out"`) {
		t.Error(got)
	}
	if n := len(back.received()); n != 0 {
		t.Errorf("%d calls at the upstream", n)
	}
}

// During an outage of the store the gateway stays ready with ready.store: reported, and is not ready with required. The cause
// is shown only with the token.
func TestReadyStoreReportedKeepsTheGatewayReady(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"required", "reported"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			m := newRolloutGateway(t, "old")
			p := newProcess(t, strings.Replace(*m.text.Load(), "admin: {", `admin: {token: "letmein", `, 1)+"ready: {store: "+mode+"}\n")
			token := []string{"Authorization", "Bearer letmein"}
			// On a busy machine the first pings can take longer than readiness waits.
			proxytest.Eventually(t, func() bool { return p.admin("GET", "/-/ready?verbose").body == "ready\nserving: ok\nstore: ok\n" },
				func() string { return p.admin("GET", "/-/ready?verbose").body })
			if got := p.admin("GET", "/metrics", token...).body; !strings.Contains(got, "\nbillbridge_store_up 1\n") {
				t.Error("no billbridge_store_up 1")
			}
			if _, err := m.storeDB(t).Exec("ALTER TABLE billbridge_owners RENAME TO gone"); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, func() bool {
				return strings.Contains(p.admin("GET", "/-/ready?verbose").body, "cannot be written to")
			}, func() string { return "no outage" })
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
			if got := p.admin("GET", "/metrics", token...).body; !strings.Contains(got, "\nbillbridge_store_up 0\n") {
				t.Error("no billbridge_store_up 0")
			}
			if n := strings.Count(p.logs.String(), "the store cannot be written to"); n != 1 {
				t.Errorf("logged %d times", n)
			}
			p.send(newCall("legacy", "read")).check(t, "legacy", 503, "MAINTAINED_METHOD") // the owner of the bill cannot be looked up
			if _, err := m.storeDB(t).Exec("ALTER TABLE gone RENAME TO billbridge_owners"); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, func() bool { return p.admin("GET", "/-/ready?verbose").body == "ready\nserving: ok\nstore: ok\n" }, func() string { return "the outage does not end" })
		})
	}
}

// While PostgreSQL is down, the errors of its driver name the user, the database and the host.
func TestAnswersWithoutTokenDoNotNameTheDatabase(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(proxytest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	const socket = "/.s.PGSQL.5432"
	query := u.Query()
	target, folder := query.Get("host")+socket, t.TempDir()
	query.Set("host", folder)
	u.RawQuery = query.Encode()
	l, err := net.Listen("unix", folder+socket)
	if err != nil {
		t.Fatal(err)
	}
	cut := proxytest.Forward(t, l, func() (net.Conn, error) { return net.Dial("unix", target) })
	back := newBackend(t, newService())
	p := newProcess(t, strings.Replace(anyPort, "admin: {", `admin: {token: "letmein", `, 1)+fmt.Sprintf("upstreams: {only: {form: v2, url: %q}}\nstore: {url: %q}\n", back.url, u))
	// On a busy machine the first check of the store may take too long.
	proxytest.Eventually(t, func() bool { return p.admin("GET", "/-/ready").status == 200 }, func() string { return "not ready" })
	_ = l.Close()
	cut()
	proxytest.Eventually(t, func() bool { return p.admin("GET", "/-/ready").status == 503 }, func() string { return "no outage" })
	for _, path := range []string{"/-/ready", "/-/ready?verbose", "/metrics", "/callbacks", "/store/clock", "/"} {
		got := p.admin("GET", path)
		if strings.HasPrefix(path, "/-/ready") && got.status != 503 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		for _, secret := range []string{folder, "user=", "database=", "postgres", "PGSQL"} {
			if strings.Contains(got.body, secret) {
				t.Errorf("%s names %s: %s", path, secret, got.body)
			}
		}
	}
	if got := p.logs.String(); !strings.Contains(got, "the store cannot be written to") || !strings.Contains(got, folder) {
		t.Errorf("the log does not have the cause: %s", got)
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
