package store_test

import (
	"errors"
	"testing"

	"billbridge/proxy/store"
	"billbridge/proxy/store/storetest"
)

// TestSides: which sides may follow which, while bills and stages are there.
func TestSides(t *testing.T) {
	at := func(upstream string, outcomes ...store.Outcome) func(*testing.T, *store.Store) {
		return func(t *testing.T, s *store.Store) {
			c := own(t, s, "of "+upstream, upstream)
			for _, outcome := range outcomes {
				settle(t, s, c, outcome)
			}
		}
	}
	stage := func(partner string) func(*testing.T, *store.Store) {
		return func(t *testing.T, s *store.Store) {
			if err := s.SetStage(t.Context(), store.Stage{Partner: partner, Stage: "new", By: "anna", At: noon}); err != nil {
				t.Fatal(err)
			}
		}
	}
	unset := func(t *testing.T, s *store.Store) {
		if err := s.UnsetStage(t.Context(), partner("one"), "anna", noon); err != nil {
			t.Fatal(err)
		}
	}
	type (
		steps = []func(*testing.T, *store.Store)
		names = [2]string
	)
	stranger := func(upstream string, asked names) error {
		return &store.StrangerError{Upstream: upstream, Old: asked[0], New: asked[1]}
	}
	var (
		none, ab, ba = names{}, names{"a", "b"}, names{"b", "a"}
		ac, bc, cd   = names{"a", "c"}, names{"b", "c"}, names{"c", "d"}
		swapped      = &store.SwappedError{Old: "b", New: "a"}
	)
	rows := map[string]struct {
		known names
		steps steps
		asked names
		want  error
	}{
		"the first":                    {none, nil, ab, nil},
		"the first, with bills there":  {none, steps{at("a"), at("b")}, ab, nil},
		"the first, with a stage":      {none, steps{stage(partner("one"))}, ab, nil},
		"the first, with a stranger":   {none, steps{at("a"), at("c")}, ab, stranger("c", ab)},
		"the first of two strangers":   {none, steps{at("d"), at("a"), at("c")}, ab, stranger("c", ab)},
		"a longer name":                {none, steps{at("ab")}, ab, stranger("ab", ab)},
		"a stranger of before":         {ab, steps{at("c")}, ab, nil}, // what is known is not looked at again
		"others":                       {ab, nil, cd, nil},
		"others, with a stage":         {ab, steps{stage(partner("one"))}, cd, nil},
		"another, with a bill there":   {ab, steps{at("a")}, ac, nil},
		"another, with a pending bill": {ab, steps{at("a"), at("b")}, ac, stranger("b", ac)},
		"another, with an owned bill":  {ab, steps{at("b", store.Succeeded)}, ac, stranger("b", ac)},
		"another, with one uncertain":  {ab, steps{at("b", store.Unknown)}, ac, stranger("b", ac)},
		"another, with one released":   {ab, steps{at("b", store.Refused)}, ac, nil},
		"the new becomes the old":      {ab, steps{at("b")}, bc, nil},
		"swapped":                      {ab, nil, ba, nil},
		"swapped, with one at the old": {ab, steps{at("a")}, ba, swapped},
		"swapped, with one at the new": {ab, steps{at("b", store.Succeeded)}, ba, swapped},
		"swapped, with a stranger":     {ab, steps{at("c")}, ba, swapped},
		"swapped, with one released":   {ab, steps{at("b", store.NotSent)}, ba, nil},
		"swapped, with a stage":        {ab, steps{stage(partner("one"))}, ba, swapped},
		"swapped, with a default":      {ab, steps{stage("")}, ba, swapped},
		"swapped, with no stage left":  {ab, steps{stage(partner("one")), unset}, ba, nil},
	}
	each(t, func(t *testing.T, s *store.Store) {
		for name, row := range rows {
			if err := s.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if row.known != none {
				if err := s.Sides(t.Context(), row.known[0], row.known[1]); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range row.steps {
				step(t, s)
			}
			was := rolloutOf(t, s)
			for range 2 { // a refusal is not taken for knowledge
				if err := s.Sides(t.Context(), row.asked[0], row.asked[1]); !sameRefusal(err, row.want) {
					t.Errorf("%s: %v, want %v", name, err, row.want)
				}
			}
			equal(t, name+": the rollout", rolloutOf(t, s), was)
		}
	})
}

// sameRefusal tells whether two errors are the same refusal of sides, or both none.
func sameRefusal(got, want error) bool {
	switch want := want.(type) {
	case *store.StrangerError:
		var stranger *store.StrangerError
		return errors.As(got, &stranger) && *stranger == *want
	case *store.SwappedError:
		var swapped *store.SwappedError
		return errors.As(got, &swapped) && *swapped == *want
	}
	return got == nil && want == nil
}

// TestSidesKnownOnlyReads: sides that are known cost no wait for the disk, nor for others.
func TestSidesKnownOnlyReads(t *testing.T) {
	t.Parallel()
	s := open(t, storetest.SQLite(t))
	if err := s.Sides(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	release := s.Hold()
	defer release()
	done := make(chan error, 1)
	go func() { done <- s.Sides(t.Context(), "a", "b") }()
	waitFor(t, func() bool { return len(done) == 1 || s.Waiting() > 0 })
	if s.Waiting() > 0 {
		t.Fatal("it waits to write")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSidesOfOthers: what another replica is about to make known is waited for.
func TestSidesOfOthers(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	const starting = "starting-in-TestSidesOfOthers"
	s, watch := open(t, url+"&application_name="+starting), raw(t, url)
	other, err := raw(t, url).Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	if _, err := other.Exec("UPDATE billbridge_rollout SET old_side = 'b', new_side = 'a'"); err != nil {
		t.Fatal(err)
	}
	own(t, s, "bill", "a")
	done := make(chan error, 1)
	go func() { done <- s.Sides(t.Context(), "a", "b") }()
	waitFor(t, func() bool { return waits(t, watch, starting) || len(done) == 1 })
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !sameRefusal(err, &store.SwappedError{Old: "a", New: "b"}) {
		t.Error(err)
	}
}

func TestSidesRefusesNames(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for name, pair := range map[string][2]string{
			"no old side": {"", "b"},
			"no new side": {"a", ""},
			"one twice":   {"a", "a"},
			"a zero byte": {"a\x00", "b"},
			"not UTF-8":   {"a", "\xff"},
		} {
			if err := s.Sides(t.Context(), pair[0], pair[1]); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

// An operator reads what to do.
func TestRefusalsOfSidesSayWhatToDo(t *testing.T) {
	t.Parallel()
	equal(t, "text", (&store.StrangerError{Upstream: "c", Old: "a", New: "b"}).Error(),
		`store: rollout.old is "a" and rollout.new is "b" in the config, but bills in the ledger are at upstream "c": `+
			`rollout.old or rollout.new must name it as long as they are there`)
	equal(t, "text", (&store.SwappedError{Old: "b", New: "a"}).Error(),
		`store: rollout.old is "b" and rollout.new is "a" in the config, the other way round than before, but bills or stages from before are still there, `+
			`and every partner's creates would go to the other side: name "a" as rollout.old and "b" as rollout.new again, and give partners that are to go back another stage`)
}
