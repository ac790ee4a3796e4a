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

// An Upstream is one that bills may be at, and callbacks may come from.
type Upstream struct {
	Name string // rows refer to it
	Form string // its callbacks are in it
	URL  string
}

// A referencedError: the store refers to an upstream that the config would drop or give another form. Its callbacks
// could not be placed any more, or would be read in the wrong form, and nothing could be done to its bills.
type referencedError struct {
	Upstream Upstream // as it is known
	Form     string   // the new one; "" if it would be dropped
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

// An exchangedError: the config gives an upstream the address that another one had. Calls about the bills of one would go to
// the other, which does not have them, and could make them again.
type exchangedError struct {
	Upstream, URL string // as in the config
	Was           string // the upstream that had the address
}

func (e *exchangedError) Error() string {
	return fmt.Sprintf("store: upstreams.%s.url is %s in the config, but that is the address that upstream %q had, and partners have called or bills are there: "+
		"give each upstream its own address; to exchange what old and new mean, change the stages of partners instead", e.Upstream, e.URL, e.Was)
}

// A movedError: the config gives an upstream that owns bills another address, and nobody has said that it is the same
// backend.
type movedError struct {
	Upstream, Was, URL string
}

func (e *movedError) Error() string {
	return fmt.Sprintf("store: upstreams.%[1]s.url is %[3]s in the config, but it was %[2]s, and there are bills at it: "+
		"if the same backend with the same bills is at the new address, run billbridge rollout moved %[1]s --by NAME first (it holds for 24 hours); if it is another backend, give it another name",
		e.Upstream, e.Was, e.URL)
}

// moveWithin is how long after AllowMove an upstream may get another address.
const moveWithin = 24 * time.Hour

// AllowMove declares that an upstream is about to get another address, and is the same backend with the same bills. It
// holds for one change, within 24 hours. It returns ErrNotFound if the store does not know the upstream.
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

// sameAddress reports whether two URLs name one place: in the case of letters, a default port and a slash at the end there is
// no difference.
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

// Reconcile holds the upstreams of a config to those that the store knows, and from then on knows these. It is called
// at a start, and before a reload takes effect. Bind, Accept and Own do not check what upstream they are given. routed says
// that calls are routed by the ledger, at is the time.
//
// It changes nothing and returns an error if an upstream would get the address that another had and partners
// were seen, or an address, a callback or a bill is kept; and also if calls are routed by the ledger, a bill that was not
// released is at an upstream that would get another address, and AllowMove was not called.
//
// If an address, a callback, whatever its state, or a bill that was not released refers to a known upstream that is
// missing from now or has another form there, Reconcile changes nothing and returns an error, too. A registration
// refers to its upstream for good, and so does a bill without an end. Another form under an old name may be two
// upstreams whose names were swapped. The known upstreams whose URL differs are returned as they were, in the order of their names: which may be
// meant, as when a service moves, or may be two names that were swapped.
func (s *Store) Reconcile(ctx context.Context, now []Upstream, routed bool, at time.Time) (moved []Upstream, err error) {
	named, err := upstreamsByName(now)
	if err != nil {
		return nil, err
	}
	now = slices.Clone(now) // it must not change while the writer is at it
	type comparison struct {
		moved   []Upstream
		refusal error // a value: an error would undo what others wrote in the same transaction
	}
	result, err := write(ctx, s, "comparing the upstreams", func(ctx context.Context, q queries) (c comparison, err error) {
		// Replicas start together. What one of them forgets, the next must not find half gone.
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

// replaceUpstreams has the store know the upstreams of a config instead of those that are forgotten.
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

// readdressed is why upstreams may not get the addresses that they would, nil if they may.
func readdressed(ctx context.Context, q queries, known []KnownUpstream, now []Upstream, routed bool, at time.Time) (refusal, err error) {
	for _, next := range now {
		was := slices.IndexFunc(known, func(k KnownUpstream) bool { return k.Name == next.Name })
		if was >= 0 && sameAddress(known[was].URL, next.URL) {
			continue
		}
		for _, other := range known {
			stays := slices.ContainsFunc(now, func(u Upstream) bool { return u.Name == other.Name })
			if other.Name == next.Name || !stays || !sameAddress(other.URL, next.URL) {
				continue // one that goes, and that nothing refers to, may come back under another name
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

// inUse reports whether a call was ever taken, or an address, a callback or a bill is kept.
func inUse(ctx context.Context, q queries) (used bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM billbridge_seen) OR EXISTS (SELECT 1 FROM billbridge_addresses) OR EXISTS (SELECT 1 FROM billbridge_callbacks)
		OR EXISTS (SELECT 1 FROM billbridge_owners WHERE state <> 'released')`).Scan(&used)
	return used, err
}

// isReferenced reports whether a row refers to an upstream.
func isReferenced(ctx context.Context, q queries, upstream string) (referenced bool, err error) {
	// The owners last: they have no index for it, which would cost every create.
	err = q.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM billbridge_addresses WHERE upstream = $1)
		OR EXISTS (SELECT 1 FROM billbridge_callbacks WHERE upstream = $1)
		OR EXISTS (SELECT 1 FROM billbridge_owners WHERE upstream = $1 AND state <> 'released')`, upstream).Scan(&referenced)
	return referenced, err
}

// A KnownUpstream is one that the store knows.
type KnownUpstream struct {
	Upstream
	MayMove Declaration // who said that it is about to get another address; zero if nobody did, or it has got it
}

// Upstreams are those that Reconcile was last given, in the order of their names.
func (s *Store) Upstreams(ctx context.Context) ([]KnownUpstream, error) {
	return read(ctx, s, "reading the upstreams", upstreams)
}

// upstreams are the known ones, in the order of their names.
func upstreams(ctx context.Context, q queries) ([]KnownUpstream, error) {
	rows, err := q.QueryContext(ctx, "SELECT name, form, url, may_move, may_move_by FROM billbridge_upstreams ORDER BY name")
	return collect(rows, err, func(u *KnownUpstream, row *sql.Rows) error {
		return row.Scan(&u.Name, &u.Form, &u.URL, moment{&u.MayMove.At}, &u.MayMove.By)
	})
}
