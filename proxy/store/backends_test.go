package store_test

import (
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// between are two backends with separate bills, as in the config.
func between(oldSide, newSide string) store.Backends {
	return store.Backends{Old: oldSide, New: newSide, Staying: []string{"old", "shadow"}}
}

// Which backends may replace which while there are bills and stages, and when the ledger is declared incomplete.
func TestBackendsAreNotExchangedWhileInUse(t *testing.T) {
	type (
		step  = func(*testing.T, *store.Store) error
		steps = []step
	)
	at := func(upstream string, outcomes ...store.Outcome) step {
		return func(t *testing.T, s *store.Store) error {
			c := own(t, s, "of "+upstream, upstream)
			for _, outcome := range outcomes {
				settle(t, s, c, outcome)
			}
			return nil
		}
	}
	stage := func(id partner.ID, stage string) step {
		return func(t *testing.T, s *store.Store) error {
			return s.SetStage(t.Context(), store.Stage{Partner: id, Stage: stage, By: "anna", At: noon})
		}
	}
	unset := func(t *testing.T, s *store.Store) error {
		return s.UnsetStage(t.Context(), partner.Of("one"), "anna", noon)
	}
	shared := func(backends store.Backends) store.Backends {
		backends.Shared = true
		return backends
	}
	backends := func(asked store.Backends) step {
		return func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), asked, noon.Add(time.Minute))
		}
	}
	none := func(upstream string) step {
		return func(t *testing.T, s *store.Store) error {
			return s.SetBackends(t.Context(), store.Backends{Alone: upstream}, noon.Add(time.Minute))
		}
	}
	stranger := func(upstream string, asked store.Backends) error {
		return store.Unconfigured(upstream, asked.Old, asked.New)
	}
	var (
		ab, ba     = between("a", "b"), between("b", "a")
		ac, bc, cd = between("a", "c"), between("b", "c"), between("c", "d")
		moved      = stage(partner.Of("one"), "drained")
		stays      = stage(partner.Of("one"), "shadow")
	)
	renamed := func(asked store.Backends) error {
		return store.Renamed(asked, "a", "b")
	}
	const declared = true
	rows := map[string]struct {
		before   steps
		do       step
		want     error
		restored bool // is declared
	}{
		"the first":                         {nil, backends(ab), nil, false},
		"the first, with bills there":       {steps{at("a"), at("b")}, backends(ab), nil, false},
		"the first, with a stage":           {steps{moved}, backends(ab), nil, false},
		"the first, with a stranger":        {steps{at("a"), at("c")}, backends(ab), stranger("c", ab), false},
		"the first of two strangers":        {steps{at("d"), at("a"), at("c")}, backends(ab), stranger("c", ab), false},
		"the first, shared":                 {nil, backends(shared(ab)), nil, false},
		"the first, shared, with a bill":    {steps{at("a")}, backends(shared(ab)), store.ErrShared, false},
		"a longer name":                     {steps{at("ab")}, backends(ab), stranger("ab", ab), false},
		"a stranger of before":              {steps{backends(ab), at("c")}, backends(ab), nil, false}, // backends that did not change are not checked again
		"others":                            {steps{backends(ab)}, backends(cd), nil, false},
		"others, with a stage":              {steps{backends(ab), moved}, backends(cd), renamed(cd), false},
		"others, with a default":            {steps{backends(ab), stage("", "canary")}, backends(cd), renamed(cd), false},
		"others, with a stage that stays":   {steps{backends(ab), stays, stage("", "old")}, backends(cd), nil, false},
		"others, with one that does not":    {steps{backends(ab), stays, stage("", "new")}, backends(cd), renamed(cd), false},
		"others, with no stage left":        {steps{backends(ab), moved, unset}, backends(cd), nil, false},
		"others, where no stage stays":      {steps{backends(ab), stays}, backends(store.Backends{Old: "c", New: "d"}), renamed(store.Backends{Old: "c", New: "d"}), false},
		"another new, with a stage":         {steps{backends(ab), moved}, backends(ac), renamed(ac), false},
		"another old, with a stage":         {steps{backends(ab), moved}, backends(between("c", "b")), renamed(between("c", "b")), false},
		"another, with a bill there":        {steps{backends(ab), at("a")}, backends(ac), nil, false},
		"another, with a pending bill":      {steps{backends(ab), at("a"), at("b")}, backends(ac), stranger("b", ac), false},
		"another, with an owned bill":       {steps{backends(ab), at("b", store.Succeeded)}, backends(ac), stranger("b", ac), false},
		"another, with one uncertain":       {steps{backends(ab), at("b", store.Unknown)}, backends(ac), stranger("b", ac), false},
		"another, with one released":        {steps{backends(ab), at("b", store.Refused)}, backends(ac), nil, false},
		"the new becomes the old":           {steps{backends(ab), at("b")}, backends(bc), nil, false},
		"the new becomes the old, drained":  {steps{backends(ab), moved}, backends(bc), renamed(bc), false},
		"swapped":                           {steps{backends(ab)}, backends(ba), nil, declared},
		"swapped, with one at the old":      {steps{backends(ab), at("a")}, backends(ba), renamed(ba), false},
		"swapped, with one at the new":      {steps{backends(ab), at("b", store.Succeeded)}, backends(ba), renamed(ba), false},
		"swapped, with a stranger":          {steps{backends(ab), at("c")}, backends(ba), renamed(ba), false},
		"swapped, with one released":        {steps{backends(ab), at("b", store.NotSent)}, backends(ba), nil, declared},
		"swapped, with a stage":             {steps{backends(ab), moved}, backends(ba), renamed(ba), false},
		"swapped, with a stage that stays":  {steps{backends(ab), stays}, backends(ba), renamed(ba), false},
		"swapped, with a default":           {steps{backends(ab), stage("", "old")}, backends(ba), renamed(ba), false},
		"swapped, with no stage left":       {steps{backends(ab), moved, unset}, backends(ba), nil, declared},
		"separate, then shared":             {steps{backends(ab), moved}, backends(shared(ab)), nil, false},
		"separate, then shared, pending":    {steps{backends(ab), at("a")}, backends(shared(ab)), store.ErrShared, false},
		"separate, then shared, owned":      {steps{backends(ab), at("b", store.Succeeded)}, backends(shared(ab)), store.ErrShared, false},
		"separate, then shared, released":   {steps{backends(ab), at("b", store.Refused)}, backends(shared(ab)), nil, false},
		"separate, then others shared":      {steps{backends(ab), at("a")}, backends(shared(ac)), store.ErrShared, false},
		"shared, then separate":             {steps{backends(shared(ab)), moved}, backends(ab), nil, declared},
		"shared, then others separate":      {steps{backends(shared(ab))}, backends(cd), nil, false},
		"shared, then with what was new":    {steps{backends(shared(ab))}, backends(between("c", "b")), nil, declared},
		"shared, then others, with a stage": {steps{backends(shared(ab)), moved}, backends(cd), renamed(cd), false},
		"shared, then others shared":        {steps{backends(shared(ab))}, backends(shared(cd)), nil, false},
		"shared, then others, with a bill":  {steps{backends(shared(ab)), at("a")}, backends(shared(ac)), store.ErrShared, false},
		"shared again":                      {steps{backends(shared(ab)), at("a")}, backends(shared(ab)), store.ErrShared, false},

		"none at first":                  {steps{moved}, none("a"), nil, false},
		"none at first, with a bill":     {steps{at("b")}, none("a"), store.Unconfigured("b", "a", ""), false},
		"none, then to another":          {steps{backends(ab), at("b"), none("b")}, none("a"), store.Unconfigured("b", "a", ""), false},
		"none, then with the new":        {steps{none("b")}, backends(ab), nil, declared},
		"none, then with the old":        {steps{none("a")}, backends(ab), nil, false},
		"round and round":                {steps{backends(ab), backends(bc)}, backends(between("c", "a")), nil, declared},
		"none":                           {steps{backends(ab), moved}, none("a"), nil, declared},
		"none, with bills there":         {steps{backends(ab), at("b")}, none("b"), nil, declared},
		"none, with a bill elsewhere":    {steps{backends(ab), at("a"), at("b")}, none("b"), store.Unconfigured("a", "b", ""), false},
		"none, with one owned elsewhere": {steps{backends(ab), at("b", store.Succeeded)}, none("a"), store.Unconfigured("b", "a", ""), false},
		"none, with one released":        {steps{backends(ab), at("a", store.NotSent)}, none("b"), nil, declared},
		"none, of shared ones":           {steps{backends(shared(ab))}, none("a"), nil, declared},
		"none, to a third":               {steps{backends(ab)}, none("c"), nil, declared},
		"none, again":                    {steps{backends(ab), none("a"), at("b")}, none("a"), nil, false},

		"none, then as before":               {steps{backends(ab), at("b"), moved, none("b")}, backends(ab), nil, declared},
		"none, then a stranger":              {steps{backends(ab), at("b"), none("b")}, backends(ac), stranger("b", ac), false},
		"none, then others":                  {steps{backends(ab), stays, none("b")}, backends(cd), nil, false},
		"none, then others, with a stage":    {steps{backends(ab), moved, none("b")}, backends(bc), renamed(bc), false},
		"none, then swapped, with a bill":    {steps{backends(ab), at("b"), stays, none("b")}, backends(ba), nil, declared},
		"none, then swapped, with a stage":   {steps{backends(ab), moved, none("b")}, backends(ba), renamed(ba), false},
		"none, then shared":                  {steps{backends(ab), none("b")}, backends(shared(ab)), nil, false},
		"none, then shared, with a bill":     {steps{backends(ab), at("b"), none("b")}, backends(shared(ab)), store.ErrShared, false},
		"shared, none, then separate":        {steps{backends(shared(ab)), none("b")}, backends(ab), nil, declared},
		"none, then as before, and none yet": {steps{backends(ab), none("b"), backends(ab)}, none("a"), nil, declared},
	}
	each(t, func(t *testing.T, s *store.Store) {
		for name, row := range rows {
			if err := s.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, step := range row.before {
				if err := step(t, s); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			want, log := rolloutOf(t, s), audit(t, s, 10)
			for range 2 { // a refusal stores nothing, and nothing is declared twice
				if err := row.do(t, s); !sameRefusal(err, row.want) {
					t.Errorf("%s: %v, want %v", name, err, row.want)
				}
			}
			got := rolloutOf(t, s)
			if row.restored {
				config := store.Declaration{By: "config", At: noon.Add(time.Minute)}
				if got.Revision <= want.Revision {
					t.Errorf("%s: the revision went from %d to %d", name, want.Revision, got.Revision)
				}
				want.Revision, want.Restored = got.Revision, config
				log = append([]store.Change{{Action: store.Restored, By: config.By, At: config.At}}, log...)
			}
			equal(t, name+": the rollout", got, want)
			equal(t, name+": the log", audit(t, s, 10), log)
		}
	})
}

