package store_test

import (
	"errors"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A new store reports that the rollout has not begun, and since when, until Begin. Begin works once.
func TestNewStoreHasNotBegun(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		state := func() store.Rollout {
			t.Helper()
			r, err := s.Rollout(t.Context())
			must(t, err)
			return r
		}
		if r := state(); !r.Started.IsZero() || !r.Begun.At.IsZero() {
			t.Errorf("without a rollout: %+v", r)
		}
		for range 2 { // a second start changes nothing
			must(t, s.Start(t.Context(), noon))
		}
		first := state()
		if !first.Started.Equal(noon) || !first.Begun.At.IsZero() || first.Revision == 0 {
			t.Errorf("started: %+v", first)
		}
		must(t, s.Begin(t.Context(), "anna", noon.Add(time.Hour)))
		begun := store.Declaration{By: "anna", At: noon.Add(time.Hour)}
		if err := s.Begin(t.Context(), "ben", noon.Add(2*time.Hour)); !errors.Is(err, store.ErrState) {
			t.Errorf("a second time: %v", err)
		}
		must(t, s.Start(t.Context(), noon.Add(3*time.Hour)))
		if r := state(); !r.Started.IsZero() || r.Begun != begun {
			t.Errorf("begun: %+v", r)
		}
		if log, err := s.Audit(t.Context(), store.AuditFilter{Limit: 10}); err != nil || len(log) != 1 || log[0].Action != store.Begun {
			t.Errorf("%+v, %v", log, err)
		}
	})
}

// A store with a rollout of a version that had no Begin needs none.
func TestUpgradeKeepsARolloutThatRuns(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		must(t, s.Close())
		db := raw(t, url)
		backToVersion2(t, db)
		run(t, db, "UPDATE billbridge_rollout SET old_side = 'old', new_side = 'new'",
			"INSERT INTO billbridge_audit (revision, action, done_by, done_at, partner, from_stage, from_percent, to_stage, to_percent, forced) "+
				"VALUES (7, 'stop', 'anna', 1700000000000, '', '', 0, '', 0, 0)")
		s = open(t, url)
		must(t, s.Start(t.Context(), noon))
		r, err := s.Rollout(t.Context())
		if err != nil || r.Begun.By != "upgrade" || r.Begun.At.IsZero() || !r.Started.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		log, err := s.Audit(t.Context(), store.AuditFilter{Limit: 10})
		if err != nil || len(log) != 1 || log[0].By != "anna" || log[0].Action != store.Stopped || log[0].Revision != 7 {
			t.Errorf("%+v, %v", log, err)
		}
	})
}

// An owner that an operator assigned replaces any row of the bill, and the audit log has it.
func TestAssignedOwnerIsFinal(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		settle(t, s, own(t, s, "owned", "old"), store.Succeeded)
		open := own(t, s, "pending", "old")
		settle(t, s, own(t, s, "released", "old"), store.Refused)
		for _, bill := range []string{"owned", "pending", "released", "unknown"} {
			must(t, s.Assign(t.Context(), partner.Of("one"), bill, "new", "anna", noon, bill == "owned"))
			o := ownerOf(t, s, bill)
			if o.Upstream != "new" || o.State != store.Owned || o.Ends.Before(noon) {
				t.Errorf("%s: %+v", bill, o)
			}
			from := map[bool]string{true: "", false: "old"}[bill == "unknown"]
			log, err := s.Audit(t.Context(), store.AuditFilter{Limit: 1})
			want := store.Change{Action: store.Assigned, By: "anna", At: noon, Partner: partner.Of("one"), Subject: bill, From: from, To: "new", Forced: bill == "owned"}
			if err == nil && len(log) == 1 {
				want.Revision = log[0].Revision
			}
			equal(t, "audit", log, []store.Change{want})
		}
		if _, err := s.Complete(t.Context(), open, store.Succeeded, noon); !errors.Is(err, store.ErrOtherOwner) {
			t.Errorf("the create that was on its way: %v", err)
		}
		equal(t, "it stays", inWords(ownerOf(t, s, "pending")), "new owned 1")
		if err := s.Assign(t.Context(), "short", "b", "new", "anna", noon, false); err == nil {
			t.Error("a bill of nobody was assigned")
		}
	})
}

// After the answer "no such bill", creates that arrived before it are not recorded, at any replica; later ones are. A denial by a
// clock that was years ahead refuses nothing.
func TestCreateIsRefusedAfterADenial(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		deny := func(bill string, now, since time.Time) error {
			_, err := s.Deny(t.Context(), partner.Of("one"), bill, now, since)
			return err
		}
		owns := func(bill string, arrived time.Time) error {
			_, err := s.Own(t.Context(), partner.Of("one"), bill, "new", arrived, time.Time{})
			return err
		}
		young := noon.Add(-30 * time.Second)
		for _, step := range []struct {
			what string
			got  error
			want error
		}{
			{"deny", deny("b", noon, young), nil},
			{"one that arrived before", owns("b", noon.Add(-time.Second)), store.ErrDenied},
			{"one that arrived then", owns("b", noon), store.ErrDenied},
			{"one that arrives later", owns("b", noon.Add(time.Millisecond)), nil},
			{"deny while it is made", deny("b", noon.Add(time.Second), young), store.ErrCreateInProgress},
			{"deny when that was long ago", deny("b", noon.Add(time.Hour), noon.Add(time.Hour-30*time.Second)), nil},
			{"a second create from before", owns("b", noon.Add(59*time.Minute+59*time.Second)), store.ErrDenied},
			{"a wrong clock", deny("c", noon.Add(years), young), nil},
			{"is not waited for", owns("c", noon), nil},
			{"an id that cannot be kept", deny("", noon, young), store.ErrBill},
		} {
			if !errors.Is(step.got, step.want) || (step.got == nil) != (step.want == nil) {
				t.Errorf("%s: %v, want %v", step.what, step.got, step.want)
			}
		}
		settle(t, s, own(t, s, "owned", "old"), store.Succeeded)
		if o, err := s.Deny(t.Context(), partner.Of("one"), "owned", noon, young); err != nil || inWords(o) != "old owned 0" {
			t.Errorf("%+v, %v", o, err)
		}
		if err := owns("owned", noon.Add(-time.Second)); err != nil {
			t.Errorf("a create of a bill that is there: %v", err)
		}
		if err := deny("nothing", noon, young); err != nil {
			t.Error(err)
		}
		for after, want := range []int{0, 1} { // it stays while a create may be in progress
			if n, err := s.SweepOwners(t.Context(), noon.Add(time.Duration(after)*11*time.Minute), noon.Add(time.Duration(after)*11*time.Minute), time.Hour); n != want || err != nil {
				t.Errorf("removed %d, %v, want %d", n, err, want)
			}
		}
	})
}
