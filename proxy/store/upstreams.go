package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// An Upstream may have bills and send callbacks.
type Upstream struct {
	Name string // rows refer to it
	Form string // its callbacks are in it
	URL  string
}

// A referencedError: rows refer to an upstream that the config drops or gives another form. Its callbacks would be refused or read in
// the wrong form, and its bills could not be read or cancelled.
type referencedError struct {
	Upstream Upstream // as the store has it
	Form     string   // in the config; "" if it was dropped
}

func (e *referencedError) Error() string {
	u := e.Upstream
	if e.Form == "" {
		return fmt.Sprintf("store: upstream %q is no longer in the config, but bills, callbacks or callback addresses of it are still there: "+
			"name it as before, with the form %q; its url may be another", u.Name, u.Form)
	}
	return fmt.Sprintf("store: upstream %q has the form %q in the config, but bills, callbacks or callback addresses from when it had the form %q are still there: "+
		"name it as before, and give the one with the form %q another name", u.Name, e.Form, u.Form, e.Form)
}

// An exchangedError: the config gives an upstream the address that another one had. Calls about bills would go to the wrong backend,
// where bills could be made a second time.
type exchangedError struct {
	Upstream, URL string // as in the config
	Was           string // the upstream that had the address
}

func (e *exchangedError) Error() string {
	return fmt.Sprintf("store: upstreams.%s.url is %s in the config, but that is the address that upstream %q had, and partners have called or bills are there: "+
		"give each upstream its own address; to exchange what old and new mean, change the stages of partners instead", e.Upstream, e.URL, e.Was)
}

// A movedError: the config gives an upstream that owns bills another address, and AllowMove was not called.
type movedError struct {
	Upstream, Was, URL string
}

func (e *movedError) Error() string {
	return fmt.Sprintf("store: upstreams.%[1]s.url is %[3]s in the config, but it was %[2]s, and there are bills at it: "+
		"if the same backend with the same bills is at the new address, run billbridge rollout moved %[1]s --by NAME first (it holds for 24 hours); if it is another backend, give it another name",
		e.Upstream, e.Was, e.URL)
}

// moveWithin is how long AllowMove holds.
const moveWithin = 24 * time.Hour

// AllowMove declares that an upstream will get another address and is the same backend with the same bills. It holds for one change
// within 24 hours. It returns ErrNotFound if the store does not know the upstream.
func (s *Store) AllowMove(ctx context.Context, upstream, by string, at time.Time) error {
	if err := storable(map[string]string{"upstream": upstream}); err != nil {
		return err
	}
	return s.change(ctx, Change{Action: Moved, By: by, At: at, Subject: upstream}, func(ctx context.Context, q queries, c *Change) error {
		err := q.QueryRowContext(ctx, "UPDATE billbridge_upstreams SET may_move = $2, may_move_by = $3 WHERE name = $1 RETURNING name", c.Subject, at.UnixMilli(), by).
			Scan(&c.Subject)
		if errors.Is(err, sql.ErrNoRows) {
			err = ErrNotFound
		}
		return err
	})
}

// sameAddress reports whether two URLs are the same, ignoring case in scheme and host, a default port and trailing slashes.
func sameAddress(a, b string) bool { return canonical(a) == canonical(b) }

func canonical(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	return scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}

// Reconcile compares the upstreams of a config with those that the store knows, and then stores them. It is called at a start and
// before a reload takes effect. (Bind, Accept and Own do not check the upstream that they get.) routed means that the ledger
// routes calls.
//
// It changes nothing and returns an error
//
//   - if an upstream would get the address that another one had, and a partner was seen or there is an address, a callback or a
//     bill that was not released,
//   - if routed is set, an upstream with a bill that was not released would get another address, and AllowMove was not called,
//   - if an address, a callback or a bill that was not released refers to a known upstream that is missing in the config or has
//     another form there. (The names of two upstreams may have been swapped.)
//
// Else it returns the known upstreams whose URL has changed, as they were, sorted by name: a service may have moved, or two names
// may have been swapped.
func (s *Store) Reconcile(ctx context.Context, now []Upstream, routed bool, at time.Time) (moved []Upstream, err error) {
	named, err := upstreamsByName(now)
	if err != nil {
		return nil, err
	}
	now = slices.Clone(now) // it must not change while the writer reads it
	type comparison struct {
		moved   []Upstream
		refusal error // a value: an error would roll back the writes of others in the same transaction
	}
	result, err := write(ctx, s, "comparing the upstreams", func(ctx context.Context, q queries) (c comparison, err error) {
		// Replicas start together: each must see the upstreams before or after another one's change.
		if err := s.lock(ctx, q, "upstreams"); err != nil {
			return c, err
		}
		known, err := upstreams(ctx, q)
		if err != nil {
			return c, err
		}
		// All refusals come before the first change: a refusal is committed, too.
		if c.refusal, err = readdressed(ctx, q, known, now, routed, at); err != nil || c.refusal != nil {
			return c, err
		}
		moved, forgotten := compareUpstreams(known, named)
		if c.refusal, err = referenced(ctx, q, forgotten, named); err != nil || c.refusal != nil {
			return c, err
		}
		c.moved = moved
		return c, replaceUpstreams(ctx, q, forgotten, now)
	})
	if err == nil {
		err = result.refusal
	}
	return result.moved, err
}

