package store

import (
	"context"
	"time"
)

// A Gateway is a process that has the store open, or that ended within the last day without closing it.
type Gateway struct {
	Info string    // of its last Announce
	At   time.Time // of its last transaction: one that runs makes one at least once a minute
	Own  bool      // it is this one
}

// Announce makes known to operators at all gateways what this one is. The info of the last call counts.
func (s upkeep) Announce(ctx context.Context, info string) error {
	return s.exec(ctx, "announcing the gateway", `
		INSERT INTO billbridge_announced (gateway, info) VALUES ($1, $2)
		ON CONFLICT (gateway) DO UPDATE SET info = excluded.info`, s.guard.gateway, info)
}

// Gateways returns the gateways that have announced themselves, the one with the latest transaction first.
func (s upkeep) Gateways(ctx context.Context) ([]Gateway, error) {
	return readAll[Gateway](ctx, s.db, "reading the gateways", `
		SELECT a.info, max(g.at), a.gateway = $1
		FROM billbridge_announced a JOIN billbridge_gateways g ON g.gateway = a.gateway
		GROUP BY a.gateway, a.info ORDER BY max(g.at) DESC, a.gateway`, s.guard.gateway)
}