// sameRefusal reports whether two errors are the same refusal of backends, or both nil.
func sameRefusal(got, want error) bool {
	return got == want || got != nil && want != nil && got.Error() == want.Error()
}

// Backends that did not change need no write, and do not wait for other replicas.
func TestKnownBackendsAreNotWritten(t *testing.T) {
	t.Parallel()
	some, none := open(t, proxytest.SQLite(t)), open(t, proxytest.SQLite(t))
	asked := between("a", "b")
	if err := some.SetBackends(t.Context(), asked, noon); err != nil {
		t.Fatal(err)
	}
	if err := none.SetBackends(t.Context(), store.Backends{Alone: "a"}, noon); err != nil {
		t.Fatal(err)
	}
	for s, do := range map[*store.Store]func() error{
		some: func() error { return some.SetBackends(t.Context(), asked, noon) },
		none: func() error { return none.SetBackends(t.Context(), store.Backends{Alone: "a"}, noon) },
	} {
		release := s.Hold()
		defer release()
		done := make(chan error, 1)
		go func() { done <- do() }()
		proxytest.Eventually(t, func() bool { return len(done) == 1 || s.Waiting() > 0 }, nil)
		if s.Waiting() > 0 {
			t.Fatal("it waits to write")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
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
		"swapped": {"UPDATE billbridge_rollout SET old_side = 'b', new_side = 'a', shared = 0", func(t *testing.T, s *store.Store) error {
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
			if err := s.SetBackends(t.Context(), between("a", "c"), noon); err != nil {
				t.Fatal(err)
			}
			own(t, s, "bill", "a")
			other, err := raw(t, url).Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback() }()
			if _, err := other.Exec(row.theirs); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- row.do(t, s) }()
			proxytest.Eventually(t, func() bool { return waits(t, watch, starting) || len(done) == 1 }, nil)
			if err := other.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !sameRefusal(err, row.want) {
				t.Errorf("%v, want %v", err, row.want)
			}
			equal(t, "the log", audit(t, s, 10), nil) // what others declared is not declared again
		})
	}
}

