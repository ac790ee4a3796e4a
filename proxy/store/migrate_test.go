package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
				if fresh, _, err := s.Accept(t.Context(), c, 0); !fresh || err != nil {
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

// A database of a newer billbridge is refused and not changed.
func TestNewerSchema(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		first := open(t, url)
		accept(t, first, callback("c1", "b"))
		must(t, first.Close())
		db := raw(t, url)
		run(t, db, "DROP TABLE billbridge_addresses", "CREATE TABLE billbridge_addresses (other INTEGER)", fmt.Sprintf("INSERT INTO billbridge_schema VALUES (%d)", newest(t)+1))
		_, opened := store.Open(t.Context(), url)
		for _, err := range []error{opened, store.Probe(t.Context(), url)} {
			if want := fmt.Sprintf("its schema has version %d and this billbridge knows versions up to %d", newest(t)+1, newest(t)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		run(t, db, "INSERT INTO billbridge_addresses (other) VALUES (1)")
		var versions, callbacks int
		must(t, errors.Join(
			db.QueryRow("SELECT count(*) FROM billbridge_schema").Scan(&versions),
			db.QueryRow("SELECT count(*) FROM billbridge_callbacks").Scan(&callbacks),
		))
		equal(t, versions, newest(t)+1, "versions")
		equal(t, callbacks, 1, "callbacks")
	})
}

// firstVersion makes a database as the first version of the tables had it, with a row in each.
func firstVersion(t *testing.T, url string) *sql.DB {
	t.Helper()
	engine, ours, blob := "postgres", "SELECT 1", `'\x00'`
	if strings.HasPrefix(url, "sqlite") {
		engine, ours, blob = "sqlite", "PRAGMA application_id = 0x62627374", "x'00'"
	}
	text, err := os.ReadFile("migrations/" + engine + "/0001_callbacks.sql")
	must(t, err)
	digest := strings.Replace(blob, "00", strings.Repeat("07", 32), 1)
	db := raw(t, url)
	run(t, db, ours, string(text),
		"CREATE TABLE billbridge_schema (version INTEGER PRIMARY KEY)",
		"INSERT INTO billbridge_schema (version) VALUES (1)",
		"INSERT INTO billbridge_upstreams (name, form, url) VALUES ('old', 'legacy', 'https://old.example.com')",
		`INSERT INTO billbridge_addresses (id, upstream, operation, partner, bill, store, form, url, created)
			VALUES ('a1', 'old', 'bill.create', 'p', 'b1', '', 'v2', 'https://one.example.com/paid', 1)`,
		`INSERT INTO billbridge_callbacks (
			id, address, upstream, partner, bill, form, url, host, ordering, digest, content_type, received, state, attempts,
			next, due, lease, last_status, last_outcome, body)
			VALUES ('c1', 'a1', 'old', 'p', 'b1', 'v2', 'https://one.example.com/paid', 'one.example.com', 'old/b1', `+digest+`,
			'application/json', 1, 'waiting', 3, 2, 2, '', 500, 'made up', `+blob+`)`)
	return db
}

// backToVersion5 makes a new database what the fifth version of the tables had.
func backToVersion5(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, index := range []string{
		"billbridge_addresses_key", "billbridge_callbacks_key", "billbridge_callbacks_bodies", "billbridge_callbacks_superseded", "billbridge_owners_open", "billbridge_counts_marked", "billbridge_unknown_due",
		"billbridge_addresses_look", "billbridge_addresses_missing", "billbridge_callbacks_says",
	} {
		run(t, db, "DROP INDEX IF EXISTS "+index)
	}
	run(t, db, "DROP INDEX billbridge_callbacks_due", "ALTER TABLE billbridge_callbacks DROP COLUMN first",
		"CREATE INDEX billbridge_callbacks_due ON billbridge_callbacks (host, due)")
	for _, column := range []string{"member", "merchant", "read_by", "reads", "next_read", "resolved"} {
		run(t, db, "ALTER TABLE billbridge_unknown DROP COLUMN "+column)
	}
	if strings.HasPrefix(fmt.Sprintf("%T", db.Driver()), "*stdlib") {
		run(t, db, "DROP FUNCTION billbridge_owners_key CASCADE")
	} else {
		run(t, db, "DROP TRIGGER billbridge_owners_key")
	}
	run(t, db, "DROP TABLE billbridge_waves", "DROP TABLE billbridge_wave_partners", "DROP TABLE billbridge_lead", "ALTER TABLE billbridge_audit DROP COLUMN evidence")
	for _, column := range []string{"member", "merchant", "look", "shown", "since", "missing", "why"} {
		run(t, db, "ALTER TABLE billbridge_addresses DROP COLUMN "+column)
	}
	run(t, db, "ALTER TABLE billbridge_callbacks DROP COLUMN says", "DELETE FROM billbridge_schema WHERE version > 5", "DROP TABLE billbridge_hours", "DROP TABLE billbridge_partner_keys", "DROP TABLE billbridge_secret", "DROP TABLE billbridge_gateways", "DROP TABLE billbridge_doubled",
		"ALTER TABLE billbridge_callbacks DROP COLUMN repeats", "ALTER TABLE billbridge_callbacks DROP COLUMN repeated",
		"ALTER TABLE billbridge_addresses DROP COLUMN key_id",
		"ALTER TABLE billbridge_callbacks DROP COLUMN key_id", "ALTER TABLE billbridge_callbacks DROP COLUMN erased", "DROP TABLE billbridge_proven", "DROP INDEX billbridge_addresses_unproven",
		"ALTER TABLE billbridge_addresses DROP COLUMN holds", "ALTER TABLE billbridge_addresses DROP COLUMN unproven",
		"ALTER TABLE billbridge_counts DROP COLUMN marked")
}

// backToVersion2 makes a new database what the second version of the tables had.
func backToVersion2(t *testing.T, db *sql.DB) {
	t.Helper()
	backToVersion5(t, db)
	postgres := strings.HasPrefix(fmt.Sprintf("%T", db.Driver()), "*stdlib")
	if !postgres {
		run(t, db, "DROP TRIGGER billbridge_attempts_end")
	}
	run(t, db, "DELETE FROM billbridge_schema WHERE version > 2", "DROP TABLE billbridge_attempts", "DROP INDEX billbridge_callbacks_last",
		"DROP TABLE billbridge_clock",
		"ALTER TABLE billbridge_owners DROP COLUMN ended", "DROP TABLE billbridge_unknown",
		"ALTER TABLE billbridge_owners DROP COLUMN tried", "ALTER TABLE billbridge_owners DROP COLUMN denied",
		"ALTER TABLE billbridge_owners DROP COLUMN estimated",
		"ALTER TABLE billbridge_upstreams DROP COLUMN may_move", "ALTER TABLE billbridge_upstreams DROP COLUMN may_move_by",
		"ALTER TABLE billbridge_audit DROP COLUMN subject")
	for _, column := range []string{"started", "begun", "begun_by", "config_default"} {
		run(t, db, "ALTER TABLE billbridge_rollout DROP COLUMN "+column)
	}
	if postgres {
		run(t, db, "ALTER TABLE billbridge_audit ADD CONSTRAINT billbridge_audit_action_check CHECK (action <> '')")
	}
}

// TestEnginesHaveTheSameTables: both engines end with the same columns.
func TestEnginesHaveTheSameTables(t *testing.T) {
	t.Parallel()
	columns := func(url string) map[string][]string {
		_ = open(t, url)
		db, all := raw(t, url), map[string][]string{}
		for _, table := range []string{"upstreams", "addresses", "callbacks", "owners", "rollout", "stages", "audit", "seen", "counts", "clock", "attempts", "unknown", "proven", "doubled", "hours", "waves", "wave_partners", "lead", "partner_keys", "schema"} {
			rows, err := db.Query("SELECT * FROM billbridge_" + table + " WHERE 1 = 0")
			must(t, err)
			if all[table], err = rows.Columns(); err != nil {
				t.Fatal(err)
			}
			slices.Sort(all[table])
			_ = rows.Close()
		}
		return all
	}
	equal(t, columns(proxytest.Postgres(t)), columns(proxytest.SQLite(t)), "columns")
}

// If the second migration fails, the database stays at the first version. It opens when the cause is removed.
func TestSecondMigrationFails(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		db := firstVersion(t, url)
		run(t, db, "CREATE TABLE billbridge_counts (somebody_elses INTEGER)") // the last of the file
		fails(t, "0002_rollout.sql")(store.Open(t.Context(), url))
		var version, callbacks int
		must(t, errors.Join(
			db.QueryRow("SELECT max(version) FROM billbridge_schema").Scan(&version),
			db.QueryRow("SELECT count(*) FROM billbridge_callbacks").Scan(&callbacks),
		))
		equal(t, version, 1, "version")
		equal(t, callbacks, 1, "callbacks")
		fails(t, "", "billbridge_owners was left")(db.Exec("SELECT * FROM billbridge_owners"))
		run(t, db, "DROP TABLE billbridge_counts")
		equal(t, get(t, open(t, url), "c1").Attempts, 3, "the attempts")
	})
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
