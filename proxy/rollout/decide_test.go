package rollout

import (
	"fmt"
	"testing"
)

// Every situation there is, against the rules in the words of the package comment.
func TestDecisions(t *testing.T) {
	t.Parallel()
	yes := []bool{false, true}
	oldSide, newSide := OldSide, NewSide
	sides := []*Side{nil, &oldSide, &newSide}
	n := 0
	for _, shared := range yes {
		for _, restored := range yes {
			for _, stopped := range yes {
				for _, settled := range yes {
					for _, chosen := range yes {
						for _, stage := range Stages {
							for _, owner := range sides {
								for _, stale := range sides {
									if stale != nil && (owner != nil || !restored) { // the one excludes the other
										continue
									}
									s := situation{shared, restored, Position{Stage: stage}, stopped, settled, chosen, owner, stale}
									name := fmt.Sprintf("%+v owner %s stale %s", s, shownSide(owner), shownSide(stale))
									n++
									judgeCreate(t, name, s, s.create())
									judgeOther(t, name, s, s.other())
								}
							}
						}
					}
				}
			}
		}
	}
	if want := 2 * 2 * 2 * 2 * len(Stages) * (3 + 5); n != want {
		t.Errorf("%d situations, want %d", n, want)
	}
}

func shownSide(s *Side) string {
	if s == nil {
		return "none"
	}
	return []string{"old", "new"}[*s]
}

func judgeCreate(t *testing.T, name string, s situation, d decision) {
	t.Helper()
	switch {
	case !s.shared && s.owner != nil:
		// A bill stays with its owner, whatever else is so; nobody is asked.
		if d.side != *s.owner || d.ask || d.reason != ByOwner {
			t.Errorf("%s: %+v", name, d)
		}
		return
	case !s.shared && s.stale != nil:
		if d.side != *s.stale || d.ask != (!s.stopped || d.side == NewSide) {
			t.Errorf("%s: %+v", name, d)
		}
		return
	}
	// Nothing new is made on the new side that is stopped, unsettled, or not that far.
	mayLeave := !s.stopped && s.settled && (s.position.Stage == StageNew || s.position.Stage == StageDrained || s.position.Stage == StageCanary && s.chosen)
	if (d.side == NewSide) != mayLeave {
		t.Errorf("%s: %+v", name, d)
	}
	// The new side gets none that the old one was not asked for, unless it is drained; after a restore the other is
	// asked; the kill switch asks the new side nothing.
	want := !s.shared && (s.restored && !s.stopped || d.side == NewSide && s.position.Stage != StageDrained)
	if d.ask != want {
		t.Errorf("%s: %+v", name, d)
	}
}

func judgeOther(t *testing.T, name string, s situation, d decision) {
	t.Helper()
	switch {
	case !s.shared && s.owner != nil:
		if d.side != *s.owner || d.ask {
			t.Errorf("%s: %+v", name, d)
		}
	case s.shared:
		if d.ask {
			t.Errorf("%s: %+v", name, d)
		}
	case s.position.Stage == StageDrained && s.settled && !s.restored && s.stale == nil:
		if d.side != NewSide || d.ask {
			t.Errorf("%s: %+v", name, d)
		}
	default:
		if !d.ask {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
