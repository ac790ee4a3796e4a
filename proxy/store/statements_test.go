package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	sqlite3 "modernc.org/sqlite/lib"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// What one statement may read, however many rows there are: rows and entries of indices in PostgreSQL, steps of its
// machine in SQLite, which takes at least four for a row.
const (
	rowsAtMost  = 3000
	stepsAtMost = 60_000
)

// readsMore are methods whose statements may read so many times more, 0 for all rows, and why.
var readsMore = map[string]struct {
	times int
	why   string
}{
	"Stats":        {7, "it counts twice up to 10,000 callbacks"},
	"Missing":      {4, "it counts up to 10,000 addresses"},
	"Happened":     {5, "it looks for each of 1,000 partners twice, and three times for each of 2,000 happenings"},
	"DueReads":     {2, "it looks three times for each of 1,000 partners"},
	"Decide":       {0, "it marks the first of all callbacks of an order that wait: of a bill these are few"},
	"DecideOne":    {0, "as Decide"},
	"ConfirmClock": {8, "it passes over the entries of the rows that it has just changed"},
	"CheckKey":     {2, "it reads the bills of a key, which has at most 5,000 if it can become one of a partner"},
	"Reconcile":    {0, "it reads the ledger at a start with another upstream: an index would cost each create"},
	"SetBackends":  {0, "it reads the ledger at a start with other backends: an index would cost each create"},
}

// sorted are the methods of lists and of sweeps for which PostgreSQL sorts all rows of a partner or of a state, instead of
// reading the first by an index, as long as it has no statistics at all of their table.
var sorted = strings.Fields("Accept Audit Bills CheckKey Count Missing Page PartnersIn Stats SweepBodies")

// No statement reads more than a few rows, however many rows there are, whatever the planner knows of them: PostgreSQL has
// the statistics of empty tables, and plans once for the given arguments and once for any; SQLite has none.
// With -v the test prints what each statement reads of empty tables and of filled ones.
func TestStatementsReadAFewRows(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]func(*testing.T) (*store.Store, func(int), reader){
		"sqlite": func(t *testing.T) (*store.Store, func(int), reader) {
			s := open(t, "memory:")
			return s, func(int) {}, stepsOf(t, s)
		},
		"postgres": func(t *testing.T) (*store.Store, func(int), reader) {
			url := proxytest.Postgres(t)
			return open(t, url), func(int) {
				for _, table := range growing {
					run(t, raw(t, url), "ALTER TABLE billbridge_"+table+" SET (autovacuum_enabled = false)")
				}
				run(t, raw(t, url), "ANALYZE")
			}, rowsBy(t, raw(t, url))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := map[string]int{"sqlite": stepsAtMost, "postgres": rowsAtMost}[name]
			var read [2]map[[2]string]int
			for i, n := range []int{0, proxytest.Size(30_000, 100_000)} {
				s, age, reads := engine(t)
				template(t, s)
				age(n)
				fill(t, s, n)
				read[i] = readBy(t, s, reads, n > 0)
			}
			keys := slices.SortedFunc(maps.Keys(read[1]), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
			for _, key := range keys {
				line := fmt.Sprintf("%-16s %7d %7d  %s", key[0], read[0][key], read[1][key], key[1])
				more, may := readsMore[key[0]]
				if !may {
					more.times = 1
				}
				if more.times > 0 && read[1][key] > most*more.times && (name == "sqlite" || !slices.Contains(sorted, key[0])) {
					t.Error(line)
				} else {
					t.Log(line)
				}
			}
		})
	}
}

// A reader is what a statement reads.
type reader func(on store.Queries, text string, args []any) (int, error)

// readBy makes calls, and returns what each of their statements reads at most.
func readBy(t *testing.T, s *store.Store, reads reader, filled bool) map[[2]string]int {
	t.Helper()
	read, times, again := map[[2]string]int{}, map[[2]string]int{}, map[string]int{}
	now, cancel, mutex := "", context.CancelFunc(nil), sync.Mutex{}
	s.Before(func(on store.Queries, text string, args []any) {
		mutex.Lock()
		defer mutex.Unlock()
		key := [2]string{now, words(text)}
		if again[text]++; again[text] > 3 && strings.Contains(text, "OFFSET") {
			cancel() // all parts of a walk would take minutes
		}
		if times[key]++; times[key] > 2 { // the first executions show it
			return
		}
		n, err := reads(on, text, args)
		if err != nil {
			t.Errorf("%s: %v: %s", now, err, text)
		}
		read[key] = max(read[key], n)
	})
	for _, c := range callsOf(t, s) {
		var ctx context.Context
		mutex.Lock()
		ctx, cancel = context.WithCancel(t.Context())
		now = c.method
		clear(again)
		mutex.Unlock()
		if err := c.call(ctx); err != nil && !errors.Is(err, context.Canceled) && filled {
			t.Errorf("%s: %v", c.method, err)
		}
		if cancel(); ctx.Err() != nil { // what was cancelled may still run before the next write
			must(t, s.Exec(t.Context(), "UPDATE billbridge_clock SET room = room"))
		}
	}
	return read
}

