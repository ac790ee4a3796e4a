package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A statementCalls makes the calls of testdata/statements.txt.
type statementCalls struct {
	*calls
	lines [2][]string // those of each test
}

func newStatementCalls(t *testing.T, s *store.Store) statementCalls {
	later := noon.Add(time.Hour)
	c := statementCalls{calls: newCalls(t, "", s)}
	maps.Copy(c.funcs, map[string]any{
		"finishAll": func(at time.Time) {
			for _, one := range claim(t, s, at) {
				finish(t, s, one, at, store.Waiting)
			}
		},
		"acceptShowing": func(ctx context.Context) (store.Accepted, error) {
			shows := callback("shows", "b1004")
			shows.Says, shows.Merchant = "paid", "shop"
			return s.Accept(ctx, shows, time.Hour, ledger.Event{
				Call: ledger.Call{At: noon, Upstream: "new", Merchant: "shop"}, What: ledger.Told{Shows: ledger.Shows{Means: "paid"}},
			})
		},
		"Finish": func(ctx context.Context) (err error) {
			var claimed []store.Claimed
			for _, v := range c.returned {
				if one, is := v.Interface().(store.Claimed); is {
					claimed = append(claimed, one)
				}
			}
			for i, one := range claimed[:min(3, len(claimed))] {
				_, failed := s.Finish(ctx, one, store.Result{
					At: later, Status: 500, State: []store.State{store.Waiting, store.Delivered, store.Dead}[i], Next: later.Add(time.Minute),
				})
				err = errors.Join(err, failed)
			}
			return err
		},
		"Begin": func(ctx context.Context) (ledger.Bill, string, error) {
			return s.Begin(ctx, ledger.Bill{Partner: partnerOne, ID: "begun"}, address("000000000001", "begun"), ledger.Event{
				Call: ledger.Call{At: later, Upstream: "new"}, What: ledger.CreateBegun{Token: "token"},
			})
		},
		"StepWave": func(ctx context.Context, wave string, of partner.ID) (int64, error) {
			revision, err := s.Revision(ctx)
			must(t, err)
			return s.StepWave(ctx, store.WaveStep{
				Wave: wave, Revision: revision, Forward: true, Stepped: later,
				Stage: store.Stage{Partner: of, Stage: "canary", By: "wave " + wave, At: later},
			})
		},
		"DecideOne": func(ctx context.Context, d store.Decision) error {
			p, err := s.Page(ctx, store.Filter{State: store.Dead, Limit: 1})
			for _, one := range p.Callbacks {
				err = s.DecideOne(ctx, d, one.ID, "anna", later)
			}
			return err
		},
	})
	n := -1
	for line := range strings.Lines(string(proxytest.ReadFile(t, "testdata/statements.txt"))) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "=="):
			n++
		case line != "" && line[0] != '#':
			c.lines[n] = append(c.lines[n], expanded(line)...)
		}
	}
	ctx := reflect.TypeFor[context.Context]()
	for m := range reflect.TypeOf(s).Methods() {
		called := slices.ContainsFunc(slices.Concat(c.lines[:]...), func(line string) bool { return methodOf(line) == m.Name })
		if m.Type.NumIn() > 1 && m.Type.In(1) == ctx && !called && !strings.Contains(notCalled, " "+m.Name+" ") {
			t.Errorf("there is no call of %s", m.Name)
		}
	}
	return c
}

// expanded are the calls that a line with ((a|b)) stands for.
func expanded(line string) (all []string) {
	before, rest, some := strings.Cut(line, "((")
	if !some {
		return []string{line}
	}
	among, after, _ := strings.Cut(rest, "))")
	for one := range strings.SplitSeq(among, "|") {
		all = append(all, expanded(before+one+after)...)
	}
	return all
}

func methodOf(line string) string { return strings.Fields(strings.TrimPrefix(line, "? "))[0] }

// template makes a row of each table that fill copies.
func template(t *testing.T, s *store.Store) {
	t.Helper()
	c := newStatementCalls(t, s)
	c.run(t, c.lines[0], func(string) context.Context { return t.Context() })
}

// run makes calls, each with its context, and returns what it shows.
func (c statementCalls) run(t *testing.T, lines []string, with func(method string) context.Context) {
	t.Helper()
	for _, line := range lines {
		c.ctx = with(methodOf(line))
		line, may := strings.CutPrefix(line, "? ")
		for _, shown := range c.call(line) {
			if strings.HasPrefix(shown, "error: ") && !may && c.ctx.Err() == nil {
				t.Errorf("%s: %s", line, shown)
			}
		}
	}
}

// notCalled are methods for tests, those that other lines call, one that reads no table, and those of looks, which may
// sort the looks of a partner.
const notCalled = " Ask AskBatches Clear Exec PageWithin Lossy EndLook Told Apply MoveEnd "

