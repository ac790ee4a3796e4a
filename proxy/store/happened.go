package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// A Happening is something that is reported to people.
type Happening struct {
	Kind                               string // "doubled", "unknown", "dead" or "missing"
	Partner                            partner.ID
	Upstream, Outcome, State, Callback string // those that the kind has
	At                                 time.Time

	Operation string // of a write; of a doubled bill, of the call that showed it
}

// happeningsMost is the most happenings that are returned at once; the oldest are left out.
const happeningsMost = 100_000

// Happened returns what has happened since a time, the first first: bills that were found at both upstreams, callbacks
// that failed and those that are missing; and bills with a write that ended without an answer before unclear, if its
// outcome is still unknown: the first one of the bill. Of each kind it returns the first of each partner in each hour
// (UTC). Callbacks of an upstream named without are left out.
func (s *Store) Happened(ctx context.Context, since, unclear time.Time, without string) ([]Happening, error) {
	type row struct {
		Happening
		Data []byte // of a bill
	}
	rows, err := readAll[row](ctx, s, "finding what has happened", fmt.Sprintf(`
		SELECT * FROM (
			SELECT kind, partner, upstream, outcome, state, id, at, '' AS operation, data FROM (
				SELECT h.*, ROW_NUMBER() OVER (PARTITION BY kind, partner, at / %d ORDER BY at, id) AS nth FROM (
					SELECT 'doubled' AS kind, partner, '' AS upstream, '' AS outcome, '' AS state, '' AS id, doubled AS at,
						data
						FROM billbridge_bills WHERE doubled >= $1
					UNION ALL SELECT 'unknown', partner, upstream, '', '', '', unknown, data
						FROM billbridge_bills WHERE unknown < $2 AND %s
					UNION ALL SELECT 'dead', partner, upstream, last_outcome, '', id, last_at, ''
						FROM billbridge_callbacks WHERE state = 'failed' AND last_at >= $1 AND upstream <> $3
					UNION ALL SELECT 'missing', partner, upstream, '', shown, '', missing, ''
						FROM billbridge_addresses WHERE missing >= $1
				) h
			) firsts WHERE nth = 1 ORDER BY at DESC, kind, partner LIMIT %d
		) latest ORDER BY at, kind DESC, partner DESC`,
		time.Hour.Milliseconds(), proven, happeningsMost), since, unclear, without)
	var all []Happening
	for _, row := range rows {
		h := row.Happening
		if len(row.Data) > 0 {
			b, err := billRow{Data: row.Data}.bill()
			if err != nil {
				return nil, err
			}
			call := b.Doubled
			if h.Kind == "unknown" {
				call = &b.Writes[slices.IndexFunc(b.Writes, func(w ledger.Write) bool { return w.At.Equal(b.UnknownSince()) })].Call
				h.Upstream = call.Upstream
			}
			h.Operation = call.Operation
		}
		all = append(all, h)
	}
	return all, err
}
