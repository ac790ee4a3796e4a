package store

import (
	"context"
	"database/sql"
	"fmt"
)

// recryptAtOnce is the most rows that one transaction of Recrypt changes.
const recryptAtOnce = 200

// Recrypt encrypts rows that are not encrypted with the current key, in batches, and returns their number. Without a current key it
// decrypts them. Rows without encryption are looked for once in the life of a process, as that reads all rows: from then on this
// process adds none.
func (s *Store) Recrypt(ctx context.Context) (n int, err error) {
	ids, err := read(ctx, s, "looking for the keys of rows", keyIDs)
	if err != nil {
		return 0, err
	}
	if s.keys.current != "" && !s.walked.Load() {
		ids = append(ids, "")
	}
	for _, id := range ids {
		if id == s.keys.current {
			continue
		}
		for _, of := range []func(context.Context, queries, string, any) (int, any, error){s.recryptAddresses, s.recryptCallbacks} {
			changed, err := s.recryptAll(ctx, id, of)
			n += changed
			if err != nil {
				return n, err
			}
		}
	}
	s.walked.Store(true)
	return n, nil
}

// recryptAll changes the rows of one table that are encrypted with the key id.
func (s *Store) recryptAll(ctx context.Context, id string, batch func(_ context.Context, _ queries, id string, after any) (int, any, error)) (n int, err error) {
	type result struct {
		n    int
		last any
	}
	var after any
	for {
		r, err := write(ctx, s, "encrypting rows", func(ctx context.Context, q queries) (r result, err error) {
			r.n, r.last, err = batch(ctx, q, id, after)
			return r, err
		})
		if n += r.n; err != nil || r.n == 0 {
			return n, err
		}
		after = r.last
	}
}

// beyondKey is the condition for rows of the key $1 after the last one, and its arguments. The rows of a key have an index; rows without
// one are read in the order of their primary key.
func beyondKey(id, column string, after any) (where string, args []any) {
	where, args = "key_id = $1", []any{id}
	if id != "" {
		where += " AND key_id <> ''"
	}
	if after != nil {
		where, args = where+" AND "+column+" > $2", append(args, after)
	}
	return fmt.Sprintf("%s ORDER BY %s LIMIT %d ", where, column, recryptAtOnce), args
}

func (s *Store) recryptAddresses(ctx context.Context, q queries, id string, after any) (n int, last any, err error) {
	where, args := beyondKey(id, "id", after)
	type row struct{ id, url string }
	rows, err := q.QueryContext(ctx, "SELECT id, url FROM billbridge_addresses WHERE "+where+s.passOver(), args...)
	found, err := collect(rows, err, func(r *row, rows *sql.Rows) error { return rows.Scan(&r.id, &r.url) })
	if err != nil {
		return 0, nil, err
	}
	for _, r := range found {
		url, err := s.keys.openText(id, r.url, urlOfAddress(r.id))
		if err != nil {
			return 0, nil, err
		}
		if _, err := q.ExecContext(ctx, "UPDATE billbridge_addresses SET url = $1, key_id = $2 WHERE id = $3",
			s.keys.sealText(url, urlOfAddress(r.id)), s.keys.current, r.id); err != nil {
			return 0, nil, err
		}
		last = r.id
	}
	return len(found), last, nil
}

func (s *Store) recryptCallbacks(ctx context.Context, q queries, id string, after any) (n int, last any, err error) {
	where, args := beyondKey(id, "seq", after)
	type row struct {
		seq     int64
		id, url string
		body    []byte
		erased  bool
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, id, url, body, erased IS NOT NULL FROM billbridge_callbacks WHERE "+where+s.passOver(), args...)
	found, err := collect(rows, err, func(r *row, rows *sql.Rows) error {
		return rows.Scan(&r.seq, &r.id, &r.url, &r.body, &r.erased)
	})
	if err != nil {
		return 0, nil, err
	}
	for _, r := range found {
		url, err := s.keys.openText(id, r.url, urlOfCallback(r.id))
		if err != nil {
			return 0, nil, err
		}
		body := []byte{}
		if !r.erased {
			if body, err = s.keys.open(id, r.body, bodyOfCallback(r.id)); err != nil {
				return 0, nil, err
			}
			body = notNil(s.keys.seal(body, bodyOfCallback(r.id)))
		}
		if _, err := q.ExecContext(ctx, "UPDATE billbridge_callbacks SET url = $1, body = $2, key_id = $3 WHERE seq = $4",
			s.keys.sealText(url, urlOfCallback(r.id)), body, s.keys.current, r.seq); err != nil {
			return 0, nil, err
		}
		last = r.seq
	}
	return len(found), last, nil
}

// notNil is an empty slice in place of nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
