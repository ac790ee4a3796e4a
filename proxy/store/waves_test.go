package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// newTestWave makes a wave of partners, and a gateway that makes its steps.
func newTestWave(t *testing.T, s *store.Store, name string, keys ...string) error {
	t.Helper()
	var partners []store.WavePartner
	for _, key := range keys {
		partners = append(partners, store.WavePartner{Partner: partner.Of(key)})
	}
	return s.CreateWave(t.Context(), store.Wave{Name: name, Plan: "{}", By: "anna", Since: noon, Created: noon}, partners)
}

// stepOf is a step of partner k, decided by the rollout as it is.
func stepOf(t *testing.T, s *store.Store, holder string, forward bool) store.WaveStep {
	t.Helper()
	revision, err := s.Revision(t.Context())
	must(t, err)
	return store.WaveStep{
		Wave: "autumn", Revision: revision, Holder: holder, Forward: forward, Stepped: noon.Add(time.Minute), Evidence: "PASS",
		Stage: store.Stage{Partner: partner.Of("k"), Stage: "canary", Percent: 10, By: "wave autumn", At: noon.Add(time.Minute)},
	}
}

// A step is made once, by the gateway that has the lead, and not when anything else was decided since.
func TestStepOfAWaveIsMadeOnce(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		must(t, newTestWave(t, s, "autumn", "k", "l"))
		fails(t, store.ErrInWave)(newTestWave(t, s, "winter", "l", "m"))
		fails(t, store.ErrInWave)(newTestWave(t, s, "autumn", "m"))
		lead, err := s.Lead(t.Context(), "one", -1)
		must(t, err)
		equal(t, lead.Holder, "one", "the holder")
		refused := func(why string, step store.WaveStep) {
			t.Helper()
			fails(t, store.ErrState, why)(s.StepWave(t.Context(), step))
		}
		refused("another gateway has the lead", stepOf(t, s, "two", true))
		old := stepOf(t, s, "one", true)
		must(t, s.SetStage(t.Context(), store.Stage{Partner: partner.Of("m"), Stage: "new", By: "b", At: noon}))
		refused("the rollout has changed", old)
		must(t, s.Stop(t.Context(), "b", noon))
		refused("the kill switch is on", stepOf(t, s, "one", true))
		if _, err := s.StepWave(t.Context(), stepOf(t, s, "one", false)); err != nil {
			t.Error("a step back while the kill switch is on:", err)
		}
		must(t, s.Resume(t.Context(), "b", noon))

		// Of many that want the same step one makes it.
		step := stepOf(t, s, "one", true)
		var made atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				switch _, err := s.StepWave(t.Context(), step); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, store.ErrState):
					t.Error(err)
				}
			})
		}
		all.Wait()
		equal(t, made.Load(), 1, "steps")
		log, err := s.Audit(t.Context(), store.AuditFilter{Partner: partner.Of("k"), Limit: 9})
		must(t, err)
		equal(t, len(log), 2, "entries") // with the step back
		equal(t, log[0].Evidence, "PASS", "evidence")
		waves, err := s.Waves(t.Context(), false)
		must(t, err)
		equal(t, waves[0].Stepped, noon.Add(time.Minute), "the last step")

		// A beat that has not changed is one that nobody renews.
		if other, err := s.Lead(t.Context(), "two", lead.Beat-1); err != nil || other.Holder != "one" {
			t.Error(other, err)
		}
		if other, err := s.Lead(t.Context(), "two", lead.Beat); err != nil || other.Holder != "two" {
			t.Error(other, err)
		}
		refused("the lead was taken over", stepOf(t, s, "one", true))
		must(t, s.EndLead(t.Context(), "one"))
		must(t, s.EndLead(t.Context(), "two"))
		if lead, err := s.Lead(t.Context(), "one", -1); err != nil || lead.Holder != "one" {
			t.Error(lead, err)
		}

		// Its partners can be in another wave when it has ended.
		must(t, s.SetWave(t.Context(), store.Wave{Name: "autumn", State: store.WaveEnded, By: "b", Since: noon}, store.WaveRunning))
		fails(t, store.ErrState)(s.SetWave(t.Context(), store.Wave{Name: "autumn", State: store.WavePaused, By: "b", Since: noon}, store.WaveRunning))
		must(t, newTestWave(t, s, "winter", "l", "m"))
		in, err := s.InWaves(t.Context())
		must(t, err)
		equal(t, fmt.Sprint(len(in), " ", in[partner.Of("l")]), "2 winter", "partners in waves")
	})
}
