package console

import (
	"slices"
	"sync"
	"time"
)

// What was solved is shown for this time, and at most so much of it.
const (
	solvedShown = time.Hour
	solvedMost  = 20
)

// A solved attention no longer needs a person.
type solved struct {
	attention
	At time.Time // of the first overview without it
}

// solutions remember what the last overview showed, and what was gone since. They are safe for concurrent use.
type solutions struct {
	mu   sync.Mutex
	open []attention
	at   time.Time // of the last overview
	gone []solved  // the newest first
}

// after returns what was solved, the newest first, if list is what needs a person now. Unless all of that could be
// read, what is missing in it is not solved.
func (s *solutions) after(now time.Time, list []attention, complete bool) []solved {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Clone(list)
	isOpen := func(id string) bool {
		return slices.ContainsFunc(list, func(a attention) bool { return a.ID == id })
	}
	for _, one := range s.open {
		switch {
		case isOpen(one.ID):
		case !complete:
			list = append(list, one)
		case !one.passes && now.Sub(s.at) < solvedShown: // else it is not known when it was solved
			s.gone = slices.Insert(s.gone, 0, solved{one, now})
		}
	}
	s.gone = slices.DeleteFunc(s.gone, func(one solved) bool {
		return now.Sub(one.At) >= solvedShown || isOpen(one.ID)
	})
	s.gone = s.gone[:min(len(s.gone), solvedMost)]
	s.open, s.at = list, now
	return slices.Clone(s.gone)
}
