package store

import (
	"context"
	"fmt"
	"slices"
)

// An Upstream is one that bills may be at, and callbacks may come from.
type Upstream struct {
	Name string // rows refer to it
	Form string // its callbacks are in it
	URL  string
}

// A ReferencedError: the store refers to an upstream that the config would drop or give another form. Its callbacks
// could not be placed any more, or would be read in the wrong form, and nothing could be done to its bills.
type ReferencedError struct {
	Upstream Upstream // as it is known
	Form     string   // the new one; "" if it would be dropped
}

func (e *ReferencedError) Error() string {
	u := e.Upstream
	if e.Form == "" {
		return fmt.Sprintf("store: upstream %q is no longer in the config, but bills, callbacks or callback addresses of it are still there: "+
			"name it as before, with the form %q; its url may be another", u.Name, u.Form)
	}
	return fmt.Sprintf("store: upstream %q has the form %q in the config, but bills, callbacks or callback addresses from when it had the form %q are still there: "+
		"name it as before, and give the one with the form %q another name", u.Name, e.Form, u.Form, e.Form)
}

// Reconcile holds the upstreams of a config to those that the store knows, and from then on knows these. It is called
// at a start, and before a reload takes effect. Bind, Accept and Own do not check what upstream they are given.
//
// If an address, a callback, whatever its state, or a bill that was not released refers to a known upstream that is
// missing from now or has another form there, Reconcile changes nothing and returns a [*ReferencedError]. A registration
// refers to its upstream for good, and so does a bill without an end. Another form under an old name may be two
// upstreams whose names were swapped. The known upstreams whose URL differs are returned as they were, in the order of their names: which may be
// meant, as when a service moves, or may be two names that were swapped.
func (s *Store) Reconcile(ctx context.Context, now []Upstream) (moved []Upstream, err error) {
	named := map[string]Upstream{}
	for _, u := range now {
		if u.Name == "" || u.Form == "" {
			return nil, fmt.Errorf("store: an upstream needs a name and a form, not %q and %q", u.Name, u.Form)
		}
		if _, twice := named[u.Name]; twice {
			return nil, fmt.Errorf("store: there are two upstreams %q", u.Name)
		}
		if err := storable(map[string]string{"name": u.Name, "form": u.Form, "url": u.URL}); err != nil {
			return nil, err
		}
		named[u.Name] = u
	}
	now = slices.Clone(now) // it must not change while the writer is at it
	type found struct {
		moved   []Upstream
		refusal error // a value: an error would undo what others wrote in the same transaction
	}
	result, err := write(ctx, s, "comparing the upstreams", func(ctx context.Context, q queries) (f found, err error) {
		// Replicas start together. What one of them forgets, the next must not find half gone.
		if err := s.lock(ctx, q, "upstreams"); err != nil {
			return f, err
		}
		known, err := upstreams(ctx, q)
		if err != nil {
			return f, err
		}
		var forgotten []Upstream
		for _, u := range known {
			next, ok := named[u.Name]
			switch {
			case ok && next.Form == u.Form && next.URL != u.URL:
				f.moved = append(f.moved, u)
			case !ok || next.Form != u.Form:
				forgotten = append(forgotten, u)
			}
		}
		for _, u := range forgotten { // all before the first change: a refusal is committed, too
			var referenced bool
			// The owners last: they have no index for it, which would cost every create.
			if err := q.QueryRowContext(ctx, `
				SELECT EXISTS (SELECT 1 FROM billbridge_addresses WHERE upstream = $1)
				OR EXISTS (SELECT 1 FROM billbridge_callbacks WHERE upstream = $1)
				OR EXISTS (SELECT 1 FROM billbridge_owners WHERE upstream = $1 AND state <> 'released')`, u.Name).Scan(&referenced); err != nil {
				return f, err
			}
			if referenced {
				return found{refusal: &ReferencedError{u, named[u.Name].Form}}, nil
			}
		}
		for _, u := range forgotten {
			if _, err := q.ExecContext(ctx, "DELETE FROM billbridge_upstreams WHERE name = $1", u.Name); err != nil {
				return f, err
			}
		}
		for _, u := range now {
			if _, err := q.ExecContext(ctx, `
				INSERT INTO billbridge_upstreams (name, form, url) VALUES ($1, $2, $3)
				ON CONFLICT (name) DO UPDATE SET form = excluded.form, url = excluded.url`, u.Name, u.Form, u.URL); err != nil {
				return f, err
			}
		}
		return f, nil
	})
	if err == nil {
		err = result.refusal
	}
	return result.moved, err
}

// upstreams are the known ones, in the order of their names.
func upstreams(ctx context.Context, q queries) (all []Upstream, err error) {
	rows, err := q.QueryContext(ctx, "SELECT name, form, url FROM billbridge_upstreams ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var u Upstream
		if err := rows.Scan(&u.Name, &u.Form, &u.URL); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, rows.Err()
}
