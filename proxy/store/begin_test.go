package store_test

import (
	"testing"

	"billbridge/proxy/store"
)

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
