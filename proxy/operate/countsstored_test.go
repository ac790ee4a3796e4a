package operate_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The counts of all replicas are one report, which survives their restart. A reset removes it for all.
func TestReplicasCountTogether(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, at string) {
		here, there := newTestOperator(t, proxytest.Open(t, at), separate), newTestOperator(t, proxytest.Open(t, at), separate)
		for range 3 {
			here.compares("k", 40, evidence.Same)
			there.compares("k", 40, evidence.Same)
			there.ends("k", "bill.create", evidence.Old, 10, fine)
			must(t, here.Close(context.Background()))
			there.ends("k", "bill.create", evidence.New, 1, fine)
			answers[operate.Report](there, "GET", "/rollout/report")
		}
		for _, d := range []*testOperator{here, there, newTestOperator(t, proxytest.Open(t, at), separate)} {
			r := answers[operate.Report](d, "GET", "/rollout/report?partner=<k>")
			if len(r.Verdicts) != 2 || r.Verdicts[0].CallStats.Calls != [2]int{30, 3} || r.Verdicts[1].Number != 240 || r.Verdicts[1].Bills != 40 || r.Verdicts[1].Ruling != evidence.Pass {
				t.Errorf("%+v", r)
			}
			if r := answers[operate.Report](d, "GET", "/rollout/report?partner=<else>"); len(r.Verdicts) != 0 {
				t.Errorf("%+v", r)
			}
		}
		here.compares("else", 1, evidence.Same)
		here.compares("k", 1, evidence.Same) // not stored yet
		here.change("/rollout/reset?by=a&partner=<k>")
		answers[operate.Report](here, "GET", "/rollout/report")
		if r := answers[operate.Report](there, "GET", "/rollout/report"); len(r.Verdicts) != 1 || r.Verdicts[0].Partner != partner.Of("else")[:12] {
			t.Errorf("%+v", r)
		}
		equal(t, here.change("/rollout/reset?by=a&partner=all").Partner, "all")
		if r := answers[operate.Report](there, "GET", "/rollout/report"); len(r.Verdicts) != 0 {
			t.Errorf("%+v", r)
		}
		if log := answers[[]operate.Change](there, "GET", "/audit?limit=2"); log[0].Partner != "all" || log[1].Partner != hash("k")[:12] || log[1].Action != "reset" {
			t.Errorf("%+v", log)
		}
	})
}

// Counts that could not be stored are stored later, and unreadable counts do not block the kill switch.
func TestCountsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	d := newTestOperator(t, s, separate)
	d.compares("k", 5, evidence.Same)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, "", "no error")(d.Router.Counts().Flush(gone))
	if r := answers[operate.Report](d, "GET", "/rollout/report"); len(r.Verdicts) != 1 || r.Verdicts[0].Number != 5 {
		t.Errorf("%+v", r)
	}
	version := answers[operate.Report](d, "GET", "/rollout/report").Table
	works(t)(s.AddCounts(t.Context(), version, []store.Counts{{Partner: partner.Of("k"), Operation: "bill.create", Data: []byte("no JSON"), Marked: true}}, noon, nil))
	d.seen("k", time.Hour)
	d.refuses("/rollout/stage?by=a&stage=new&partner=<k>", "a precondition could not be checked: ")
	d.forced("/rollout/stage?by=a&stage=new&force=<all>&partner=<k>")
	if c := d.change("/rollout/stop?by=a"); c.Action != "stop" || c.Unstored != "" {
		t.Errorf("%+v", c)
	}
	d.createsAt("k", "legacy", "")
}

