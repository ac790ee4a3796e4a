package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
)

// If the store is down, `rollout stop` takes effect on this gateway at once, reports that it is not stored, and is
// stored as soon as possible. Until then it can be revoked.
func TestStopTakesEffectBeforeItIsStored(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"it is stored later", "it is revoked", "another gateway stops"} {
		parallel(t, then, func(t *testing.T) {
			m := newRolloutGateway(t, "new")
			rename := func(from, to string) {
				t.Helper()
				if _, err := m.storeDB(t).Exec("ALTER TABLE " + from + " RENAME TO " + to); err != nil {
					t.Fatal(err)
				}
			}
			rename("billbridge_audit", "away") // only changes of the rollout fail
			m.mustPost("/rollout/stop?by=anna", `"unstored":"store: `)
			m.waitForLog(`"level":"ERROR"`, "stopped on this gateway, but that cannot be stored")
			m.expect(v2("create"), success)
			if len(m.old.Bills()) != 1 || len(m.fresh.Bills()) != 0 {
				t.Error("the bill was created at the new backend")
			}
			m.ask(200, "GET /rollout", `"stopped":{"by":"anna"`, `"unstored":true`)
			switch then {
			case "it is revoked":
				m.mustPost("/rollout/resume?by=ben")
				rename("away", "billbridge_audit")
			case "another gateway stops":
				rename("away", "billbridge_audit")
				if err := m.store.Stop(t.Context(), "carl", time.Now()); err != nil && !strings.Contains(err.Error(), "already") { // the first stop may be stored already
					t.Fatal(err)
				}
				fallthrough
			default:
				if then == "it is stored later" {
					rename("away", "billbridge_audit")
				}
				eventually(t, "the stop is not stored", func() bool { return !strings.Contains(m.admin("GET", "/rollout").body, `"unstored"`) })
				r, err := m.store.Rollout(t.Context())
				if err != nil || r.Stopped.At.IsZero() {
					t.Errorf("%+v, %v", r, err)
				}
				m.mustPost("/rollout/resume?by=ben")
			}
			m.expect(v2("create").with("billId", "ANOTHER0000000000001"), success)
			equal(t, len(m.fresh.Bills()), 1)
			m.ask(200, "GET /rollout", `!"stopped"`)
		})
	}
}

// A gateway that starts while PostgreSQL is down is not ready and takes no calls. It serves as soon as PostgreSQL is
// up.
func TestStartWaitsForPostgres(t *testing.T) {
	t.Parallel()
	real := proxytest.Postgres(t)
	u, err := url.Parse(real)
	must(t, err)
	// The socket of the server, and one in front of it that does not exist yet.
	const socket = "/.s.PGSQL.5432"
	query := u.Query()
	target, folder := query.Get("host")+socket, t.TempDir()
	query.Set("host", folder)
	u.RawQuery = query.Encode()
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	adminAt := admin.Addr().String()
	_ = admin.Close()
	back := newBackend(t, newService())
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q}\nupstreams: {only: {form: v2, url: %q}}\nstore: {url: %q, wait: 1m}\n", adminAt, back.url, u.String())
	type started struct {
		*server.Server
		err error
	}
	listening := make(chan started, 1)
	logs := &proxytest.Log{}
	go func() {
		s, err := server.Listen(context.Background(), parse(t, text), nil, nil, server.Build{}, slog.New(slog.NewJSONHandler(logs, nil)))
		listening <- started{s, err}
	}()
	client := newClient(t, nil)
	eventually(t, "the admin listener does not answer", func() bool {
		got, err := doRequest(client, http.MethodGet, "http://"+adminAt+"/-/ready", "")
		return err == nil && got.status == 503 && strings.Contains(got.body, "waiting for its store")
	})
	// The kill switch and pages are neither unknown nor without a section of the config.
	for _, path := range []string{"/rollout/stop?by=anna", "/callbacks", "/", "/static/console.css"} {
		got, err := doRequest(client, http.MethodPost, "http://"+adminAt+path, "")
		if err != nil || got.status != 503 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "the gateway is starting") {
			t.Errorf("%s: %v %+v", path, err, got)
		}
	}
	for line := logs.Next(t); !strings.Contains(line, "the store is unreachable: the gateway is not ready and retries"); line = logs.Next(t) {
	}
	select {
	case s := <-listening:
		t.Fatalf("the start did not wait: %v", s.err)
	default:
	}
	there, err := net.Listen("unix", folder+socket)
	must(t, err)
	proxytest.Forward(t, there, func() (net.Conn, error) { return net.Dial("unix", target) })
	s := receive(t, listening, "the start")
	if s.err != nil {
		t.Fatal(s.err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var got answer
	proxytest.Eventually(t, func() bool { // a busy machine may need longer than the first check of the store waits
		got, err = doRequest(client, http.MethodGet, "http://"+adminAt+"/-/ready", "")
		return err == nil && got.status == 200
	}, func() string { return fmt.Sprint(got.status, got.body, err) })
	client.CloseIdleConnections()
	stop()
	if err := receive(t, ended, "the end"); err != nil {
		t.Error(err)
	}
}

// A missing database, and a wait that is over or cancelled, end the start.
func TestStartDoesNotWaitForPermanentErrors(t *testing.T) {
	t.Parallel()
	listen := func(ctx context.Context, store string) error {
		s, err := server.Listen(ctx, parse(t, anyPort+"upstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\nstore: "+store+"\n"), nil, nil, server.Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("the server started: %v", s)
		}
		return err
	}
	u, err := url.Parse(proxytest.Postgres(t))
	must(t, err)
	u.Path = "/nosuchdatabase"
	if err := listen(t.Context(), fmt.Sprintf("{url: %q, wait: 1h}", u.String())); err == nil || !strings.Contains(err.Error(), "nosuchdatabase") {
		t.Errorf("%v", err)
	}
	if err := listen(t.Context(), `{url: "postgres://127.0.0.1:1/none", wait: 0s}`); err == nil || !strings.Contains(err.Error(), "retried for 0s, see store.wait") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := listen(ctx, `{url: "postgres://127.0.0.1:1/none", wait: 1h}`); err == nil || ctx.Err() == nil {
		t.Errorf("%v", err)
	}
}
