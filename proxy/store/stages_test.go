package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

func rolloutOf(t testing.TB, s *store.Store) store.Rollout {
	t.Helper()
	r, err := s.Rollout(t.Context())
	must(t, err)
	return r
}

// audit is the audit log without its revisions, which must decrease.
func audit(t testing.TB, s *store.Store, limit int) []store.Change {
	t.Helper()
	all, err := s.Audit(t.Context(), store.AuditFilter{Limit: limit})
	must(t, err)
	if !slices.IsSortedFunc(all, func(a, b store.Change) int { return int(b.Revision - a.Revision) }) {
		t.Errorf("not the last first: %v", all)
	}
	for i := range all {
		all[i].Revision = 0
	}
	return all
}

// The other replica reads each change, and sees by the revision that there is one.
func TestStages(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		s := replicas[0]
		equal(t, "at first", rolloutOf(t, s), store.Rollout{})
		equal(t, "at first", audit(t, s, 10), nil)

		one, two := partner.Of("one"), partner.Of("two")
		at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
		var want store.Rollout
		var log []store.Change
		revision := int64(0)
		did := func(err error, change store.Change) {
			t.Helper()
			must(t, err)
			log = slices.Insert(log, 0, change)
			equal(t, "the log", audit(t, replicas[1], 100), log)
			was := revision
			if revision, err = replicas[1].Revision(t.Context()); err != nil || revision <= was {
				t.Fatalf("the revision went from %d to %d, %v", was, revision, err)
			}
			want.Revision = revision
			equal(t, "the rollout", rolloutOf(t, replicas[1]), want)
		}

		canary := store.Stage{Partner: one, Stage: "canary", Percent: 10, By: "anna", At: at(1)}
		want.Stages = []store.Stage{canary}
		did(s.SetStage(t.Context(), canary), store.Change{
			Action: store.Staged, By: "anna", At: at(1), Partner: one, To: "canary", ToPercent: 10,
		})
		byDefault := store.Stage{Stage: "shadow", By: "박", At: at(2)}
		want.Stages = []store.Stage{byDefault, canary}
		did(s.SetStage(t.Context(), byDefault), store.Change{Action: store.Staged, By: "박", At: at(2), To: "shadow"})
		other := store.Stage{Partner: two, Stage: "old", By: "anna", At: at(2)}
		want.Stages = append(want.Stages, other)
		slices.SortFunc(want.Stages, func(a, b store.Stage) int { return cmp.Compare(a.Partner, b.Partner) })
		did(s.SetStage(t.Context(), other), store.Change{Action: store.Staged, By: "anna", At: at(2), Partner: two, To: "old"})

		want.Stopped = store.Declaration{By: "ben", At: at(3)}
		did(s.Stop(t.Context(), "ben", at(3)), store.Change{Action: store.Stopped, By: "ben", At: at(3)})
		var already *store.AlreadyStopped
		if err := s.Stop(t.Context(), "anna", at(4)); !errors.As(err, &already) || !errors.Is(err, store.ErrState) || already.Declaration != want.Stopped {
			t.Errorf("stopped twice: %v, %+v", err, already)
		}
		// By the clock of another replica, which is behind.
		forced := store.Stage{Partner: one, Stage: "new", Percent: 100, By: "anna", At: at(0), Forced: true}
		want.Stages[slices.Index(want.Stages, canary)] = forced
		did(s.SetStage(t.Context(), forced), store.Change{
			Action: store.Staged, By: "anna", At: at(0), Partner: one, From: "canary", FromPercent: 10, To: "new", ToPercent: 100, Forced: true,
		})
		want.Stopped = store.Declaration{}
		did(s.Resume(t.Context(), "ben", at(5)), store.Change{Action: store.Resumed, By: "ben", At: at(5)})
		if err := s.Resume(t.Context(), "anna", at(5)); !errors.Is(err, store.ErrState) {
			t.Errorf("resumed twice: %v", err)
		}
		want.Stages = slices.DeleteFunc(want.Stages, func(s store.Stage) bool { return s.Partner == one })
		did(s.UnsetStage(t.Context(), one, "anna", at(5)), store.Change{
			Action: store.Staged, By: "anna", At: at(5), Partner: one, From: "new", FromPercent: 100,
		})
		want.Restored = store.Declaration{By: "carl", At: at(6)}
		did(s.Restored(t.Context(), "carl", at(6)), store.Change{Action: store.Restored, By: "carl", At: at(6)})

		equal(t, "the last two", audit(t, s, 2), log[:2])
		equal(t, "the last none", audit(t, s, 0), nil)
		equal(t, "fewer than none", audit(t, s, -1), nil)
	})
}

