package store

import (
	"context"
	"time"

	"billbridge/proxy/partner"
)

// An HTTP answer of a partner means that its handler has run. Three of them end the wait of newer callbacks: one or two
// can come from a proxy while the partner restarts. They take less than a minute, since attempts come soon then.
const (
	answersOfOlder = 3
	soonForOlder   = 10 * time.Second
)

// A Supersession is the end of a callback for a newer one of its bill. Status, Outcome and Reason are of its last
// attempt.
type Supersession struct {
	ID, Upstream    string
	Partner         partner.ID
	Bill            string
	Attempts        int
	Status          int
	Outcome, Reason string
}

// supersede ends the callbacks of an order that a newer one of the bill follows and that the partner has answered often
// enough since each was accepted or replayed. With soon, the next attempts of others that the partner has answered come
// earlier. A callback without an answer keeps its place, and so does one that is being delivered. The caller holds the
// lock of the order.
func supersede(q tx, order string, at time.Time, soon bool) []Supersession {
	const older = `
		WHERE ordering = $1 AND state = 'waiting' AND lease = '' AND bill <> '' AND EXISTS (
			SELECT 1 FROM billbridge_callbacks newer WHERE newer.ordering = $1
				AND newer.seq > billbridge_callbacks.seq AND newer.seq > 0 AND newer.state IN ('waiting', 'delivered'))
		AND $3 <= (
			SELECT count(*) FROM billbridge_attempts WHERE callback = billbridge_callbacks.seq AND status <> 0
				AND number + billbridge_callbacks.attempts > (
					SELECT max(number) FROM billbridge_attempts WHERE callback = billbridge_callbacks.seq))`
	ended := list[Supersession](q, `
		UPDATE billbridge_callbacks SET state = 'superseded', next = $2, due = $2, done = $2`+older+`
		RETURNING id, upstream, partner, bill, attempts, last_status, last_outcome, (
			SELECT reason FROM billbridge_attempts WHERE callback = billbridge_callbacks.seq
				ORDER BY number DESC LIMIT 1)`, order, at, answersOfOlder)
	if soon {
		q.exec("UPDATE billbridge_callbacks SET next = $2, due = $2"+older+" AND due > $2",
			order, at.Add(soonForOlder), 1)
	}
	return ended
}

// Newer returns the state of a newer callback of the same bill that was delivered, or else of one that waits; "" if
// there is none.
func (s *Store) Newer(ctx context.Context, c Callback) (State, error) {
	return readOne[State](ctx, s, "reading callbacks", `
		SELECT coalesce(min(state), '') FROM billbridge_callbacks WHERE ordering = $1 AND seq > $2 AND seq > 0
			AND bill <> '' AND state IN ('waiting', 'delivered')`, c.Order, c.Cursor)
}
