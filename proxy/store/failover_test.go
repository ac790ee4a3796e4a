package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"

	"modernc.org/sqlite"
)

// outcomes are what gateways concluded.
func outcomes(gateways ...*store.Store) (all []string) {
	for _, s := range gateways {
		text := ""
		for _, o := range store.FailOvers {
			for range s.FailOvers(o) {
				text += string(o) + " "
			}
		}
		all = append(all, text)
	}
	return all
}

// reconnect makes gateways use the store until they have a connection again, all at the same time.
func reconnect(t *testing.T, gateways ...*store.Store) {
	t.Helper()
	var all sync.WaitGroup
	for _, s := range gateways {
		all.Go(func() {
			proxytest.Eventually(t, func() bool { _, err := s.Revision(t.Context()); return err == nil }, nil)
		})
	}
	all.Wait()
}

// A fail-over to a standby that has everything changes nothing, whether one gateway runs or two.
func TestFailOverWithoutALossIsProven(t *testing.T) {
	t.Parallel()
	p := proxytest.NewPair(t)
	a, b := open(t, p.URL), open(t, p.URL)
	for i := range 20 {
		own(t, a, fmt.Sprint("a", i), "new")
		own(t, b, fmt.Sprint("b", i), "new")
	}
	generation := a.Generation()
	p.Stall()
	p.FailOver()
	reconnect(t, a, b)
	equal(t, outcomes(a, b), []string{"proven ", "proven "}, "outcomes")
	if r, err := a.Rollout(t.Context()); err != nil || !r.Restored.At.IsZero() {
		t.Errorf("restored %+v, %v", r.Restored, err)
	}
	if a.Generation() == generation {
		t.Error("what was decided before would not be decided again")
	}
	own(t, a, "after", "new")
}

// A gateway whose acknowledged writes are missing declares the store restored before it uses the new server. The other gateway, whose
// writes are there, sees that when it can use the new server.
func TestR41_FailOverThatLostWritesIsNoticed(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*testing.T, *store.Store) error{
		"creates": func(t *testing.T, s *store.Store) error {
			_, err := proxytest.On(s).Own(t.Context(), partnerOne, "lost", "new", time.Now(), time.Time{}, "")
			return err
		},
		"kill switch": func(t *testing.T, s *store.Store) error {
			return s.Change(t.Context(), store.Change{Action: store.Stopped, By: "anna", At: time.Now()})
		},
		"canary lowered": func(t *testing.T, s *store.Store) error {
			return s.Change(t.Context(), store.Change{Action: store.Staged, To: "canary", ToPercent: 10, By: "anna", At: time.Now()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxytest.NewPair(t)
			a, b := open(t, p.URL), open(t, p.URL)
			own(t, b, "kept", "new")
			p.Stall()
			must(t, write(t, a))
			p.FailOver()
			reconnect(t, b, a)
			equal(t, outcomes(a, b), []string{"lost ", "proven "}, "outcomes")
			r, err := b.Rollout(t.Context())
			if err != nil || r.Restored.By != store.ByFailOver {
				t.Errorf("%+v, %v", r, err)
			}
			fails(t, store.ErrNotFound, "the bill is not lost")(proxytest.On(a).Owner(t.Context(), partnerOne, "lost"))
		})
	}
}