var space, numbers = regexp.MustCompile(`\s+`), regexp.MustCompile(`\b\d{6,}\b|\b[0-9a-f]{12,64}\b`)

// words are a statement in one line, without what differs between its executions.
func words(text string) string {
	return strings.TrimSpace(numbers.ReplaceAllString(space.ReplaceAllString(text, " "), "…"))
}

// rowsBy counts the rows that PostgreSQL reads, by a plan for the arguments and by one for any. A plan that visits many
// pages for few rows reads entries of an index that it does not count: these are estimated.
func rowsBy(t *testing.T, db *sql.DB) reader {
	t.Helper()
	own, err := db.Conn(t.Context())
	must(t, err)
	return func(on store.Queries, text string, args []any) (most int, err error) {
		if _, pool := on.(*sql.DB); pool {
			return explained(t.Context(), own, text, args)
		}
		return explained(t.Context(), on, text, args)
	}
}

func explained(ctx context.Context, on store.Queries, text string, args []any) (most int, err error) {
	if strings.Contains(text, "LOCK TABLE") || strings.Contains(text, "pg_advisory") {
		return 0, nil
	}
	exec := func(statement string) {
		if err == nil {
			_, err = on.ExecContext(ctx, statement, pgx.QueryExecModeSimpleProtocol)
		}
	}
	if _, within := on.(*sql.Conn); within {
		exec("BEGIN")
		defer on.ExecContext(ctx, "ROLLBACK")
	}
	var places []string
	for i := range args {
		places = append(places, fmt.Sprint("$", i+1))
	}
	given := "(" + strings.Join(places, ", ") + ")"
	if len(args) == 0 {
		given = ""
	}
	exec("SAVEPOINT explained")
	exec("PREPARE explained AS " + text)
	for _, mode := range []string{"custom", "generic"} {
		exec("SET LOCAL plan_cache_mode = force_" + mode + "_plan")
		exec("SAVEPOINT one")
		if err != nil {
			break
		}
		var rows *sql.Rows
		rows, err = on.QueryContext(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE explained"+given,
			append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		if err != nil {
			break
		}
		var plans []struct{ Plan plan }
		for rows.Next() {
			var text []byte
			if err = rows.Scan(&text); err == nil {
				err = json.Unmarshal(text, &plans)
			}
		}
		err = cmp.Or(err, rows.Err(), rows.Close())
		exec("ROLLBACK TO one")
		if err == nil {
			most = max(most, plans[0].Plan.reads(strings.Contains(text, "INSERT") || strings.Contains(text, "UPDATE ") || strings.Contains(text, "DELETE")))
		}
	}
	if err != nil {
		_, _ = on.ExecContext(ctx, "ROLLBACK TO explained")
		if _, missing := on.ExecContext(ctx, "DEALLOCATE explained"); missing != nil {
			_, _ = on.ExecContext(ctx, "ROLLBACK TO explained")
		}
		return 0, err
	}
	exec("ROLLBACK TO explained")
	exec("DEALLOCATE explained")
	return most, err
}

// A plan is a part of what PostgreSQL explains.
type plan struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Hit     int     `json:"Shared Hit Blocks"`
	Read    int     `json:"Shared Read Blocks"`
	Plans   []plan
}

func (p plan) reads(writes bool) int {
	rows, pages := p.rows(), p.Hit+p.Read
	more := 20*rows + 200
	if writes { // it also visits the pages of all indices
		more = 100*rows + 500
	}
	if pages > more {
		rows += 100 * (pages - more)
	}
	return rows
}

func (p plan) rows() (n int) {
	for _, part := range p.Plans {
		n += part.rows()
	}
	if strings.Contains(p.Type, "Scan") {
		n += int(max(p.Rows+p.Removed+p.Recheck, 1) * p.Loops)
	}
	return n
}

// stepsOf counts the steps that SQLite takes, in hundreds.
func stepsOf(t *testing.T, s *store.Store) reader {
	t.Helper()
	const each = 100
	steps := new(int)
	count := func(unsafe.Pointer, uintptr) int32 {
		*steps += each
		return 0
	}
	must(t, s.Writer().Raw(func(conn any) error {
		c := reflect.ValueOf(conn).Elem()
		own := func(name string) reflect.Value {
			f := c.FieldByName(name)
			return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
		}
		reflect.ValueOf(sqlite3.Xsqlite3_progress_handler).Call([]reflect.Value{
			own("tls"), own("db"), reflect.ValueOf(int32(each)), reflect.ValueOf(*(*uintptr)(unsafe.Pointer(&count))), reflect.ValueOf(uintptr(0)),
		})
		return nil
	}))
	t.Cleanup(func() { _ = count })
	return func(on store.Queries, text string, args []any) (int, error) {
		ctx := t.Context()
		if strings.Contains(text, "PRAGMA") {
			return 0, nil
		}
		if _, err := on.ExecContext(ctx, "SAVEPOINT explained"); err != nil {
			return 0, err
		}
		defer func() {
			_, _ = on.ExecContext(ctx, "ROLLBACK TO explained")
			_, _ = on.ExecContext(ctx, "RELEASE explained")
		}()
		*steps = 0
		rows, err := on.QueryContext(ctx, text, args...)
		if err != nil {
			return 0, err
		}
		for rows.Next() {
		}
		return *steps, errors.Join(rows.Err(), rows.Close())
	}
}

