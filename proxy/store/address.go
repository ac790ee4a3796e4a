package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// An Address is a callback address of ours that was handed to an upstream in place of the partner's own.
type Address struct {
	ID        string    // what tells it from all others in its path: 32 lower-case hex digits that cannot be guessed
	Upstream  string    // who was given it
	Operation string    // of the call that it was given in
	Partner   string    // the full SHA-256 of the partner's key, in hex
	Bill      string    // "" for a registration
	Store     string    // the member or merchant of a registration; "" for a bill
	Form      string    // the partner's
	URL       string    // the partner's own address
	Created   time.Time // must not be zero
	Until     time.Time // the bill is over then; zero if that is not known
}

// Bind keeps an address. It must be kept before the upstream hears of it. A registration takes the place of earlier
// ones of the same partner and store: those still answer, until a sweep finds them long out of use. Two calls for one
// bill keep both addresses: whichever of them the upstream took must answer.
func (s *Store) Bind(ctx context.Context, a Address) error {
	if a.ID == "" || a.Created.IsZero() {
		return errors.New("store: an address needs an id and the time it was made")
	}
	if err := storable(map[string]string{
		"id": a.ID, "upstream": a.Upstream, "operation": a.Operation, "partner": a.Partner,
		"bill": a.Bill, "store": a.Store, "form": a.Form, "url": a.URL,
	}); err != nil {
		return err
	}
	created, until, over := a.Created.UnixMilli(), millis(a.Until), millis(a.Until)
	if over == nil {
		over = created
	}
	_, err := write(ctx, s, "keeping a callback address", func(ctx context.Context, q queries) (none struct{}, err error) {
		if a.Bill == "" {
			over = nil // the current registration of its store
			if err := s.lock(ctx, q, "registration", a.Partner, a.Store); err != nil {
				return none, err
			}
			if _, err := q.ExecContext(ctx, `
				UPDATE billbridge_addresses SET superseded = $1, ends = CASE WHEN until > $1 THEN until ELSE $1 END
				WHERE partner = $2 AND store = $3 AND bill = '' AND superseded IS NULL`, created, a.Partner, a.Store); err != nil {
				return none, err
			}
		}
		_, err = q.ExecContext(ctx, `
			INSERT INTO billbridge_addresses (id, upstream, operation, partner, bill, store, form, url, created, until, ends)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			a.ID, a.Upstream, a.Operation, a.Partner, a.Bill, a.Store, a.Form, a.URL, created, until, over)
		return none, err
	})
	return err
}

// Address returns the address with an id, or ErrNotFound.
func (s *Store) Address(ctx context.Context, id string) (Address, error) {
	if storable(map[string]string{"id": id}) != nil { // it comes from a path that anyone can call
		return Address{}, ErrNotFound
	}
	return read(ctx, s, "reading a callback address", func(ctx context.Context, q queries) (a Address, err error) {
		err = q.QueryRowContext(ctx, `
			SELECT id, upstream, operation, partner, bill, store, form, url, created, until
			FROM billbridge_addresses WHERE id = $1`, id).Scan(
			&a.ID, &a.Upstream, &a.Operation, &a.Partner, &a.Bill, &a.Store, &a.Form, &a.URL, moment{&a.Created}, moment{&a.Until})
		if errors.Is(err, sql.ErrNoRows) {
			err = ErrNotFound
		}
		return a, err
	})
}

// Upstreams returns the names of the upstreams that an address or a callback refers to, in order. A config that drops
// one of them would leave callbacks that nobody can place. It reads every row: for a start or a reload.
func (s *Store) Upstreams(ctx context.Context) ([]string, error) {
	return read(ctx, s, "reading the upstreams", func(ctx context.Context, q queries) (names []string, err error) {
		rows, err := q.QueryContext(ctx, `
			SELECT upstream FROM billbridge_addresses UNION SELECT upstream FROM billbridge_callbacks ORDER BY 1`)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }() // its error is that of rows.Err
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
		return names, rows.Err()
	})
}