// A gateway that was killed before the fail-over cannot say whether its writes are there: neither the one that went on running nor one that
// starts takes that for granted. A gateway that ended in good order has nothing to say.
func TestR41_FailOverIsNotProvenWithoutEachGateway(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"killed": "unproven ", "ended": "proven ", "killed, lossless": "proven "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			p := proxytest.NewPair(t)
			a, err := store.OpenHasty(ctx, p.URL, name == "killed, lossless")
			closed(t, a, err)
			b, err := store.Open(ctx, p.URL)
			must(t, err)
			own(t, b, "b1", "new")
			if name == "ended" {
				must(t, b.Close())
			} else {
				t.Cleanup(func() { _ = b.Close() }) // it does not connect again: it might as well have been killed
			}
			own(t, a, "a1", "new")
			p.Stall()
			p.FailOver()
			reconnect(t, a)
			equal(t, outcomes(a), []string{want}, "outcomes")
			after, err := store.OpenHasty(ctx, p.URL, name == "killed, lossless")
			closed(t, after, err)
			equal(t, outcomes(after), []string{""}, "of a gateway that starts later")
			r, err := after.Rollout(ctx)
			if err != nil || (r.Restored.By == store.ByFailOver) != (want == "unproven ") {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// If no gateway ran on through the fail-over, the first that starts finds in the store that they wrote until then.
func TestFailOverIsNotProvenAfterARestart(t *testing.T) {
	t.Parallel()
	p := proxytest.NewPair(t)
	a, err := store.Open(t.Context(), p.URL)
	must(t, err)
	t.Cleanup(func() { _ = a.Close() })
	own(t, a, "a1", "new")
	p.Stall()
	own(t, a, "lost", "new")
	p.FailOver()
	b, err := store.OpenHasty(t.Context(), p.URL, false)
	closed(t, b, err)
	r, err := b.Rollout(t.Context())
	if err != nil || r.Restored.By != store.ByFailOver {
		t.Errorf("%+v, %v", r, err)
	}
}

// An older copy takes the place of an SQLite file under the running process: its next write is refused, and the store counts as restored.
func TestR41_OlderCopyOfTheFileIsNoticed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "store.db")
	s := open(t, "sqlite:"+file)
	own(t, s, "kept", "new")
	older := filepath.Join(t.TempDir(), "older.db")
	works(t)(store.Backup(ctx, "sqlite:"+file, older, func(_, _ int64) {}))
	own(t, s, "lost", "new")
	generation := s.Generation()

	replaceBy(t, file, older)
	fails(t, "", "a create was recorded by what was decided before")(proxytest.On(s).Own(ctx, partnerOne, "lost", "old", time.Now(), time.Time{}, ""))
	equal(t, outcomes(s), []string{"lost "}, "outcomes")
	r, err := s.Rollout(ctx)
	if err != nil || r.Restored.By != store.ByFailOver || s.Generation() == generation {
		t.Errorf("%+v, %v", r, err)
	}
	own(t, s, "lost", "old")
}

// replaceBy puts an older copy in the place of an SQLite file that a process has open.
func replaceBy(t *testing.T, file, older string) {
	t.Helper()
	c, err := raw(t, "sqlite:"+file).Conn(t.Context())
	must(t, err)
	must(t, c.Raw(func(driver any) error {
		restore, err := driver.(interface {
			NewRestore(string) (*sqlite.Backup, error)
		}).NewRestore(older)
		if err == nil {
			_, err = restore.Step(-1)
		}
		return errors.Join(err, restore.Finish())
	}))
	must(t, c.Close())
}

// A decision that an older copy lacks is not in force any more, also if the next one gets its revision: after a time in which a
// clock was ahead, revisions are counted one by one.
func TestRevisionOfALostDecisionComesAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "store.db")
	s := open(t, "sqlite:"+file)
	ahead := time.Now().AddDate(1, 0, 0)
	stage := func(to string) {
		t.Helper()
		must(t, s.Change(ctx, store.Change{Action: store.Staged, Partner: partnerOne, To: to, By: "anna", At: ahead}))
	}
	stage("new")
	older := filepath.Join(t.TempDir(), "older.db")
	works(t)(store.Backup(ctx, "sqlite:"+file, older, func(_, _ int64) {}))
	stage("drained")
	before, err := s.Rollout(ctx)
	must(t, err)
	replaceBy(t, file, older)
	fails(t, "", "a write to an older copy")(proxytest.On(s).Own(ctx, partnerOne, "lost", "old", time.Now(), time.Time{}, ""))
	after, err := s.Rollout(ctx)
	must(t, err)
	equal(t, after.Revision, before.Revision, "the revision")
	equal(t, after.Stages[0].Stage, "new", "the stage")
}

// A transaction that changes nothing writes nothing.
func TestNothingIsWrittenWithoutAChange(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		number := func() (n int) {
			t.Helper()
			must(t, raw(t, url).QueryRow("SELECT sum(number) FROM billbridge_gateways").Scan(&n))
			return n
		}
		before := number()
		for range 5 {
			if c := claim(t, s, noon); len(c) != 0 {
				t.Fatal(c)
			}
		}
		if after := number(); after != before {
			t.Errorf("%d transactions were counted that changed nothing", after-before)
		}
		own(t, s, "b", "old")
		if after := number(); after == before {
			t.Error("a create was not counted")
		}
	})
}

// Of several hosts the primary is used, and a frozen one stops nothing: a new primary takes the writes, though the old one still accepts
// connections and never answers.
func TestFrozenPrimaryStopsNothing(t *testing.T) {
	t.Parallel()
	pair := proxytest.NewPair(t)
	s := open(t, pair.Hosts()) // the standby is the first of the hosts
	settle(t, s, own(t, s, "before", "new"), ledger.Succeeded)
	pair.Stall()
	pair.Freeze()
	pair.Promote()
	proxytest.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := proxytest.On(s).Own(ctx, partnerOne, "after", "new", time.Now(), time.Time{}, "")
		return err == nil
	}, func() string { return "no write succeeds though there is a new primary" })
	equal(t, ownerOf(t, s, "before").Upstream, "new")
}
