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

// Which backends may replace which while there are bills and stages, and when the ledger is declared incomplete.
func TestBackendsAreNotExchangedWhileInUse(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		do := func(word string) error {
			what, of, _ := strings.Cut(word, ":")
			switch what {
			case "bill":
				upstream, outcome, ended := strings.Cut(of, ":")
				if c := own(t, s, "of "+upstream, upstream); ended {
					settle(t, s, c, ledger.Outcome(outcome))
				}
				return nil
			case "stage":
				return s.Change(ctx, store.Change{Action: store.Staged, Partner: partnerOne, To: of, By: "anna", At: noon})
			case "default":
				return s.Change(ctx, store.Change{Action: store.Staged, To: of, By: "anna", At: noon})
			case "unset":
				return s.Change(ctx, store.Change{Action: store.Staged, Partner: partnerOne, By: "anna", At: noon})
			}
			return s.SetBackends(ctx, backendsOf(word), noon.Add(time.Minute))
		}
		for _, row := range proxytest.Rows(t, "testdata/backends.txt") {
			name, before, then, result := row[0], row[1], row[2], row[3]
			must(t, s.Clear(ctx))
			for _, word := range strings.Fields(before) {
				if err := do(word); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			asked, refusal := backendsOf(then), error(nil)
			stranger, unknown := strings.CutSuffix(result, "!")
			switch {
			case unknown:
				refusal = store.Unconfigured(stranger, asked.Old+asked.Alone, asked.New)
			case result == "renamed":
				refusal = store.Renamed(asked, "a", "b")
			case result == "compared":
				refusal = store.Compared("shadow")
			case result == "shared":
				refusal = store.ErrShared
			}
			want, log := rolloutOf(t, s), audit(t, s, 10)
			for range 2 { // a refusal stores nothing, and nothing is declared twice
				if err := do(then); !sameRefusal(err, refusal) {
					t.Errorf("%s: %v, want %v", name, err, refusal)
				}
			}
			got := rolloutOf(t, s)
			if result == "declared" {
				config := store.Declaration{By: "config", At: noon.Add(time.Minute)}
				if got.Revision <= want.Revision {
					t.Errorf("%s: the revision went from %d to %d", name, want.Revision, got.Revision)
				}
				want.Revision, want.Restored = got.Revision, config
				log = append([]store.Change{{Action: store.Restored, By: config.By, At: config.At}}, log...)
			}
			equal(t, got, want, name+": the rollout")
			equal(t, audit(t, s, 10), log, name+": the log")
		}
	})
}

// sameRefusal reports whether two errors are the same refusal of backends, or both nil.
func sameRefusal(got, want error) bool {
	return got == want || got != nil && want != nil && got.Error() == want.Error()
}

// SetBackends waits for backends and stages that another replica is storing.
func TestSetBackendsWaitsForOtherReplicas(t *testing.T) {
	t.Parallel()
	const stage = "INSERT INTO billbridge_stages (partner, stage, percent, set_by, set_at, forced) VALUES ('', 'new', 0, 'anna', 0, 0)"
	for name, row := range map[string]struct {
		theirs string
		do     func(*testing.T, *store.Store) error
		want   error
	}{
		"swapped": {"UPDATE billbridge_rollout SET old_upstream = 'b', new_upstream = 'a', shared = 0", func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), between("a", "b"), noon)
		}, store.Renamed(between("a", "b"), "b", "a")},
		"staged": {"UPDATE billbridge_rollout SET revision = 1; " + stage, func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), between("a", "d"), noon)
		}, store.Renamed(between("a", "d"), "a", "c")},
		"none": {"UPDATE billbridge_rollout SET shared = NULL", func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), store.Backends{Alone: "a"}, noon)
		}, nil},
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
			if err := <-done; !sameRefusal(err, row.want) {
				t.Errorf("%v, want %v", err, row.want)
			}
			equal(t, audit(t, s, 10), nil, "the log") // what others declared is not declared again
		})
	}
}

// The errors say what an operator must do.
func TestRefusalsOfBackendsSayWhatToDo(t *testing.T) {
	t.Parallel()
	equal(t, store.Unconfigured("c", "a", "b").Error(), `store: rollout.old is "a" and rollout.new is "b" in the config, but bills in the ledger are at upstream "c": `+
		`rollout.old or rollout.new must name it as long as they are there`, "text")
	equal(t, store.Unconfigured("c", "a", "").Error(), `store: there is no rollout in the config, and all calls would go to upstream "a", but bills in the ledger are at upstream "c": `+
		`the rollout section must stay as long as they are there; bills are removed two years after their last day`, "text")
	equal(t, store.Renamed(between("b", "a"), "a", "b").Error(), `store: rollout.old is "b" and rollout.new is "a" in the config, the other way round than before, but bills or stages from before are still there, `+
		`and every partner's creates would go to the other backend: name "a" as rollout.old and "b" as rollout.new again, and give partners that are to go back another stage`, "text")
	equal(t, store.Renamed(between("b", "c"), "a", "b").Error(), `store: rollout.old is "b" and rollout.new is "c" in the config, but they were "a" and "b" before, and stages from before are still there, `+
		`which would send the creates of partners to another backend: name them as before until every partner that has a stage, and the default if it was set, is in one of [old shadow] or has none any more`, "text")
	equal(t, store.Compared("shadow").Error(), `store: rollout.bills is separate in the config, but a partner that has a stage, or the default if it was set, is in shadow, a stage of shared bills: `+
		`rollout.bills must be shared until each is in another one`, "text")
	equal(t, store.ErrShared.Error(), `store: rollout.bills is shared in the config, but bills in the ledger are each at one upstream, `+
		`and with shared bills a bill could be created at both: rollout.bills must be separate as long as they are there`, "text")
}
