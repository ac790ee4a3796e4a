package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Many replicas that start at once on a new database can all use it.
func TestReplicasMigrateTogether(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := 8
		if strings.HasPrefix(url, "sqlite") {
			replicas = 2 // one that stops and one that takes over
		}
		var starting sync.WaitGroup
		for i := range replicas {
			starting.Go(func() {
				s, err := store.Open(t.Context(), url)
				for err != nil && strings.Contains(err.Error(), "another process has it locked") { // with few CPUs its wait can be too short
					s, err = store.Open(t.Context(), url)
				}
				if err != nil {
					t.Error(err)
					return
				}
				c := callback(string(rune('a'+i)), "b")
				if fresh, err := isFresh(s.Accept(t.Context(), c, 0)); !fresh || err != nil {
					t.Error(fresh, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		starting.Wait()
		var version, rows int
		must(t, raw(t, url).QueryRow("SELECT max(version), count(*) FROM billbridge_schema").Scan(&version, &rows))
		equal(t, version, newest(t), "version")
		equal(t, rows, newest(t), "rows")
	})
}

// newest is the version of the tables of this program.
func newest(t testing.TB) int {
	t.Helper()
	files, err := filepath.Glob("migrations/sqlite/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return len(files)
}

// No error shows the password, whatever is wrong with the URL, and whatever part of it a server repeats.
func TestR35_PasswordStaysHidden(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://user:hidden@127.0.0.1:1/db",
		"postgresql://user:hidden@127.0.0.1:1/db?sslmode=disable",
		"postgres://127.0.0.1:1/db?password=hidden",
		"postgres://user:hidden@127.0.0.1:x/db",
		"postgres://user:hidden@127.0.0.1:1/db?sslmode=hidden",
		"postgres://user:hid%64en@127.0.0.1:1/db",
		"postgres://user:hidden/more@127.0.0.1:1/db",
		"postgres://user:hidden#more@127.0.0.1:1/db",
		"postgres://user:1?hidden@127.0.0.1:1/db",
		"postgres://user:1/hidden@127.0.0.1:1/db",
		"postgres://user:more@hidden@127.0.0.1:1/db",
		"postgres://user:hidden%zz@127.0.0.1:1/db",
		"postgres:user:hidden@127.0.0.1",
		"postgres://user:hidden@127.0.0.1:1/db?sslrootcert=/none/hidden",
		"mysql://user:hidden@127.0.0.1/db",
		"user:hidden@127.0.0.1",
		" postgres://user:hidden@127.0.0.1/db",
	} {
		s, err := store.Open(t.Context(), url)
		if err == nil {
			t.Errorf("%s: opened %v", url, s)
			continue
		}
		probed := store.Probe(t.Context(), url)
		if probed == nil {
			t.Errorf("%s: nothing is wrong with it", url)
		}
		for _, err := range []error{err, probed} {
			for ; err != nil; err = errors.Unwrap(err) {
				lacks(t, err.Error(), "hidden", url)
			}
		}
	}
}

// A replica that freezes within a transaction does not keep its locks.
func TestPostgresEndsIdleTransactions(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.Postgres(t))
	gives(t, "30s")(s.Ask(t.Context(), "SHOW idle_in_transaction_session_timeout"))
}

// A commit waits for the disk, whatever the setting of the server.
func TestR30_PostgresWaitsForItsDisk(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"off": "on", "local": "local"} {
		s := open(t, proxytest.Postgres(t)+"&synchronous_commit="+set+"&default_transaction_isolation=serializable")
		for setting, want := range map[string]string{"synchronous_commit": want, "transaction_isolation": "read committed"} {
			for connection, ask := range map[string]func(context.Context, string) (string, error){"single writes": s.Ask, "batches": s.AskBatches} {
				got, err := ask(t.Context(), "SHOW "+setting)
				if err != nil || got != want {
					t.Errorf("%s: %s = %s, %v, want %s", connection, setting, got, err, want)
				}
			}
		}
	}
}

// A read-only server is refused.
func TestPostgresReadOnly(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	must(t, open(t, url).Ping(t.Context()))
	s, err := store.Open(t.Context(), url+"&default_transaction_read_only=on")
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "is read-only: a standby") || !store.Unreachable(err) {
		t.Errorf("%v", err)
	}
}