func TestSetBackendsRefusesInvalidNames(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for name, pair := range map[string][2]string{
			"no old backend": {"", "b"},
			"no new backend": {"a", ""},
			"one twice":      {"a", "a"},
			"a zero byte":    {"a\x00", "b"},
			"not UTF-8":      {"a", "\xff"},
		} {
			if err := s.SetBackends(t.Context(), between(pair[0], pair[1]), noon); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for name, err := range map[string]error{
			"sides at no time":         s.SetBackends(t.Context(), between("a", "b"), time.Time{}),
			"none at no time":          s.SetBackends(t.Context(), store.Backends{Alone: "a"}, time.Time{}),
			"none, to nowhere":         s.SetBackends(t.Context(), store.Backends{Alone: ""}, noon),
			"none, with a zero byte":   s.SetBackends(t.Context(), store.Backends{Alone: "\x00"}, noon),
			"none, that are not UTF-8": s.SetBackends(t.Context(), store.Backends{Alone: "\xff"}, noon),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

// The errors say what an operator must do.
func TestRefusalsOfBackendsSayWhatToDo(t *testing.T) {
	t.Parallel()
	equal(t, "text", store.Unconfigured("c", "a", "b").Error(),
		`store: rollout.old is "a" and rollout.new is "b" in the config, but bills in the ledger are at upstream "c": `+
			`rollout.old or rollout.new must name it as long as they are there`)
	equal(t, "text", store.Unconfigured("c", "a", "").Error(),
		`store: there is no rollout in the config, and all calls would go to upstream "a", but bills in the ledger are at upstream "c": `+
			`the rollout section must stay as long as they are there; bills are removed rollout.keep after their last day`)
	equal(t, "text", store.Renamed(between("b", "a"), "a", "b").Error(),
		`store: rollout.old is "b" and rollout.new is "a" in the config, the other way round than before, but bills or stages from before are still there, `+
			`and every partner's creates would go to the other backend: name "a" as rollout.old and "b" as rollout.new again, and give partners that are to go back another stage`)
	equal(t, "text", store.Renamed(between("b", "c"), "a", "b").Error(),
		`store: rollout.old is "b" and rollout.new is "c" in the config, but they were "a" and "b" before, and stages from before are still there, `+
			`which would send the creates of partners to another backend: name them as before until every partner that has a stage, and the default if it was set, is in one of [old shadow] or has none any more`)
	equal(t, "text", store.ErrShared.Error(),
		`store: rollout.bills is shared in the config, but bills in the ledger are each at one upstream, `+
			`and with shared bills a bill could be created at both: rollout.bills must be separate as long as they are there`)
}

// With Look the refusals are the same, and nothing is stored.
func TestSetBackendsWithLookChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		look := func(asked store.Backends) error {
			asked.Look = true
			return s.SetBackends(t.Context(), asked, noon)
		}
		if err := s.SetBackends(t.Context(), between("a", "b"), noon); err != nil {
			t.Fatal(err)
		}
		for _, asked := range []store.Backends{between("a", "c"), between("b", "a"), {Alone: "b"}} {
			if err := look(asked); err != nil {
				t.Errorf("%+v: %v", asked, err)
			}
		}
		if err := s.SetStage(t.Context(), store.Stage{Stage: "new", By: "anna", At: noon}); err != nil {
			t.Fatal(err)
		}
		if err := look(between("a", "c")); !sameRefusal(err, store.Renamed(between("a", "c"), "a", "b")) {
			t.Errorf("with a stage: %v", err)
		}
		if err := s.SetBackends(t.Context(), between("a", "b"), noon); err != nil {
			t.Errorf("as before: %v", err)
		}
		if r := rolloutOf(t, s); !r.Restored.At.IsZero() {
			t.Errorf("%+v", r)
		}
	})
}

