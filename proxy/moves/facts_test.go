package moves_test

import (
	"fmt"
	"slices"
	"testing"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// What a move needs and was not read holds it back, and nothing else has to be read for it.
func TestFactsThatWereNotRead(t *testing.T) {
	t.Parallel()
	settings := &routing.Settings{Config: &config.Rollout{Bills: config.Separate}}
	for _, id := range []partner.ID{"", "p"} {
		for _, from := range routing.Stages {
			for _, to := range routing.Stages {
				m := moves.Move{Partner: id, From: routing.At(string(from), 10), To: routing.At(string(to), 50)}
				needs := m.Needs()
				drains := to == routing.StageDrained
				for left := range 5 { // which of the needed ones is left out; none at last
					f := moves.Facts{Settings: settings}
					if needs.Seen && left != 0 {
						f.Seen = moves.As([]store.SeenPartner(nil), nil)
					}
					if needs.Counted && left != 1 {
						f.Count(nil, nil, evidence.Limits{})
					}
					if needs.Marked && left != 2 {
						f.Marked = moves.As([]evidence.Count(nil), nil)
					}
					if drains && left != 3 {
						f.Bills = map[partner.ID]moves.Known[[]store.Bills]{id: moves.As([]store.Bills(nil), nil)}
					}
					// Without verdicts a move of the default does not ask which partners there are.
					seen := needs.Seen && (id != "" || needs.Counted)
					want := []bool{seen, needs.Counted, needs.Marked, drains, false}[left]
					unread := slices.Contains(moves.KindsOf(f.Against(m)), moves.Unchecked)
					if unread != want {
						t.Error(fmt.Sprintf("%q from %s to %s without %d", id, m.From, m.To, left), f.Against(m))
					}
				}
			}
		}
	}
}
