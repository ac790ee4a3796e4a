package store

import (
	"context"
	"errors"
	"fmt"
)

const (
	recryptAtOnce = 200 // the most rows that one transaction of Recrypt changes
	namedAtOnce   = 10  // the most rows that its error names
)

// Recrypt encrypts rows that are not encrypted with the current key, in batches, and returns their number. Without a
// current key it decrypts them. Rows without encryption are looked for until all are encrypted and no gateway without
// a key runs, as that reads all rows: from then on the store is encrypted, and such a row is an error.
func (s *Store) Recrypt(ctx context.Context) (n int, err error) {
	alone := false
	ids, err := read(ctx, s, "looking for the keys of rows", func(q tx) []string {
		alone = !keyless(q)
		return keyIDs(q)
	})
	if err != nil {
		return 0, err
	}
	if s.keys.current != "" && !s.walked.Load() {
		ids = append(ids, "")
	}
	var failed error
	for _, id := range ids {
		for _, t := range []sealedTable{
			{"billbridge_addresses", "id", "NULL, true", urlOfAddress},
			{"billbridge_callbacks", "seq", "body, erased IS NOT NULL", urlOfCallback},
		} {
			if id == s.keys.current {
				continue
			}
			changed, err := s.recrypt(ctx, id, t)
			n, failed = n+changed, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return n, failed
	}
	if s.keys.current != "" && (!alone || s.walked.Load()) {
		return n, nil
	}
	plain := "" // without a key it is permitted
	if s.keys.current != "" {
		plain = s.keys.permission(0)
	}
	err = s.exec(ctx, "recording that all rows are encrypted",
		"UPDATE billbridge_secret SET plain = $1 WHERE plain <> $1", plain)
	if err == nil {
		s.keys.plainUntil.Store(0)
		s.walked.Store(true)
	}
	return n, err
}

// A sealedTable is a table with encrypted values.
type sealedTable struct {
	name, key string // and its primary key
	body      string // the columns of the body, and whether there is none
	urlOf     func(id string) (place string)
}

// recrypt changes the rows of a table that are encrypted with the key id. Those that were changed without the key stay
// as they are, and the error names some of them.
func (s *Store) recrypt(ctx context.Context, id string, t sealedTable) (n int, err error) {
	type sealed struct {
		Key     any
		ID, URL string
		Body    []byte
		Erased  bool
	}
	// The rows of a key have an index; rows without one are read in the order of their primary key.
	where, args := "key_id = $1", []any{id}
	if id != "" {
		where += " AND key_id <> ''"
	}
	type batch struct {
		last    any // the key of its last row; nil without rows
		changed int
		refused []error
	}
	var refused []error
	for after := ""; ; after = " AND " + t.key + " > $2" {
		query := fmt.Sprintf("SELECT %s, id, url, %s FROM %s WHERE %s%s ORDER BY %s LIMIT %d %s",
			t.key, t.body, t.name, where, after, t.key, min(s.batch, recryptAtOnce), s.passOver)
		done, err := write(ctx, s, "encrypting rows", func(q tx) (b batch) {
			s.lock(q, shared, claims) // see betweenClaims
			for _, r := range list[sealed](q, query, args...) {
				b.last = r.Key
				url, err := s.keys.openText(id, r.URL, t.urlOf(r.ID))
				set, to := "url = $2, key_id = $3", []any{r.Key, s.keys.sealText(url, t.urlOf(r.ID)), s.keys.current}
				if !r.Erased && err == nil {
					var body []byte
					body, err = s.keys.open(id, r.Body, bodyOfCallback(r.ID))
					set, to = set+", body = $4", append(to, notNil(s.keys.seal(body, bodyOfCallback(r.ID))))
				}
				if errors.As(err, new(changedError)) {
					b.refused = append(b.refused, err)
					continue
				}
				q.fail(err)
				q.exec("UPDATE "+t.name+" SET "+set+" WHERE "+t.key+" = $1", to...)
				b.changed++
			}
			return b
		})
		n += done.changed
		refused = append(refused, done.refused[:min(len(done.refused), namedAtOnce-len(refused))]...)
		if err != nil || done.last == nil {
			return n, errors.Join(append(refused, err)...)
		}
		args = []any{id, done.last}
	}
}

// notNil is an empty slice in place of nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