// A reload with another table loses no count that is not stored yet: money that differed holds back every move by any table. What is
// evidence for a move begins anew. A reset removes these counts, too.
func TestReloadKeepsCountsThatAreNotStored(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store.db")
	d := newTestOperator(t, proxytest.Open(t, "sqlite:"+file), separate)
	db, err := sql.Open("sqlite", "file:"+file)
	must(t, err)
	defer db.Close()
	changed := parse(t, overlaid(t, "operations: {bill.read: {reply: {apprNum: {required: false}}}}"))
	for _, key := range []string{"k", "else"} {
		d.compares(key, 1, evidence.Differs, evidence.Difference{Path: "apprNum", Kind: evidence.InExact, Old: "1", New: "2"})
		d.ends(key, "bill.create", evidence.New, 10, fine)
	}
	held := func(want int, about string) {
		t.Helper()
		all, err := d.Router.Counts().Marked(t.Context())
		must(t, err)
		exact := 0
		for _, n := range all {
			exact += len(n.ExactFields())
		}
		equal(t, exact, want, about)
	}
	rename := func(from, to string) { works(t)(db.Exec("ALTER TABLE " + from + " RENAME TO " + to)) }
	d.Router.Use(changed)
	held(2, "before a flush")
	d.ends("k", "bill.create", evidence.New, 1, fine)
	rename("billbridge_counts", "hidden")
	if d.Router.Counts().Flush(t.Context()) == nil {
		t.Error("a flush without a table did not fail")
	}
	rename("hidden", "billbridge_counts")
	held(2, "after a flush that failed")
	equal(t, len(d.Router.Counts().Snapshot()), 1, "counts with the table in use go back")
	d.Router.Counts().Forget(partner.Of("else"))
	held(1, "after a reset")
	d.ends("k", "bill.create", evidence.New, 5, fine)
	must(t, d.Router.Counts().Flush(t.Context()))
	held(1, "after a flush")
	r := answers[operate.Report](d, "GET", "/rollout/report")
	if len(r.Verdicts) != 1 || r.Verdicts[0].CallStats == nil || r.Verdicts[0].Calls != [2]int{0, 6} {
		t.Errorf("%+v", r.Verdicts)
	}
}

// If a caller gives up while counts are being stored, they are not counted twice, and the caller does not wait longer.
func TestSlowStoreDoesNotDoubleCounts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store.db")
	s := proxytest.Open(t, "sqlite:"+file)
	d := newTestOperator(t, s, separate)
	d.ends("k", "bill.create", evidence.New, 100, fine)
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	must(t, err)
	defer db.Close()
	busy, err := db.Begin()
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { given <- d.Router.Counts().Flush(ctx) }()
	for len(d.Router.Counts().Snapshot()) > 0 { // until the flush has drained them
		runtime.Gosched()
	}
	stop()
	fails(t, context.Canceled)(<-given)
	late, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	fails(t, context.DeadlineExceeded, "behind the first")(d.Router.Counts().Flush(late))
	must(t, busy.Rollback())
	if r := answers[operate.Report](d, "GET", "/rollout/report"); len(r.Verdicts) != 1 || r.Verdicts[0].CallStats.Calls[evidence.New] != 100 {
		t.Errorf("%+v", r)
	}
}

// A connection to the store without answers does not delay the end of the process.
func TestHungStoreDoesNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	url, silence := hole(t, proxytest.Postgres(t))
	s, err := store.Open(t.Context(), url)
	must(t, err)
	d := newTestOperator(t, s, separate)
	d.ends("k", "bill.create", evidence.New, 10, fine)
	silence()
	late, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	fails(t, context.DeadlineExceeded)(d.Router.Counts().Flush(late))
	fails(t, "", "no error")(d.Router.Close(t.Context()))
	if err := s.Close(); err != nil { // it waits for all users
		t.Error(err)
	}
}

// hole is a proxy to PostgreSQL that from some moment on forwards nothing and closes nothing.
func hole(t *testing.T, to string) (url string, silence func()) {
	t.Helper()
	c, err := pgx.ParseConfig(to)
	must(t, err)
	network, address := pgconn.NetworkAddress(c.Host, c.Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	silent, silence := context.WithCancel(t.Context())
	t.Cleanup(func() { _ = listener.Close() })
	pass := func(from, to net.Conn) {
		defer to.Close()
		some := make([]byte, 4096)
		for {
			n, err := from.Read(some)
			if silent.Err() != nil {
				<-t.Context().Done()
			}
			if err != nil {
				return
			}
			if _, err = to.Write(some[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial(network, address)
			if err != nil {
				_ = here.Close()
				continue
			}
			go pass(here, there)
			go pass(there, here)
		}
	}()
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&search_path=%s", c.User, listener.Addr(), c.Database, c.RuntimeParams["search_path"]), silence
}
