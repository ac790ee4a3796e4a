package store

import (
	"context"
	"fmt"
)

// recryptAtOnce is the most rows that one transaction of Recrypt changes.
const recryptAtOnce = 200

// Recrypt encrypts rows that are not encrypted with the current key, in batches, and returns their number. Without a
// current key it decrypts them. Rows without encryption are looked for once in the life of a process, as that reads
// all rows: from then on this process adds none.
func (s *Store) Recrypt(ctx context.Context) (n int, err error) {
	ids, err := read(ctx, s, "looking for the keys of rows", keyIDs)
	if err != nil {
		return 0, err
	}
	if s.keys.current != "" && !s.walked.Load() {
		ids = append(ids, "")
	}
	for _, id := range ids {
		for _, t := range []sealedTable{
			{"billbridge_addresses", "id", "NULL, true", urlOfAddress},
			{"billbridge_callbacks", "seq", "body, erased IS NOT NULL", urlOfCallback},
		} {
			if id == s.keys.current {
				continue
			}
			changed, err := s.recrypt(ctx, id, t)
			n += changed
			if err != nil {
				return n, err
			}
		}
	}
	s.walked.Store(true)
	return n, nil
}

// A sealedTable is a table with encrypted values.
type sealedTable struct {
	name, key string // and its primary key
	body      string // the columns of the body, and whether there is none
	urlOf     func(id string) (place string)
}

// recrypt changes the rows of a table that are encrypted with the key id.
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
	for after := ""; ; after = " AND " + t.key + " > $2" {
		query := fmt.Sprintf("SELECT %s, id, url, %s FROM %s WHERE %s%s ORDER BY %s LIMIT %d %s",
			t.key, t.body, t.name, where, after, t.key, min(s.batch, recryptAtOnce), s.passOver())
		found, err := write(ctx, s, "encrypting rows", func(q tx) []sealed {
			found := list[sealed](q, query, args...)
			for _, r := range found {
				url, err := s.keys.openText(id, r.URL, t.urlOf(r.ID))
				set, to := "url = $2, key_id = $3", []any{r.Key, s.keys.sealText(url, t.urlOf(r.ID)), s.keys.current}
				if !r.Erased && err == nil {
					var body []byte
					body, err = s.keys.open(id, r.Body, bodyOfCallback(r.ID))
					set, to = set+", body = $4", append(to, notNil(s.keys.seal(body, bodyOfCallback(r.ID))))
				}
				q.fail(err)
				q.exec("UPDATE "+t.name+" SET "+set+" WHERE "+t.key+" = $1", to...)
			}
			return found
		})
		n += len(found)
		if err != nil || len(found) == 0 {
			return n, err
		}
		args = []any{id, found[len(found)-1].Key}
	}
}

// notNil is an empty slice in place of nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
