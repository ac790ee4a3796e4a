package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	recryptAtOnce = 200 // the most rows that are in memory
	namedAtOnce   = 10  // the most rows that the error names
)

// ChangeKey encrypts what is in the store at a URL with another key, in one transaction, and returns the number of
// rows. A key that is nil is none. No gateway may run: it would write rows with the key that it has.
//
// If rows were changed without the key, nothing is changed: without a key they would be believed. The error names some
// of them.
func ChangeKey(ctx context.Context, url string, from, to []byte) (n int, err error) {
	next, err := newKeyring(to)
	if err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	s, err := Open(ctx, url, Options{Key: from})
	if other := (*keyError)(nil); errors.As(err, &other) {
		return 0, other.toChange(next.id)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.keyring.id == next.id {
		return 0, (&keyError{is: next.id}).toChange(next.id)
	}
	return write(ctx, s.db, "changing the key", func(q tx) (done int) {
		now := time.Now()
		if s.postgres {
			advisoryLock(q, exclusive, failOverLock) // a gateway that starts now waits, and sees the new key
			now = serverTime(q)
		}
		if _, runs := find[string](q,
			"SELECT gateway FROM billbridge_gateways WHERE gateway <> $1 AND at >= $2 LIMIT 1",
			s.guard.gateway, now.Add(-aliveWithin)); runs {
			q.fail(fmt.Errorf("a gateway has written to the store in the last %s: stop all gateways. One that was "+
				"killed counts for so long", aliveWithin))
		}
		var refused []error
		for _, t := range []sealedTable{
			{"billbridge_addresses", "id", "''", "NULL, true", urlOfAddress},
			{"billbridge_callbacks", "seq", "0", "body, erased IS NOT NULL", urlOfCallback},
		} {
			n, some := t.recrypt(q, s.keyring, next)
			done += n
			refused = append(refused, some...)
		}
		if more := len(refused) - namedAtOnce; more > 0 {
			refused = append(refused[:namedAtOnce], fmt.Errorf("and %d more", more))
		}
		if len(refused) > 0 {
			q.fail(fmt.Errorf("nothing was changed: restore or delete these rows first: %w", errors.Join(refused...)))
		}
		q.exec("UPDATE billbridge_secret SET key_id = $1", next.id)
		// A gateway that was asleep looks for its rows now, and with that at the key.
		q.exec("DELETE FROM billbridge_gateways WHERE gateway <> $1", s.guard.gateway)
		return done
	})
}

// toChange is why the key of a store cannot be changed to another one.
func (e *keyError) toChange(to string) error {
	switch e.is {
	case to:
		return errors.New("store: there is nothing to change: the store has the key of the config already")
	case "":
		return errors.New("store: the store is not encrypted: give no old key")
	}
	if e.given == "" {
		return fmt.Errorf("store: the store is encrypted with the key %s: give it as the old key", e.is)
	}
	return fmt.Errorf("store: the store is encrypted with the key %s, but the old key is %s", e.is, e.given)
}

// A sealedTable is a table with encrypted values.
type sealedTable struct {
	name, key string // and its primary key
	first     string // is not after the first key
	body      string // the columns of the body, and whether there is none
	urlOf     func(id string) (place string)
}

// recrypt encrypts the rows of a table with another key, and returns their number, and which were changed without the
// key that they have.
func (t sealedTable) recrypt(q tx, from, to *keyring) (n int, refused []error) {
	type sealed struct {
		Key     any
		ID, URL string
		Body    []byte
		Erased  bool
	}
	for last, args := t.first, []any{}; q.err == nil; last = "$1" {
		rows := list[sealed](q, fmt.Sprintf(`
			SELECT %[1]s, id, url, %[2]s FROM %[3]s WHERE %[1]s > %[4]s ORDER BY %[1]s LIMIT %[5]d`,
			t.key, t.body, t.name, last, recryptAtOnce), args...)
		for _, r := range rows {
			url, err := from.openText(r.URL, t.urlOf(r.ID))
			set, values := "url = $2", []any{r.Key, to.sealText(url, t.urlOf(r.ID))}
			if !r.Erased && err == nil {
				var body []byte
				body, err = from.open(r.Body, bodyOfCallback(r.ID))
				set, values = set+", body = $3", append(values, notNil(to.seal(body, bodyOfCallback(r.ID))))
			}
			if err != nil {
				refused = append(refused, err)
				continue
			}
			q.exec("UPDATE "+t.name+" SET "+set+" WHERE "+t.key+" = $1", values...)
			n++
		}
		if len(rows) < recryptAtOnce {
			break
		}
		args = []any{rows[len(rows)-1].Key}
	}
	return n, refused
}

// notNil is an empty slice in place of nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
