package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billbridge/proxy/partner"
)

// A State is what has become of a callback.
type State string

// The states. Only a waiting callback is ever delivered, and only a waiting one holds back later ones of its order.
const (
	Waiting   State = "waiting"
	Delivered State = "delivered"
	Dead      State = "dead"    // given up; it stays until somebody replays or drops it
	Dropped   State = "dropped" // somebody decided against it, or the partner refused it for good
)

// A Callback is one payment notice of an upstream on its way to a partner. It carries all that its delivery needs, so
// that it can still be delivered when its address is gone.
type Callback struct {
	ID          string // stable over all attempts: the partner knows a repetition by it
	Address     string // the id of the Address it came to
	Upstream    string
	Partner     partner.ID
	Bill        string
	Form        string // the partner's
	URL         string // where it goes
	Host        string // of URL; attempts are limited by it
	Order       string // what it is about: callbacks of one order are delivered in the order they were accepted in
	Digest      [32]byte
	ContentType string
	Body        []byte    // as it is to be delivered; List leaves it out
	Received    time.Time // must not be zero
	State       State
	Attempts    int       // that ended
	Next        time.Time // when the next attempt is due, if it is waiting
	LastAt      time.Time // when the last attempt ended; zero before the first
	LastStatus  int       // the HTTP status of the last attempt; 0 if there was no answer
	LastOutcome string    // what came of the last attempt, in words; it must hold nothing secret
	Cursor      int64     // its place in the store, growing; for Filter.After
}

// lastOfOrder is the callback of the order $9 that was accepted last, by the index made for it.
const lastOfOrder = "SELECT address, digest, received FROM billbridge_callbacks WHERE ordering = $9 AND seq > 0 ORDER BY seq DESC LIMIT 1"

// Accept keeps a callback that came in, waiting for its first attempt at c.Next (c.Received if that is zero). Of the
// fields that tell how it fared, it takes no other.
//
// It keeps nothing and returns false if c repeats the last callback of its Order: the same Address and Digest, and that one
// was received less than window before c, whatever has become of it. An upstream that missed our acknowledgement sends
// again. One that is equal to an earlier callback of its Order is kept: a status can come back.
func (s *Store) Accept(ctx context.Context, c Callback, window time.Duration) (fresh bool, err error) {
	if c.ID == "" || c.Received.IsZero() {
		return false, errors.New("store: a callback needs an id and the time it was received")
	}
	if err := storable(map[string]string{
		"id": c.ID, "address": c.Address, "upstream": c.Upstream, "partner": string(c.Partner), "bill": c.Bill, "form": c.Form,
		"url": c.URL, "host": c.Host, "order": c.Order, "content type": c.ContentType,
	}); err != nil {
		return false, err
	}
	if c.Next.IsZero() {
		c.Next = c.Received
	}
	if c.Body == nil {
		c.Body = []byte{} // NULL would be refused
	}
	return write(ctx, s, "keeping a callback", func(ctx context.Context, q queries) (fresh bool, err error) {
		// What is counted up for an order must be committed in that order, too. And the statement below sees as the last of
		// it what was committed before: it must not run beside another.
		if err := s.lock(ctx, q, "order", c.Order); err != nil {
			return false, err
		}
		result, err := q.ExecContext(ctx, `
			INSERT INTO billbridge_callbacks (
				id, address, upstream, partner, bill, form, url, host, ordering, digest, content_type, body, received,
				state, attempts, next, due, lease, last_status, last_outcome)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'waiting', 0, $14, $14, '', 0, ''
			WHERE NOT EXISTS (SELECT 1 FROM (`+lastOfOrder+`) AS last WHERE last.address = $2 AND last.digest = $10 AND last.received > $15)`,
			c.ID, c.Address, c.Upstream, c.Partner, c.Bill, c.Form, c.URL, c.Host, c.Order, c.Digest[:], c.ContentType,
			c.Body, c.Received.UnixMilli(), c.Next.UnixMilli(), c.Received.Add(-window).UnixMilli())
		if err != nil {
			return false, err
		}
		inserted, err := result.RowsAffected()
		return inserted == 1, err
	})
}

// lock keeps other replicas out of what the key names until the transaction ends. SQLite has one writer anyhow.
func (s *Store) lock(ctx context.Context, q queries, key ...string) error {
	if !s.postgres {
		return nil
	}
	return advisoryLock(ctx, q, key...)
}

// share is a lock that keeps out none but those who would have it for themselves.
func (s *Store) lockShared(ctx context.Context, q queries, key ...string) error {
	if !s.postgres {
		return nil
	}
	return advisoryLockShared(ctx, q, key...)
}

// claims is the key that claims share, and that what would come between them has for itself.
const claims = "claims"

// The columns of a callback, in the order of scan.
const (
	columns = `seq, id, address, upstream, partner, bill, form, url, host, ordering, digest, content_type, received,
		state, attempts, next, last_at, last_status, last_outcome`
	columnsAndBody = columns + ", body"
)

// scan reads a row of columns, and what more there is of it into rest.
func scan(row interface{ Scan(...any) error }, rest ...any) (c Callback, err error) {
	var digest []byte
	if err := row.Scan(append([]any{
		&c.Cursor, &c.ID, &c.Address, &c.Upstream, &c.Partner, &c.Bill, &c.Form, &c.URL, &c.Host, &c.Order, &digest,
		&c.ContentType,
		moment{&c.Received},
		&c.State, &c.Attempts,
		moment{&c.Next},
		moment{&c.LastAt},
		&c.LastStatus, &c.LastOutcome,
	}, rest...)...); err != nil {
		return Callback{}, err
	}
	if len(digest) != len(c.Digest) {
		return Callback{}, fmt.Errorf("callback %s: its digest has %d bytes", c.ID, len(digest))
	}
	copy(c.Digest[:], digest)
	return c, nil
}