// upstreamsByName are the upstreams of a config, or why they cannot be kept.
func upstreamsByName(all []Upstream) (map[string]Upstream, error) {
	named := map[string]Upstream{}
	for _, u := range all {
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
	return named, nil
}

// compareUpstreams returns the known upstreams that get another URL, and those that are gone or get another form.
func compareUpstreams(known []KnownUpstream, now map[string]Upstream) (moved, forgotten []Upstream) {
	for _, u := range known {
		next, ok := now[u.Name]
		switch {
		case ok && next.Form == u.Form && next.URL != u.URL:
			moved = append(moved, u.Upstream)
		case !ok || next.Form != u.Form:
			forgotten = append(forgotten, u.Upstream)
		}
	}
	return moved, forgotten
}

// referenced is why upstreams cannot be forgotten, nil if they can.
func referenced(ctx context.Context, q queries, forgotten []Upstream, now map[string]Upstream) (refusal, err error) {
	for _, u := range forgotten {
		is, err := isReferenced(ctx, q, u.Name)
		if err != nil {
			return nil, err
		}
		if is {
			return &referencedError{u, now[u.Name].Form}, nil
		}
	}
	return nil, nil
}

// replaceUpstreams stores the upstreams of a config, and removes the forgotten ones.
func replaceUpstreams(ctx context.Context, q queries, forgotten, now []Upstream) error {
	for _, u := range forgotten {
		if _, err := q.ExecContext(ctx, "DELETE FROM billbridge_upstreams WHERE name = $1", u.Name); err != nil {
			return err
		}
	}
	for _, u := range now {
		if _, err := q.ExecContext(ctx, `
			INSERT INTO billbridge_upstreams AS was (name, form, url) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET form = excluded.form, url = excluded.url,
				may_move = CASE was.url WHEN excluded.url THEN was.may_move END`, u.Name, u.Form, u.URL); err != nil {
			return err
		}
	}
	return nil
}

// readdressed is why upstreams may not get other addresses, nil if they may.
func readdressed(ctx context.Context, q queries, known []KnownUpstream, now []Upstream, routed bool, at time.Time) (refusal, err error) {
	for _, next := range now {
		was := slices.IndexFunc(known, func(k KnownUpstream) bool { return k.Name == next.Name })
		if was >= 0 && sameAddress(known[was].URL, next.URL) {
			continue
		}
		for _, other := range known {
			stays := slices.ContainsFunc(now, func(u Upstream) bool { return u.Name == other.Name })
			if other.Name == next.Name || !stays || !sameAddress(other.URL, next.URL) {
				continue // an upstream that is dropped, to which no row refers, may be renamed
			}
			if used, err := inUse(ctx, q); err != nil || used {
				return &exchangedError{next.Name, next.URL, other.Name}, err
			}
		}
		if was < 0 || !routed || !known[was].MayMove.At.IsZero() && at.Sub(known[was].MayMove.At) < moveWithin {
			continue
		}
		var owns bool
		if err := q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM billbridge_owners WHERE upstream = $1 AND state <> 'released')", next.Name).Scan(&owns); err != nil {
			return nil, err
		}
		if owns {
			return &movedError{next.Name, known[was].URL, next.URL}, nil
		}
	}
	return nil, nil
}

// inUse reports whether a partner was ever seen, or there is an address, a callback or a bill that was not released.
func inUse(ctx context.Context, q queries) (used bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM billbridge_seen) OR EXISTS (SELECT 1 FROM billbridge_addresses) OR EXISTS (SELECT 1 FROM billbridge_callbacks)
		OR EXISTS (SELECT 1 FROM billbridge_owners WHERE state <> 'released')`).Scan(&used)
	return used, err
}

// isReferenced reports whether a row refers to an upstream.
func isReferenced(ctx context.Context, q queries, upstream string) (referenced bool, err error) {
	// The owners last: they have no index by upstream, which would cost every create.
	err = q.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM billbridge_addresses WHERE upstream = $1)
		OR EXISTS (SELECT 1 FROM billbridge_callbacks WHERE upstream = $1)
		OR EXISTS (SELECT 1 FROM billbridge_owners WHERE upstream = $1 AND state <> 'released')`, upstream).Scan(&referenced)
	return referenced, err
}

// A KnownUpstream is an upstream as the store has it.
type KnownUpstream struct {
	Upstream
	MayMove Declaration // by AllowMove; zero if it was not called, or the address has changed since
}

// Upstreams are those of the last Reconcile, sorted by name.
func (s *Store) Upstreams(ctx context.Context) ([]KnownUpstream, error) {
	return read(ctx, s, "reading the upstreams", upstreams)
}

// upstreams are the known ones, sorted by name.
func upstreams(ctx context.Context, q queries) ([]KnownUpstream, error) {
	rows, err := q.QueryContext(ctx, "SELECT name, form, url, may_move, may_move_by FROM billbridge_upstreams ORDER BY name")
	return collect(rows, err, func(u *KnownUpstream, row *sql.Rows) error {
		return row.Scan(&u.Name, &u.Form, &u.URL, moment{&u.MayMove.At}, &u.MayMove.By)
	})
}
