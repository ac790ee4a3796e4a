package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
	"billbridge/proxy/store"
)

// If the store is down, `rollout stop` takes effect on this gateway at once, reports that it is not stored, and is
// stored as soon as possible. Until then it can be revoked.
func TestStopTakesEffectBeforeItIsStored(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"it is stored later", "it is revoked", "another gateway stops"} {
		parallel(t, then, func(t *testing.T) {
			m := newRolloutGateway(t, "new")
			const back = "sql ALTER TABLE away RENAME TO billbridge_audit"
			play(m, `
# only changes of the rollout fail
sql ALTER TABLE billbridge_audit RENAME TO away
200 POST /rollout/stop?by=anna | "unstored":"store:
log "level":"ERROR" | stopped on this gateway, but that cannot be stored
success v2 create
bills 1 0
200 GET /rollout | "stopped":{"by":"anna" | "unstored":true`)
			if then != "it is revoked" {
				play(m, back)
				if then == "another gateway stops" {
					if err := m.store.Change(t.Context(), store.Change{Action: store.Stopped, By: "carl", At: time.Now()}); err != nil { // the first stop may be stored already
						checkText(t, err.Error(), "already")
					}
				}
				m.waitForAdmin("/rollout", `!"unstored"`)
				r, err := m.store.Rollout(t.Context())
				must(t, err)
				equal(t, r.Stopped.At.IsZero(), false)
			}
			m.mustPost("/rollout/resume?by=ben")
			if then == "it is revoked" {
				play(m, back)
			}
			play(m, `
success v2 create billId=ANOTHER0000000000001
bills 1 1
200 GET /rollout | !"stopped"`)
		})
	}
}

// A gateway that starts while PostgreSQL is down is not ready and takes no calls. It serves as soon as PostgreSQL is
// up.
func TestStartWaitsForPostgres(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(proxytest.Postgres(t))
	must(t, err)
	// The socket of the server, and one in front of it that does not exist yet.
	const socket = "/.s.PGSQL.5432"
	query := u.Query()
	target, folder := query.Get("host")+socket, t.TempDir()
	query.Set("host", folder)
	u.RawQuery = query.Encode()
	admin := newSocket(t)
	c := proxytest.Config(t, anyPort+oneUpstream("v2", refusedURL, fmt.Sprintf("store: {url: %q}", u)))
	started, logs := make(chan error, 1), &proxytest.Log{}
	var s *server.Server
	go func() {
		var err error
		s, err = server.Listen(t.Context(), c, nil, map[string]net.Listener{"admin.listen": admin}, server.Build{},
			slog.New(slog.NewJSONHandler(logs, nil)))
		started <- err
	}()
	asks := &caller{t, "http://" + admin.Addr().String(), newClient(t, nil)}
	asks.do("GET", "/-/ready", "").is(t, 503, "waiting for its store")
	// The kill switch and pages are neither unknown nor without a section of the config.
	for _, path := range []string{"/rollout/stop?by=anna", "/callbacks", "/", "/static/console.css"} {
		got := asks.post(path, "")
		got.is(t, 503, "the gateway is starting")
		equal(t, got.header.Get("Retry-After"), "1", path)
	}
	for line := ""; !strings.Contains(line, "the store is unreachable: the gateway is not ready and retries"); line = logs.Next(t) {
	}
	equal(t, len(started), 0, "the start did not wait")
	there, err := net.Listen("unix", folder+socket)
	must(t, err)
	proxytest.Forward(t, there, func() (net.Conn, error) { return net.Dial("unix", target) })
	must(t, receive(t, started, "the start"))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	// A busy machine may need longer than the first check of the store waits.
	eventually(t, "it is not ready", func() bool { return asks.do("GET", "/-/ready", "").status == 200 })
	asks.client.CloseIdleConnections()
	stop()
	must(t, receive(t, ended, "the end"))
}

// A missing database, and a wait that is over or cancelled, end the start.
func TestStartDoesNotWaitForPermanentErrors(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(proxytest.Postgres(t))
	must(t, err)
	u.Path = "/nosuchdatabase"
	cancelled, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	up, none := anyPort+oneUpstream("v2", refusedURL), `store: {url: "postgres://127.0.0.1:1/none"}`
	storeWait := func(wait time.Duration) string {
		return proxytest.Tuned(func(c *config.Config) { c.Store.Wait = wait })
	}
	startFails(t, t.Context(), up+fmt.Sprintf("store: {url: %q}\n", u)+storeWait(time.Hour), nil, "nosuchdatabase")
	startFails(t, t.Context(), up+none+storeWait(0), nil, "retried for 0s")
	startFails(t, cancelled, up+none+storeWait(time.Hour), nil, "")
}
