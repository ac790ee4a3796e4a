package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
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

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// What one statement may read, however many rows there are: rows and entries of indices in PostgreSQL, steps of its
// machine in SQLite, which takes at least four for a row.
const (
	rowsAtMost  = 3000
	stepsAtMost = 60_000
)

// size is how many rows the tables have.
var size = proxytest.Size(30_000, 100_000)

// readsMore are methods whose statements may read so many times more, 0 for all rows, and why.
var readsMore = map[string]struct {
	times int
	why   string
}{
	"Stats":        {7, "it counts twice up to 10,000 callbacks"},
	"Missing":      {4, "it counts up to 10,000 addresses"},
	"DueReads":     {2, "it looks three times for each of 1,000 partners"},
	"Decide":       {0, "it marks the first of all callbacks of an order that wait: of a bill these are few"},
	"DecideOne":    {0, "as Decide"},
	"ConfirmClock": {8, "it passes over the entries of the rows that it has just changed"},
	"CheckKey":     {2, "it reads the bills of a key, which has at most 5,000 if it can become one of a partner"},
	"Reconcile":    {0, "it reads the ledger at a start with another upstream: an index would cost each create"},
	"Reconcilable": {0, "as Reconcile"},
	"SetBackends":  {0, "it reads the ledger at a start with other backends: an index would cost each create"},
}

// beliefs make what PostgreSQL believes of tables that were filled after they had statistics of one row, by name.
var beliefs = map[string][]string{
	// All pages have two rows, as ANALYZE says after most were removed, or while others are being inserted. Of one row
	// PostgreSQL expects that each index has it in one page.
	"few": {"UPDATE pg_class SET reltuples = 2, relpages = pg_relation_size(oid) / 8192 WHERE " + ours},
	// As after a restore: any value is in one of 200 rows.
	"none": {
		"UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE " + ours,
		"DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE " + ours + ")",
	},
	"true": {"ANALYZE"},
}

const ours = "relkind IN ('r', 'i') AND relname LIKE 'billbridge%'"

// No statement reads more than a few rows, however many rows there are, whatever the planner of PostgreSQL believes: it
// plans once for the given arguments and once for any. SQLite has no statistics. With -v the test prints what each
// statement reads.
func TestStatementsReadAFewRows(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := open(t, "memory:")
		template(t, s)
		fill(t, s)
		readAtMost(t, stepsAtMost, readBy(t, s, stepsOf(t, s)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := proxytest.Postgres(t)
		filled := fmt.Sprint("filled_", time.Now().UnixNano())
		address := newDatabase(t, server, filled, "template0")
		s, err := store.Open(t.Context(), address)
		must(t, err)
		template(t, s)
		db := raw(t, address)
		for _, table := range growing {
			run(t, db, "ALTER TABLE billbridge_"+table+" SET (autovacuum_enabled = false)")
		}
		run(t, db, "ANALYZE")
		fill(t, s)
		must(t, errors.Join(s.Close(), db.Close()))
		for belief, believe := range beliefs {
			address := newDatabase(t, server, filled+belief, filled)
			run(t, raw(t, address), believe...)
			s := open(t, address)
			t.Run(belief, func(t *testing.T) { readAtMost(t, rowsAtMost, readBy(t, s, rowsRead)) })
		}
	})
}

// newDatabase makes a database beside that of a URL, as a copy of another one, and returns its URL.
func newDatabase(t *testing.T, beside, name, from string) string {
	t.Helper()
	run(t, raw(t, beside), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, from))
	address, err := url.Parse(beside)
	must(t, err)
	address.Path = "/" + name
	settings := address.Query()
	settings.Del("search_path")
	address.RawQuery = settings.Encode()
	return address.String()
}

// readAtMost compares what each statement reads.
func readAtMost(t *testing.T, most int, read map[[2]string]int) {
	t.Helper()
	for _, key := range slices.SortedFunc(maps.Keys(read), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		more, may := readsMore[key[0]]
		if !may {
			more.times = 1
		}
		line := fmt.Sprintf("%-16s %7d  %s", key[0], read[key], key[1])
		if more.times > 0 && read[key] > most*more.times {
			t.Error(line)
		} else {
			t.Log(line)
		}
	}
}

// A reader is what a statement reads.
type reader func(on store.Queries, text string, args []any) (int, error)

// readBy makes calls, and returns what each of their statements reads at most.
func readBy(t *testing.T, s *store.Store, reads reader) map[[2]string]int {
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
	settle := func() {
		if cancel != nil {
			cancel() // what was cancelled may still run before the next write
			must(t, s.Exec(t.Context(), "UPDATE billbridge_clock SET room = room"))
		}
	}
	calls := newStatementCalls(t, s)
	calls.run(t, calls.lines[1], func(method string) (ctx context.Context) {
		settle()
		mutex.Lock()
		defer mutex.Unlock()
		ctx, cancel = context.WithCancel(t.Context())
		now = method
		clear(again)
		return ctx
	})
	settle()
	return read
}

var space, numbers = regexp.MustCompile(`\s+`), regexp.MustCompile(`\b\d{6,}\b|\b[0-9a-f]{12,64}\b`)

// words are a statement in one line, without what differs between its executions.
func words(text string) string {
	return strings.TrimSpace(numbers.ReplaceAllString(space.ReplaceAllString(text, " "), "…"))
}

// rowsRead counts the rows that PostgreSQL reads, by a plan for the arguments and by one for any. A plan that visits many
// pages for few rows reads entries of an index that it does not count: these are estimated.
func rowsRead(on store.Queries, text string, args []any) (most int, err error) {
	ctx := context.Background()
	if pool, is := on.(*sql.DB); is {
		own, err := pool.Conn(ctx)
		if err != nil {
			return 0, err
		}
		defer own.Close()
		on = own
	}
	return explained(ctx, on, text, args)
}

func explained(ctx context.Context, on store.Queries, text string, args []any) (most int, err error) {
	if strings.Contains(text, "LOCK TABLE") || strings.Contains(text, "pg_advisory") {
		return 0, nil
	}
	exec := func(statements string) {
		if err == nil {
			_, err = on.ExecContext(ctx, statements, pgx.QueryExecModeSimpleProtocol)
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
	exec("SAVEPOINT explained; PREPARE explained AS " + text)
	for _, mode := range []string{"custom", "generic"} {
		exec("SAVEPOINT one; SET LOCAL plan_cache_mode = force_" + mode + "_plan")
		if err != nil {
			break
		}
		var rows *sql.Rows
		rows, err = on.QueryContext(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE explained"+given,
			append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		if err != nil {
			break
		}
		var plans []struct {
			Plan plan
			JIT  *struct{}
		}
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
			if plans[0].JIT != nil {
				err = errors.New("it is compiled, which takes longer than it")
			}
		}
	}
	if err != nil {
		_, _ = on.ExecContext(ctx, "ROLLBACK TO explained")
		if _, missing := on.ExecContext(ctx, "DEALLOCATE explained"); missing != nil {
			_, _ = on.ExecContext(ctx, "ROLLBACK TO explained")
		}
		return 0, err
	}
	exec("ROLLBACK TO explained; DEALLOCATE explained")
	return most, err
}

// A plan is a part of what PostgreSQL explains.
type plan struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
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
	if p.Type == "Seq Scan" && slices.Contains(growing[:5], strings.TrimPrefix(p.Table, "billbridge_")) {
		n += size // whatever it read here, it reads all if the last is the first that it looks for
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