// growing are the tables that grow with time.
var growing = []string{"callbacks", "attempts", "addresses", "bills", "audit", "counts", "seen", "proven", "stages", "wave_partners"}

// partners are those of the tables with a row for each partner.
const partners = 1000

// template makes a row of each table that fill copies.
func template(t *testing.T, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	must(t, s.Prove(ctx, partnerOne))
	must(t, s.Seen(ctx, partnerOne, noon))
	accept(t, s, callback("cb_0", "b0"))
	for _, c := range claim(t, s, noon) {
		finish(t, s, c, noon, store.Waiting)
	}
	bind(t, s, address("a0", "b0"))
	must(t, proxytest.On(s).NoAnswer(ctx, partnerOne, "b0", ledger.Call{
		Operation: "bill.create", Upstream: "old", Request: "call", At: noon, Member: "member", Merchant: "shop",
	}, ledger.Reading{Finding: "not asked"}, noon))
	must(t, proxytest.On(s).MarkDoubled(ctx, partnerOne, "b0", "bill.read", "call", noon))
	must(t, s.Change(ctx, store.Change{Action: store.SignedIn, By: "anna", At: noon.Add(-365 * 24 * time.Hour)}))
	must(t, s.Change(ctx, store.Change{Action: store.Staged, Partner: partnerOne, To: "old", By: "anna", At: noon.Add(-365 * 24 * time.Hour)}))
	works(t)(s.AddCounts(ctx, "v1", []store.Counts{{Partner: partnerOne, Operation: "bill.create", Data: []byte("{}")}}, noon, nil))
	must(t, s.CreateWave(ctx, store.Wave{Name: "autumn", Plan: "{}", By: "anna", Since: noon, Created: noon}, []store.WavePartner{{Partner: partnerOne}}))
}

// fill copies the rows of template to n rows of each table, half of them of the first partner. Of each kind that a
// statement may look for there are many.
func fill(t *testing.T, s *store.Store, n int) {
	t.Helper()
	if n == 0 {
		return
	}
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
		{"callbacks", n, map[string]string{
			"id": "CASE WHEN i % 7 = 0 THEN 'cb_read_' ELSE 'cb_' END || i", "address": "CASE WHEN i % 5 = 0 THEN '' ELSE 'a' || i END",
			"upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END", "bill": "CASE WHEN i % 5 = 0 THEN '' ELSE 'b' || i END",
			"host": "'h' || i % 50", "ordering": "CASE WHEN i % 5 = 0 THEN 'events' ELSE 'new/b' || i END", "first": "CASE WHEN i % 6 < 2 THEN 1 ELSE 0 END",
			"received": at("i"), "next": at("i"), "due": at("i") + " + i % 2 * 400000000", "last_at": at("i"), "lease": "''",
			"state": "CASE i % 6 WHEN 0 THEN 'waiting' WHEN 1 THEN 'waiting' WHEN 2 THEN 'failed' WHEN 3 THEN 'delivered' WHEN 4 THEN 'superseded' ELSE 'dropped' END",
			"done":  "CASE WHEN i % 6 > 2 THEN " + at("i") + " END", "says": "CASE WHEN i % 3 = 0 THEN 'cancelled' ELSE 'paid' END",
		}},
		{"attempts", n, map[string]string{"callback": "i + 1"}},
		{"addresses", n, map[string]string{
			"id": "'a' || i", "upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END", "bill": "'b' || i", "created": at("i"),
			"until": "CASE WHEN i % 3 = 0 THEN " + at("i") + " END", "ends": at("i"), "look": at("i"), "missing": at("i"),
		}},
		{"bills", n, map[string]string{
			"bill": "'b' || i", "version": "i", "upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END",
			"state": "CASE i % 4 WHEN 0 THEN 'released' WHEN 1 THEN 'pending' ELSE 'owned' END",
			"ends":  at("i"), "estimated": "i / 2 % 2", "denied": fmt.Sprint("CASE WHEN i % 3 = 0 THEN ", noon.UnixMilli(), " END"), "due": at("i"),
			"unknown": at("i"), "resolved": at("i"), "doubled": "CASE WHEN i % 3 = 1 THEN " + at("i") + " END",
		}},
		{"audit", n, map[string]string{
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
