package proxytest

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// socket is the name of PostgreSQL's socket in its folder.
const socket = ".s.PGSQL.5432"

// A Pair is a primary of PostgreSQL and its standby, asynchronous at first, behind an address that leads to the
// primary.
type Pair struct {
	URL string

	t                testing.TB
	primary, standby *server

	to  atomic.Pointer[server] // that the address leads to
	cut func()                 // ends the connections
}

// NewPair starts both. It is skipped like Postgres. Both end with the test.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{t: t}
	begin := func(data string, primary ...string) *server {
		from, err := template()
		var s *server
		if err == nil {
			s, err = start("off", data, append([]string{from.folder}, primary...)...)
		}
		if errors.Is(err, errMissing) && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal("starting PostgreSQL: ", err)
		}
		t.Cleanup(func() { _ = s.leash.Close() })
		return s
	}
	p.primary = begin(copyData)
	p.standby = begin(standbyData, p.primary.folder)
	p.to.Store(p.primary)
	folder, err := os.MkdirTemp("", "pg") // a short name: it is part of a socket's
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(folder, socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	p.cut = Forward(t, listener, func() (net.Conn, error) {
		return net.Dial("unix", filepath.Join(p.to.Load().folder, socket))
	})
	p.URL = "postgres://postgres@/postgres?" + url.Values{"host": {folder}}.Encode()
	return p
}

func (p *Pair) query(at *server, statement string) (answer string) {
	p.t.Helper()
	db, err := sql.Open("pgx", at.url("public"))
	if err == nil {
		defer func() { _ = db.Close() }()
		var text sql.NullString
		err = db.QueryRowContext(context.Background(), statement).Scan(&text)
		answer = text.String
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		p.t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

// Synchronous makes the primary wait for the standby at each commit.
func (p *Pair) Synchronous() {
	p.t.Helper()
	p.query(p.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	p.query(p.primary, "SELECT pg_reload_conf()::text")
	Eventually(p.t, func() bool { return p.query(p.primary, "SELECT sync_state FROM pg_stat_replication") == "sync" },
		func() string { return "the standby is not synchronous" })
}

// Stall makes the standby receive nothing more, after it has all that was written until now.
func (p *Pair) Stall() {
	p.t.Helper()
	at := p.query(p.primary, "SELECT pg_current_wal_flush_lsn()::text")
	Eventually(p.t, func() bool {
		return p.query(p.standby, "SELECT (pg_last_wal_replay_lsn() >= '"+at+"')::text") == "true"
	}, func() string { return "the standby has not received what was written" })
	p.query(p.standby, "ALTER SYSTEM SET primary_conninfo = ''")
	p.query(p.standby, "SELECT pg_reload_conf()::text")
	Eventually(p.t, func() bool { return p.query(p.standby, "SELECT count(*)::text FROM pg_stat_wal_receiver") == "0" },
		func() string { return "the standby still receives" })
}

// Hosts is a URL that names both servers, the standby first, without the address between.
func (p *Pair) Hosts() string {
	return "postgres://postgres@/postgres?" + url.Values{"host": {p.standby.folder + "," + p.primary.folder}}.Encode()
}

// Freeze stops the primary in the middle of whatever it does: it accepts connections, and never answers. The test ends
// it.
func (p *Pair) Freeze() {
	p.t.Helper()
	pid := ReadFile(p.t, filepath.Join(p.primary.folder, "data", "postmaster.pid"))
	postmaster, _, _ := strings.Cut(string(pid), "\n")
	signal := func(name string) error { // to the postmaster and its children
		return exec.Command("sh", "-c", `kill -"$0" "$1" $(ps -o pid= --ppid "$1")`, name, postmaster).Run()
	}
	Must(p.t, signal("STOP"))
	p.t.Cleanup(func() { _ = signal("CONT") }) // before the server gets the signal to end
}

// Promote makes the standby a primary, and leaves all connections as they are.
func (p *Pair) Promote() {
	p.t.Helper()
	if p.query(p.standby, "SELECT pg_promote()::text") != "true" {
		p.t.Fatal("the standby was not promoted")
	}
}

// FailOver promotes the standby, and ends the connections to the primary. The address leads to the standby from then
// on.
func (p *Pair) FailOver() {
	p.t.Helper()
	p.to.Store(p.standby)
	p.Promote()
	p.cut()
}
