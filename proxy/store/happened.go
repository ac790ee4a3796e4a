package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// A Happening is something that is reported to people.
type Happening struct {
	Partner                            partner.ID
	At                                 time.Time
	Upstream, Outcome, State, Callback string // those that the kind has
	Operation                          string // of a write; of a doubled bill, of the call that showed it
	Kind                               string // "doubled", "unknown", "dead" or "missing"
}

// happeningsMost is the most happenings of a kind that are returned at once; the oldest are left out.
const happeningsMost = 2000

// Happened returns what has happened since the hour (UTC) of a time, the first first: bills that were found at both
// upstreams, callbacks that failed and those that are missing; and, however long ago, writes that ended without an
// answer before unclear, if their outcome is still unknown. Of each kind it returns the first of each partner in each
// hour. Of partners without a call that succeeded, and of events, it returns nothing.
func (s *Store) Happened(ctx context.Context, since, unclear time.Time) (all []Happening, err error) {
	hour := since.Truncate(time.Hour)
	all, err = read(ctx, s.db, "finding what has happened", func(q tx) (all []Happening) {
		for _, of := range []struct {
			kind, query  string
			from, before time.Time
		}{
			{"doubled", firsts("bills", "doubled", "true", "''", "''", "''", "''", "''", "''", "data"), hour, endOfTime},
			{
				"unknown", firsts("bills", "unknown", "true", "''", "''", "''", "''", "''", "''", "data"),
				time.UnixMilli(1), unclear,
			},
			{"dead", firsts("callbacks", "last_at", "state = 'failed' AND address <> ''",
				"upstream", "last_outcome", "''", "id", "''", "''", "''"), hour, endOfTime},
			{
				"missing", firsts("addresses", "missing", "true", "upstream", "''", "shown", "''", "''", "''", "''"),
				hour, endOfTime,
			},
		} {
			for _, r := range list[struct {
				Happening
				Data []byte // of a bill
			}](q, of.query, of.from, of.before) {
				h := r.Happening
				if h.Kind = of.kind; len(r.Data) > 0 {
					b := opened(q, billRow{Data: r.Data}, billRow.bill)
					call := b.Doubled
					if of.kind == "unknown" {
						is := func(w ledger.Write) bool { return w.At.Equal(b.UnknownSince()) }
						call = &b.Writes[slices.IndexFunc(b.Writes, is)].Call
						h.Upstream = call.Upstream
					}
					h.Operation = call.Operation
				}
				all = append(all, h)
			}
		}
		return all
	})
	slices.SortFunc(all, func(a, b Happening) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.Kind, a.Kind), cmp.Compare(b.Partner, a.Partner))
	})
	return all, err
}

// firsts selects the first row of each proven partner in each hour, by a column with a time, from $1 on and before $2:
// its partner, time and columns. It looks into the index by partner, as an expression that no other
// index has, and time, from the last hour of each partner back.
func firsts(table, at, where string, columns ...string) string {
	one := func(column, of, from, before, order string) string {
		return fmt.Sprintf(`(SELECT %s FROM billbridge_%s t WHERE CAST(t.partner || '' AS TEXT) = %s
			AND t.%s >= %s AND t.%[4]s < %[6]s AND %[7]s ORDER BY t.%[4]s %[8]s LIMIT 1)`, column, table, of, at, from, before, where, order)
	}
	hour := fmt.Sprintf("f.at / %d * %[1]d", time.Hour.Milliseconds())
	query := "WITH RECURSIVE found (partner, at) AS (SELECT p.partner, " + one(at, "p.partner", "$1", "$2", "DESC") +
		" FROM billbridge_proven p UNION ALL SELECT f.partner, " + one(at, "f.partner", "$1", hour, "DESC") +
		" FROM found f WHERE f.at > 0) SELECT f.partner"
	for _, column := range append([]string{at}, columns...) {
		if column != "''" {
			column = one(column, "f.partner", hour, "f.at + 1", "ASC")
		}
		query += ", " + column
	}
	return query + fmt.Sprintf(" FROM (SELECT * FROM found WHERE at > 0 LIMIT %d) AS f", happeningsMost)
}