// growing are the tables that grow with time.
var growing = []string{"callbacks", "attempts", "addresses", "bills", "audit", "counts", "seen", "proven", "stages", "wave_partners"}

// partners are those of the tables with a row for each partner.
const partners = 1000

// fill copies the rows of template to size rows of each table, half of them of the first partner. Of each kind that a
// statement may look for there are many.
func fill(t *testing.T, s *store.Store) {
	t.Helper()
	var ids []string
	for i := range partners {
		ids = append(ids, "('"+string(partner.Of(fmt.Sprint("partner ", i)))+"')")
	}
	must(t, s.Exec(t.Context(), "INSERT INTO billbridge_proven VALUES "+strings.Join(ids, ", ")))
	at := func(i string) string { return fmt.Sprintf("%d - %s * 1000", noon.UnixMilli(), i) }
	for _, table := range []struct {
		name string
		rows int
		with map[string]string // what columns have in place of the template
	}{
		{"callbacks", size, map[string]string{
			"id": "CASE WHEN i % 7 = 0 THEN 'cb_read_' ELSE 'cb_' END || i", "address": "CASE WHEN i % 5 = 0 THEN '' ELSE 'a' || i END",
			"upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END", "bill": "CASE WHEN i % 5 = 0 THEN '' ELSE 'b' || i END",
			"host": "'h' || i % 50", "ordering": "CASE WHEN i % 5 = 0 THEN 'registration' ELSE 'new/b' || i END", "first": "CASE WHEN i % 6 < 2 THEN 1 ELSE 0 END",
			"received": at("i"), "next": at("i"), "due": at("i") + " + i % 2 * 400000000", "last_at": at("i"), "lease": "''",
			"state":  "CASE i % 6 WHEN 0 THEN 'waiting' WHEN 1 THEN 'waiting' WHEN 2 THEN 'failed' WHEN 3 THEN 'delivered' WHEN 4 THEN 'superseded' ELSE 'dropped' END",
			"done":   "CASE WHEN i % 6 > 2 THEN " + at("i") + " END",
			"erased": "CASE WHEN i % 6 > 2 AND i > 999 THEN " + at("i") + " END",
			"says":   "CASE WHEN i % 3 = 0 THEN 'cancelled' ELSE 'paid' END",
		}},
		{"attempts", size, map[string]string{"callback": "i + 1"}},
		{"addresses", size, map[string]string{
			"id": "'a' || i", "upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END", "bill": "'b' || i", "created": at("i"),
			"until": "CASE WHEN i % 3 = 0 THEN " + at("i") + " END", "ends": at("i"), "look": at("i"), "missing": at("i"),
		}},
		{"bills", size, map[string]string{
			"bill": "'b' || i", "version": "i", "upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END",
			"state": "CASE i % 4 WHEN 0 THEN 'released' WHEN 1 THEN 'pending' ELSE 'owned' END",
			"ends":  at("i"), "estimated": "i / 2 % 2", "denied": fmt.Sprint("CASE WHEN i % 3 = 0 THEN ", noon.UnixMilli(), " END"), "due": at("i"),
			"unknown": at("i"), "resolved": at("i"), "doubled": "CASE WHEN i % 3 = 1 THEN " + at("i") + " END",
		}},
		{"audit", size, map[string]string{
			"revision": at("i"), "done_at": at("i"), "done_by": "'b' || i % 5",
			"action": "CASE i % 3 WHEN 0 THEN 'sign_in' WHEN 1 THEN 'stage' ELSE 'replay' END",
		}},
		{"seen", partners, map[string]string{"partner": "p.partner"}},
		{"stages", partners, map[string]string{"partner": "p.partner"}},
		{"counts", partners, map[string]string{"partner": "p.partner", "marked": "1"}},
		{"wave_partners", partners, map[string]string{"partner": "p.partner", "place": "i"}},
	} {
		var columns, values []string
		for _, column := range s.Columns(t, "billbridge_"+table.name) {
			if column == "seq" {
				continue
			}
			columns = append(columns, column)
			value := cmp.Or(table.with[column], "row."+column)
			if column == "partner" && table.with[column] == "" {
				value = "CASE WHEN i % 2 = 0 THEN row.partner ELSE p.partner END"
			}
			values = append(values, value)
		}
		must(t, s.Exec(t.Context(), fmt.Sprintf(`
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),
				p AS (SELECT partner, row_number() OVER (ORDER BY partner) AS k FROM billbridge_proven WHERE partner <> '%s')
			INSERT INTO billbridge_%s (%s) SELECT %s FROM n JOIN p ON p.k = 1 + i %% %d CROSS JOIN
				(SELECT * FROM billbridge_%[3]s LIMIT 1) AS row`,
			table.rows, partnerOne, table.name, strings.Join(columns, ", "), strings.Join(values, ", "), partners)))
	}
}