// After a time in which the old backend got calls without a rollout, the settling period of each partner starts again: creates
// that no ledger has may be in progress there.
func TestSettlingPeriodRestartsAfterATimeWithoutARollout(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		if err := s.Seen(t.Context(), partner.Of("one"), noon); err != nil {
			t.Fatal(err)
		}
		if err := s.SetStage(t.Context(), store.Stage{Partner: partner.Of("one"), Stage: "old", By: "anna", At: noon, Forced: true}); err != nil {
			t.Fatal(err)
		}
		later, forced := noon, true
		for _, step := range []struct {
			sides store.Backends
			anew  bool
		}{
			{between("a", "b"), false},
			{between("a", "b"), false},
			{store.Backends{Alone: "a"}, false},
			{between("a", "b"), true},
			{between("a", "b"), false},
			{store.Backends{Alone: "b"}, false},
			{between("a", "b"), false}, // a create that is sent again goes where the first one went
			{store.Backends{Alone: "a"}, false},
			{store.Backends{Old: "a", New: "b", Shared: true, Staying: []string{"old"}}, false},
			{between("a", "b"), false},
		} {
			before, err := s.FirstSeen(t.Context(), partner.Of("one"))
			if err != nil {
				t.Fatal(err)
			}
			revision, err := s.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			later = later.Add(time.Hour)
			if err := s.SetBackends(t.Context(), step.sides, later); err != nil {
				t.Fatal(err)
			}
			want := before
			if step.anew {
				want = later
			}
			if got, err := s.FirstSeen(t.Context(), partner.Of("one")); err != nil || !got.Equal(want) {
				t.Errorf("%+v: seen since %s, %v, want %s", step.sides, got, err, want)
			}
			decided, err := s.Rollout(t.Context())
			if err != nil || len(decided.Stages) != 1 {
				t.Fatal(decided, err)
			}
			if forced = forced && !step.anew; decided.Stages[0].Forced != forced {
				t.Errorf("%+v: forced is %v", step.sides, !forced)
			}
			if step.anew && decided.Revision <= revision { // or no replica would read it
				t.Errorf("%+v: revision %d after %d", step.sides, decided.Revision, revision)
			}
		}
	})
}
