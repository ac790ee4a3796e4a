package routing

import (
	"fmt"
	"testing"

	"billbridge/proxy/evidence"
)

// Every possible situation, against the rules of the package comment.
func TestDecisions(t *testing.T) {
	t.Parallel()
	oldSide, newSide := evidence.Old, evidence.New
	backends := []*evidence.Backend{nil, &oldSide, &newSide}
	n := 0
	for bits := range 1 << 6 {
		is := func(bit int) bool { return bits>>bit&1 == 1 }
		for _, stage := range Stages {
			for _, owner := range backends {
				for _, likely := range backends {
					s := situation{
						shared: is(0), restored: is(1), unbegun: is(2), stopped: is(3), settled: is(4), chosen: is(5),
						position: Position{Stage: stage}, owner: owner, likely: likely,
					}
					if likely != nil && owner != nil { // they exclude each other
						continue
					}
					name := fmt.Sprintf("%+v owner %s likely %s", s, shownSide(owner), shownSide(likely))
					n++
					judgeCreate(t, name, s)
					judgeOther(t, name, s, s.other())
				}
			}
		}
	}
	if want := 64 * len(Stages) * (3 + 2); n != want {
		t.Errorf("%d situations, want %d", n, want)
	}
}

func shownSide(s *evidence.Backend) string {
	if s == nil {
		return "none"
	}
	return []string{"old", "new"}[*s]
}

func judgeCreate(t *testing.T, name string, s situation) {
	t.Helper()
	d := s.create()
	switch {
	case !s.shared && s.owner != nil:
		// A bill stays with its owner in every situation; no backend is probed.
		if d.backend != *s.owner || d.probe || d.reason != byOwner {
			t.Errorf("%s: %+v", name, d)
		}
	case !s.shared && s.likely != nil:
		if d.backend != *s.likely || d.probe != s.probes(d.backend) {
			t.Errorf("%s: %+v", name, d)
		}
	case d.backend != s.byStage().backend || d.probe != s.probes(d.backend):
		t.Errorf("%s: %+v", name, d)
	}
	// No bill is created at the new backend while the kill switch is on, before the settling period is over, or in an earlier stage.
	mayLeave := !s.stopped && s.settled && (s.position.Stage == StageNew || s.position.Stage == StageDrained || s.position.Stage == StageCanary && s.chosen)
	if d := s.byStage(); (d.backend == evidence.New) != mayLeave || d.probe {
		t.Errorf("%s: %+v", name, d)
	}
	// A create goes to the new backend only after a probe of the old one, unless the partner is drained and the ledger is complete.
	if want := !s.shared && (s.position.Stage != StageDrained || s.restored || s.unbegun); s.probes(evidence.New) != want {
		t.Errorf("%s: asks before a create at the new backend: %v", name, !want)
	}
	// The new backend is probed only if the ledger is incomplete, also while the kill switch is on.
	if want := (s.unbegun || s.restored) && !s.shared; s.probes(evidence.Old) != want {
		t.Errorf("%s: asks before a create at the old backend: %v", name, !want)
	}
	// Only the kill switch sends a create without its answer, only to the old backend, and not on a new store.
	for backend, want := range map[evidence.Backend]bool{evidence.Old: s.stopped && !s.unbegun, evidence.New: false} {
		if s.mayProceed(backend) != want {
			t.Errorf("%s: proceeds to %v without an answer: %v", name, backend, !want)
		}
	}
}

func judgeOther(t *testing.T, name string, s situation, d decision) {
	t.Helper()
	switch {
	case !s.shared && s.owner != nil:
		if d.backend != *s.owner || d.probe {
			t.Errorf("%s: %+v", name, d)
		}
	case s.shared:
		if d.probe {
			t.Errorf("%s: %+v", name, d)
		}
	case s.position.Stage == StageDrained && s.settled && !s.restored && !s.unbegun && (s.likely == nil || *s.likely == evidence.New):
		if d.backend != evidence.New || d.probe {
			t.Errorf("%s: %+v", name, d)
		}
	default:
		if !d.probe {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