// A change needs an operator, a time and the full ID of a partner.
func TestStagesRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for name, change := range map[string]func(*store.Stage){
			"a short hash":      func(s *store.Stage) { s.Partner = s.Partner[:12] },
			"capital letters":   func(s *store.Stage) { s.Partner = upper(s.Partner) },
			"no stage":          func(s *store.Stage) { s.Stage = "" },
			"a zero byte":       func(s *store.Stage) { s.Stage = "\x00" },
			"less than nothing": func(s *store.Stage) { s.Percent = -1 },
			"more than all":     func(s *store.Stage) { s.Percent = 101 },
			"nobody":            func(s *store.Stage) { s.By = "" },
			"not UTF-8":         func(s *store.Stage) { s.By = "\xff" },
			"no time":           func(s *store.Stage) { s.At = time.Time{} },
		} {
			stage := store.Stage{Partner: partner.Of("one"), Stage: "canary", Percent: 100, By: "anna", At: noon}
			change(&stage)
			if err := s.SetStage(t.Context(), stage); err == nil || !strings.HasPrefix(err.Error(), "store: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, err := range []error{
			s.Stop(t.Context(), "", noon), s.Stop(t.Context(), "ben", time.Time{}),
			s.Resume(t.Context(), "", noon), s.Restored(t.Context(), "\x00", noon),
		} {
			if err == nil {
				t.Error("no error")
			}
		}
		equal(t, "what was decided", rolloutOf(t, s), store.Rollout{})
		equal(t, "the log", audit(t, s, 10), nil)
	})
}

// UnsetStage of a partner without a stage returns ErrNotFound and changes nothing.
func TestUnsetStageRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for _, who := range []partner.ID{partner.Of("one"), ""} {
			if err := s.SetStage(t.Context(), store.Stage{Partner: who, Stage: "new", By: "anna", At: noon}); err != nil {
				t.Fatal(err)
			}
		}
		was, log := rolloutOf(t, s), audit(t, s, 10)
		if err := s.UnsetStage(t.Context(), partner.Of("two"), "anna", noon); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("without a stage: %v", err)
		}
		equal(t, "what was decided", rolloutOf(t, s), was)
		equal(t, "the log", audit(t, s, 10), log)
		if err := s.UnsetStage(t.Context(), "", "anna", noon); err != nil {
			t.Error(err)
		}
		if got := rolloutOf(t, s).Stages; len(got) != 1 || got[0].Partner != partner.Of("one") {
			t.Errorf("without the default: %+v", got)
		}
	})
}

// Concurrent changes of replicas have different revisions, and the audit log has the stage that each one replaced.
func TestConcurrentStageChangesHaveTheirOwnRevisions(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const changes = 24
		var changing sync.WaitGroup
		for i := range changes {
			changing.Go(func() {
				stage := store.Stage{Partner: partner.Of("one"), Stage: fmt.Sprint("stage", i), By: "anna", At: noon}
				if err := replicas[i%2].SetStage(t.Context(), stage); err != nil {
					t.Error(err)
				}
			})
		}
		changing.Wait()
		all, err := replicas[0].Audit(t.Context(), store.AuditFilter{Limit: 2 * changes})
		must(t, err)
		equal(t, "changes", len(all), changes)
		from := ""
		for i, c := range slices.Backward(all) {
			equal(t, "the revision", c.Revision, noon.UnixMilli()+int64(changes-1-i))
			equal(t, "from", c.From, from)
			from = c.To
		}
		equal(t, "the stage", rolloutOf(t, replicas[1]).Stages[0].Stage, from)
	})
}

// A change on a restored store does not get a revision that a replica already has.
func TestRevisionAfterABackup(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, db := open(t, url), raw(t, url)
		var known []int64
		for i := range 3 {
			must(t, s.Restored(t.Context(), "ben", noon.Add(time.Duration(i)*time.Minute)))
			known = append(known, rolloutOf(t, s).Revision)
		}
		run(t, db, "UPDATE billbridge_rollout SET revision = 0", "DELETE FROM billbridge_audit")
		for i := range 3 {
			must(t, s.Restored(t.Context(), "ben", noon.Add(time.Hour+time.Duration(i))))
			if revision := rolloutOf(t, s).Revision; revision <= known[2] {
				t.Errorf("the revision is %d again, of %d", revision, known)
			}
		}
	})
}

// The first recorded time stays.
func TestSeen(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		s, one, two := replicas[0], partner.Of("one"), partner.Of("two")
		is := func(who partner.ID, want time.Time, wantErr error) {
			t.Helper()
			first, err := replicas[1].FirstSeen(t.Context(), who)
			if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
				t.Errorf("%v, want %v", err, wantErr)
			}
			equal(t, "first seen", first, want)
		}
		is(one, time.Time{}, store.ErrNotFound)
		for _, after := range []time.Duration{0, time.Hour, -time.Hour} {
			must(t, s.Seen(t.Context(), one, noon.Add(after)))
			is(one, noon, nil)
		}
		is(two, time.Time{}, store.ErrNotFound)
		is("\x00", time.Time{}, store.ErrNotFound)
		is("", time.Time{}, store.ErrNotFound)

		for _, who := range []partner.ID{"", one[:12], upper(one)} {
			if err := s.Seen(t.Context(), who, noon); err == nil {
				t.Errorf("%q: no error", who)
			}
		}
		if err := s.Seen(t.Context(), one, time.Time{}); err == nil {
			t.Error("no time: no error")
		}
	})
}

