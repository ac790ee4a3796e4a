package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// pgbouncer starts a pooler before PostgreSQL, and returns the URL of a store through it.
func pgbouncer(t *testing.T, mode string, port int, settings string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("pgbouncer is not installed: not tested that a pooler which shares sessions is refused")
	}
	direct, err := url.Parse(proxytest.Postgres(t))
	must(t, err)
	folder, schema := direct.Query().Get("host"), direct.Query().Get("search_path")
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `[databases]
postgres = host=%s user=postgres connect_query='SET search_path = %s'
[pgbouncer]
listen_addr =
listen_port = %d
unix_socket_dir = %s
auth_type = any
pool_mode = %s
default_pool_size = 16
server_reset_query = DEALLOCATE ALL
%s
`, folder, schema, port, folder, mode, settings), 0o600))
	command := exec.Command(program, file)
	if os.Geteuid() == 0 { // it refuses to run as root
		command = exec.Command(program, "-u", "postgres", file)
	}
	var said strings.Builder
	command.Stderr = &said
	must(t, proxytest.Tie(command).Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	socket := filepath.Join(folder, fmt.Sprint(".s.PGSQL.", port))
	proxytest.Eventually(t, func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("pgbouncer ended: %v\n%s", err, said.String())
		default:
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			err = c.Close()
		}
		return err == nil
	}, nil)
	return "postgres://postgres@/postgres?" + url.Values{"host": {folder}, "port": {fmt.Sprint(port)}}.Encode()
}

// A pooler that shares sessions would take the settings of one connection for another one, such as synchronous_commit.
func TestPoolerMustNotShareSessions(t *testing.T) {
	t.Parallel()
	for port, mode := range map[int]string{6433: "transaction", 6434: "statement"} {
		refused(t, pgbouncer(t, mode, port, ""), "PgBouncer: pool_mode = session")
	}
	address := pgbouncer(t, "session", 6435, "")
	s := open(t, address)
	accept(t, s, callback("c1", "b"))
	if c := claim(t, s, time.Now()); len(c) != 1 {
		t.Errorf("%d callbacks are claimed, want 1", len(c))
	}
	own(t, s, "b", "old")
	must(t, store.Probe(t.Context(), address))
}

// Calls of others through the pooler hide nothing: without sessions it is refused each time, and with them never.
func TestBusyPoolerIsRecognisedEachTime(t *testing.T) {
	t.Parallel()
	for port, mode := range map[int]string{6436: "transaction", 6437: "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			address := pgbouncer(t, mode, port, "")
			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			defer others.Wait()
			defer cancel()
			for range 2 {
				db, err := sql.Open("pgx", address+"&default_query_exec_mode=simple_protocol")
				must(t, err)
				others.Go(func() {
					for ctx.Err() == nil {
						_, _ = db.ExecContext(ctx, "SELECT 1")
					}
					_ = db.Close()
				})
			}
			const times = 80
			refused := 0
			for range times {
				err := store.Probe(t.Context(), address)
				if err != nil && !strings.Contains(err.Error(), "PgBouncer: pool_mode = session") {
					t.Fatal(err)
				}
				if err != nil {
					refused++
				}
			}
			equal(t, refused, map[string]int{"transaction": times, "session": 0}[mode], times)
		})
	}
}
