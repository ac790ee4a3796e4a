package store_test

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// between are two backends with separate bills, as in the config.
func between(oldSide, newSide string) store.Backends {
	return store.Backends{Old: oldSide, New: newSide, Staying: []string{"old", "shadow"}, Compared: "shadow"}
}

// backendsOf reads a/b, a=b or a.
func backendsOf(word string) store.Backends {
	if old, next, separate := strings.Cut(word, "/"); separate {
		if next, none := strings.CutSuffix(next, "-"); none {
			return store.Backends{Old: old, New: next}
		}
		return between(old, next)
	}
	if old, next, shared := strings.Cut(word, "="); shared {
		asked := between(old, next)
		asked.Shared = true
		return asked
	}
	return store.Backends{Alone: word}
}

// setBackends stores backends after others, bills and stages, and returns who declares the ledger incomplete. bill:a is a
// create at a, with an outcome if it has ended; stage:drained is the stage of a partner, default:new that of all.
func setBackends(t *testing.T, s *store.Store, before, then string) (declared store.Declaration, err error) {
	ctx := t.Context()
	must(t, s.Clear(ctx))
	for word := range strings.FieldsSeq(before) {
		what, of, _ := strings.Cut(word, ":")
		stage := store.Change{Action: store.Staged, To: of, By: "anna", At: noon}
		switch what {
		case "bill":
			upstream, outcome, ended := strings.Cut(of, ":")
			if c := own(t, s, "of "+upstream, upstream); ended {
				settle(t, s, c, ledger.Outcome(outcome))
			}
		case "stage", "unset":
			stage.Partner = partnerOne
			must(t, s.Change(ctx, stage))
		case "default":
			must(t, s.Change(ctx, stage))
		default:
			must(t, s.SetBackends(ctx, backendsOf(word), noon.Add(time.Minute)))
		}
	}
	want, log := rolloutOf(t, s), audit(t, s, 10)
	for range 2 { // a refusal stores nothing, and nothing is declared twice
		err = s.SetBackends(ctx, backendsOf(then), noon.Add(time.Minute))
	}
	got := rolloutOf(t, s)
	if got.Revision > want.Revision {
		declared = got.Restored
		want.Revision, want.Restored = got.Revision, declared
		log = append([]store.Change{{Action: store.Restored, By: declared.By, At: declared.At}}, log...)
	}
	equal(t, got, want, "the rollout")
	equal(t, audit(t, s, 10), log, "the log")
	return declared, err
}

// SetBackends waits for backends and stages that another replica is storing.
func TestSetBackendsWaitsForOtherReplicas(t *testing.T) {
	t.Parallel()
	const stage = "INSERT INTO billbridge_stages (partner, stage, percent, set_by, set_at, forced) VALUES ('', 'new', 0, 'anna', 0, 0)"
	for name, row := range map[string]struct {
		theirs string
		do     func(*testing.T, *store.Store) error
		want   string
	}{
		"swapped": {"UPDATE billbridge_rollout SET old_upstream = 'b', new_upstream = 'a', shared = 0", func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), between("a", "b"), noon)
		}, "the other way round than before"},
		"staged": {"UPDATE billbridge_rollout SET revision = 1; " + stage, func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), between("a", "d"), noon)
		}, `but they were "a" and "c" before`},
		"none": {"UPDATE billbridge_rollout SET shared = NULL", func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), store.Backends{Alone: "a"}, noon)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := proxytest.Postgres(t)
			starting := name + "-in-TestSetBackendsWaitsForOtherReplicas"
			s, watch := open(t, url+"&application_name="+starting), raw(t, url)
			must(t, s.SetBackends(t.Context(), between("a", "c"), noon))
			own(t, s, "bill", "a")
			other, err := raw(t, url).Begin()
			must(t, err)
			defer func() { _ = other.Rollback() }()
			works(t)(other.Exec(row.theirs))
			done := make(chan error, 1)
			go func() { done <- row.do(t, s) }()
			proxytest.Eventually(t, func() bool { return waits(t, watch, starting) || len(done) == 1 }, nil)
			must(t, other.Commit())
			if err := <-done; row.want != "" {
				fails(t, row.want)(err)
			} else {
				must(t, err)
			}
			equal(t, audit(t, s, 10), nil, "the log") // what others declared is not declared again
		})
	}
}