// For a known partner, and for a bill found at its owner, nothing is written.
func TestKnownPartnersAndBillsAreNotWritten(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.SQLite(t))
	must(t, s.Seen(t.Context(), partner.Of("one"), noon))
	c := own(t, s, "b", "old")
	settle(t, s, c, store.Succeeded)
	release := s.Hold() // from here on no write comes to an end
	defer release()
	for name, do := range map[string]func() error{
		"Seen": func() error { return s.Seen(t.Context(), partner.Of("one"), noon.Add(time.Hour)) },
		"Found": func() error {
			_, err := s.Found(t.Context(), partner.Of("one"), "b", "old", noon)
			return err
		},
	} {
		done := make(chan error, 1)
		go func() { done <- do() }()
		proxytest.Eventually(t, func() bool { return len(done) == 1 || s.Waiting() > 0 }, nil)
		if s.Waiting() > 0 {
			t.Fatalf("%s waits to write", name)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If two replicas see a new partner at the same time, the first write counts.
func TestFirstSeenOfTwoReplicas(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.SQLite(t))
	release := s.Hold()
	seen := make(chan error, 2)
	for i := range 2 {
		go func() { seen <- s.Seen(t.Context(), partner.Of("one"), noon.Add(time.Duration(i)*time.Hour)) }()
		proxytest.Eventually(t, func() bool { return s.Waiting() == i+1 }, nil)
	}
	release()
	for range 2 {
		if err := <-seen; err != nil {
			t.Error(err)
		}
	}
	first, err := s.FirstSeen(t.Context(), partner.Of("one"))
	must(t, err)
	equal(t, "first seen", first, noon)
}

// A short hash is refused unless it fits exactly one known partner.
func TestPartnerOfAShortHash(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		alike := func(name string) partner.ID { return partner.Of(name)[:12] + partner.Of("else")[12:] }
		equal(t, "at first", seenPartners(t, s), nil)
		for _, seen := range []string{"seen", "all"} {
			must(t, s.Seen(t.Context(), partner.Of(seen), noon))
		}
		for _, staged := range []partner.ID{partner.Of("staged"), partner.Of("all"), alike("seen"), ""} {
			if err := s.SetStage(t.Context(), store.Stage{Partner: staged, Stage: "new", By: "anna", At: noon}); err != nil {
				t.Fatal(err)
			}
		}
		for _, owns := range []partner.ID{partner.Of("owns"), partner.Of("all"), partner.Of("twice"), alike("twice"), alike("staged")} {
			for _, bill := range []string{"b1", "b2"} {
				if _, err := s.Own(t.Context(), owns, bill, "old", noon, time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, known := range []string{"seen", "staged", "owns", "all", "twice"} {
			short, err := s.Partner(t.Context(), partner.Of(known)[:12])
			full, errFull := s.Partner(t.Context(), partner.Of(known))
			if known == "seen" || known == "staged" || known == "twice" {
				if !errors.Is(err, store.ErrAmbiguous) {
					t.Errorf("%s: %s, %v", known, short, err)
				}
				short, err = s.Partner(t.Context(), partner.Of(known)[:20])
			}
			if want := partner.Of(known); short != want || full != want || err != nil || errFull != nil {
				t.Errorf("%s: %s and %s, %v, %v", known, short, full, err, errFull)
			}
		}
		if _, err := s.Partner(t.Context(), partner.Of("nobody")[:12]); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		for _, wrong := range []partner.ID{"", partner.Of("all")[:11], upper(partner.Of("all"))} {
			if _, err := s.Partner(t.Context(), wrong); !errors.Is(err, store.ErrFilter) {
				t.Errorf("%s: %v", wrong, err)
			}
		}
		want := []store.SeenPartner{{Partner: partner.Of("seen"), First: noon}, {Partner: partner.Of("all"), First: noon}}
		slices.SortFunc(want, func(a, b store.SeenPartner) int { return cmp.Compare(a.Partner, b.Partner) })
		equal(t, "at last", seenPartners(t, s), want)
	})
}

func seenPartners(t *testing.T, s *store.Store) []store.SeenPartner {
	t.Helper()
	all, err := s.SeenPartners(t.Context(), store.AllPartners)
	must(t, err)
	return all
}

// Each change of a stage by another gateway is seen, although a gateway keeps the stages of the revision that it has read.
func TestRolloutHasTheStagesOfItsRevision(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	a, b := open(t, url), open(t, url)
	for _, stage := range []string{"shadow", "canary", "new"} {
		if err := b.SetStage(t.Context(), store.Stage{Partner: partner.Of("p"), Stage: stage, By: "anna", At: noon}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := rolloutOf(t, a).Stages; len(got) != 1 || got[0].Stage != stage {
				t.Errorf("%v, want %s", got, stage)
			}
		}
	}
	must(t, b.UnsetStage(t.Context(), partner.Of("p"), "anna", noon))
	if got := rolloutOf(t, a).Stages; len(got) != 0 {
		t.Errorf("%v, want none", got)
	}
}
