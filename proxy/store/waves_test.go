package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// stepOf is a step of partner k, decided by the rollout as it is.
func stepOf(t *testing.T, s *store.Store, forward bool) store.WaveStep {
	t.Helper()
	revision, err := s.Revision(t.Context())
	must(t, err)
	return store.WaveStep{
		Wave: "autumn", Revision: revision, Forward: forward, Stepped: noon.Add(time.Minute), Evidence: "PASS",
		Stage: store.Stage{Partner: partner.Of("k"), Stage: "canary", Percent: 10, By: "wave autumn", At: noon.Add(time.Minute)},
	}
}

// Of many that want the same step one makes it.
func TestStepOfAWaveIsMadeOnce(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		must(t, s.CreateWave(ctx, store.Wave{Name: "autumn", Plan: "{}", By: "anna", Since: noon, Created: noon}, []store.WavePartner{{Partner: partner.Of("k")}}))
		step := stepOf(t, s, true)
		var made atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				switch _, err := s.StepWave(ctx, step); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, store.ErrState):
					t.Error(err)
				}
			})
		}
		all.Wait()
		equal(t, made.Load(), 1, "steps")
		log, err := s.Audit(ctx, store.AuditFilter{Partner: partner.Of("k"), Limit: 9})
		must(t, err)
		equal(t, len(log), 1, "entries")
	})
}
