package store

import (
	"context"
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

// referenced refuses a config that drops an upstream to which rows refer, or gives it another form, "" if it was
// dropped: its callbacks would be refused or read in the wrong form, and its bills could not be read or cancelled.
func referenced(u Upstream, form string) error {
	if form == "" {
		return fmt.Errorf("store: upstream %q is no longer in the config, but bills, callbacks or callback "+
			"addresses of it are still there: "+
			"name it as before, with the form %q; its url may be another", u.Name, u.Form)
	}
	return fmt.Errorf("store: upstream %q has the form %q in the config, but bills, callbacks or callback "+
		"addresses from when it had the form %q are still there: "+
		"name it as before, and give the one with the form %q another name", u.Name, form, u.Form, form)
}

// openAt reports whether a bill that was not released is at an upstream.
const openAt = `EXISTS (SELECT 1 FROM billbridge_bills
	WHERE $1 IN (upstream, also_at) AND state IN ('pending', 'owned'))`

// moveWithin is how long [Moved] holds.
const moveWithin = 24 * time.Hour

// sameAddress reports whether two URLs are the same, ignoring case in scheme and host, a default port and trailing
// slashes.
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

// Reconcile compares the upstreams of a config with those that the store knows, and then stores them. It is called at
// a start and before a reload takes effect. (Bind, Accept and Own do not check the upstream that they get.) routed
// means that the ledger routes calls.
//
// It changes nothing and returns an error
//
//   - if an upstream would get the address that another one had, and a partner was seen or there is an address, a
//     callback or a bill that was not released,
//   - if routed is set, an upstream with a bill that was not released would get another address, and that was not
//     declared ([Moved]),
//   - if an address, a callback or a bill that was not released refers to a known upstream that is missing in the
//     config or has another form there. (The names of two upstreams may have been swapped.)
//
// Else it returns the known upstreams whose URL has changed, as they were, sorted by name: a service may have moved,
// or two names may have been swapped.
func (s *Store) Reconcile(
	ctx context.Context, now []Upstream, routed bool, at time.Time,
) (moved []Upstream, err error) {
	named, err := upstreamsByName(now)
	if err != nil {
		return nil, err
	}
	now = slices.Clone(now) // it must not change while the writer reads it
	return write(ctx, s.db, "comparing the upstreams", func(q tx) []Upstream {
		// Replicas start together: each must see the upstreams before or after another one's change.
		s.lock(q, exclusive, "upstreams")
		moved, forgotten := reconciled(q, now, named, routed, at)
		// All refusals come before the first change: a refusal is committed, too.
		for _, name := range forgotten {
			q.exec("DELETE FROM billbridge_upstreams WHERE name = $1", name)
		}
		for _, u := range now {
			q.exec(`
				INSERT INTO billbridge_upstreams AS was (name, form, url) VALUES ($1, $2, $3)
				ON CONFLICT (name) DO UPDATE SET form = excluded.form, url = excluded.url,
					may_move = CASE was.url WHEN excluded.url
						THEN was.may_move END`, u.Name, u.Form, u.URL)
		}
		if q.err != nil {
			return nil
		}
		return moved
	})
}

// Reconcilable returns the error of a Reconcile now, and changes nothing.
func (s *Store) Reconcilable(ctx context.Context, now []Upstream, routed bool, at time.Time) error {
	named, err := upstreamsByName(now)
	if err != nil {
		return err
	}
	now = slices.Clone(now)
	_, err = read(ctx, s.db, "comparing the upstreams", func(q tx) struct{} {
		reconciled(q, now, named, routed, at)
		return struct{}{}
	})
	return err
}

// reconciled compares the upstreams of a config with those that the store knows, and refuses what Reconcile refuses. It
// returns those whose URL has changed, and the names of those that are missing now or have another form.
func reconciled(
	q tx, now []Upstream, named map[string]Upstream, routed bool, at time.Time,
) (moved []Upstream, forgotten []string) {
	known := upstreams(q)
	readdressed(q, known, now, named, routed, at)
	for _, u := range known {
		switch next := named[u.Name]; {
		case next.Form != u.Form:
			forgotten = append(forgotten, u.Name)
			// The owners last: they have no index by upstream, which would cost every create.
			if value[bool](q, `
				SELECT EXISTS (SELECT 1 FROM billbridge_addresses WHERE upstream = $1)
				OR EXISTS (SELECT 1 FROM billbridge_callbacks WHERE upstream = $1)
				OR `+openAt, u.Name) {
				q.refuse(referenced(u.Upstream, next.Form))
			}
		case next.URL != u.URL:
			moved = append(moved, u.Upstream)
		}
	}
	return moved, forgotten
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
		named[u.Name] = u
	}
	return named, nil
}

// readdressed refuses upstreams that may not get other addresses.
func readdressed(
	q tx, known []KnownUpstream, now []Upstream, named map[string]Upstream, routed bool, at time.Time,
) {
	for _, next := range now {
		var was KnownUpstream // without a name if it is new
		for _, other := range known {
			if other.Name == next.Name {
				was = other
			}
		}
		if was.Name != "" && sameAddress(was.URL, next.URL) {
			continue
		}
		for _, other := range known {
			_, stays := named[other.Name]
			if other.Name == next.Name || !stays || !sameAddress(other.URL, next.URL) {
				continue // an upstream that is dropped, to which no row refers, may be renamed
			}
			// A partner was seen, or there is a row of a call.
			if value[bool](q, `
				SELECT EXISTS (SELECT 1 FROM billbridge_seen) OR EXISTS (SELECT 1 FROM billbridge_addresses)
				OR EXISTS (SELECT 1 FROM billbridge_callbacks) OR EXISTS (SELECT 1 FROM billbridge_bills
					WHERE state IN ('pending', 'owned'))`) {
				// Bills could be made a second time.
				q.refuse(fmt.Errorf("store: upstreams.%s.url is %s in the config, but that is the address that "+
					"upstream %q had, and partners have called or bills are there: "+
					"give each upstream its own address; to exchange what old and new mean, change the stages of "+
					"partners instead", next.Name, next.URL, other.Name))
			}
		}
		if was.Name == "" || !routed || !was.MayMove.At.IsZero() && at.Sub(was.MayMove.At) < moveWithin {
			continue
		}
		if value[bool](q, "SELECT "+openAt, next.Name) {
			q.refuse(fmt.Errorf("store: upstreams.%[1]s.url is %[3]s in the config, but it was %[2]s, and there are "+
				"bills at it: "+
				"if the same backend with the same bills is at the new address, run billbridge rollout moved %[1]s "+
				"--by NAME first (it holds for 24 hours); if it is another backend, give it another name",
				next.Name, was.URL, next.URL))
		}
	}
}

// A KnownUpstream is an upstream as the store has it.
type KnownUpstream struct {
	Upstream
	MayMove Declaration // by [Moved]; zero if it was not declared, or the address has changed since
}

// Upstreams are those of the last Reconcile, sorted by name.
func (s *Store) Upstreams(ctx context.Context) ([]KnownUpstream, error) {
	return read(ctx, s.db, "reading the upstreams", upstreams)
}

// upstreams are the known ones, sorted by name.
func upstreams(q tx) []KnownUpstream {
	return list[KnownUpstream](q,
		"SELECT name, form, url, may_move_by, may_move, '' FROM billbridge_upstreams ORDER BY name")
}
