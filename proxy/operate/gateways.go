package operate

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// A Gateway is a process that uses the store, as it says of itself.
type Gateway struct {
	Name    string    `json:"name"` // its machine, and the port of its admin listener
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Reading Reading   `json:"config"`           // the last one
	Own     bool      `json:"own"`              // it gives this answer
	Last    time.Time `json:"last"`             // when it was last known to run
	Silent  bool      `json:"silent,omitempty"` // it ended without a stop, or does not reach the store
}

// silentAfter is how long a gateway that runs may write nothing: it does so once a minute.
const silentAfter = 3 * time.Minute

// itself is what this gateway says of itself.
func (o *Operator) itself() Gateway {
	g := o.Gateway
	g.Reading, g.Own, g.Last = o.LastReading(), true, o.Now()
	return g
}

// Announce tells the operators at other gateways what this one is: after a start, a reload, and every minute, because
// the store may have become an older one. Without a store it does nothing.
func (o *Operator) Announce(ctx context.Context) error {
	if o.Store == nil {
		return nil
	}
	text, err := json.Marshal(o.itself())
	if err != nil {
		return err
	}
	return o.Store.Announce(ctx, string(text))
}

// Gateways returns those that use the store, this one first. One that was killed is there for a day, unless another
// one has its name.
func (o *Operator) Gateways(ctx context.Context, _ struct{}) ([]Gateway, error) {
	all := []Gateway{o.itself()}
	if o.Store == nil {
		return all, nil
	}
	rows, err := o.Store.Gateways(ctx)
	if err != nil {
		return nil, err
	}
	clock := o.Store.Clock(o.Now())
	now := clock.StoreTime.Add(clock.Offset) // of PostgreSQL, as that of the rows
	for _, row := range rows {
		var g Gateway
		if json.Unmarshal([]byte(row.Info), &g) != nil {
			continue // of another version
		}
		g.Own, g.Last = false, row.At
		// Of two without a sign the later one comes first.
		if row.Own || slices.ContainsFunc(all, func(a Gateway) bool { return a.Name == g.Name }) {
			continue
		}
		g.Silent = now.Sub(g.Last) > silentAfter
		all = append(all, g)
	}
	return all, nil
}
