package console

import (
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
)

var (
	largePartners = flag.Int("partners", 300, "how many partners the store of TestPagesOfManyPartners has")
	largeBills    = flag.Int("bills", 3000, "how many bills the store of TestPagesOfManyPartners has")
)

// manyPartners adds partners in all stages with their counts, and bills, without the gateway. A thousandth of the partners sends calls that
// the old backend cannot carry, and of 100 bills the create was interrupted.
func manyPartners(t *testing.T, address string, now time.Time) (first, last string) {
	t.Helper()
	hash := func(n int) string { return fmt.Sprintf("%012x%052d", 0xabcdef000000+n, 0) }
	db, numbers, hashOf, text := openRaw(t, address)
	table := proxytest.Config(t, storedConfig).Table
	run := func(format string, args ...any) {
		t.Helper()
		if _, err := db.Exec(fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	at := now.Add(-time.Hour).UnixMilli()
	run("INSERT INTO billbridge_seen (partner, seen) %s", numbers(*largePartners, hashOf("n")+fmt.Sprintf(", %d", at-1e9)))
	run(`INSERT INTO billbridge_stages (partner, stage, percent, set_by, set_at, forced) %s`, numbers(*largePartners,
		hashOf("n")+`, CASE n % 5 WHEN 0 THEN 'old' WHEN 1 THEN 'shadow' WHEN 2 THEN 'canary' WHEN 3 THEN 'new' ELSE 'drained' END, CASE n % 5 WHEN 2 THEN 10 ELSE 0 END, 'anna', `+fmt.Sprint(at)+", 0"))
	codes := map[string]int{"0000": 9000, "9980": 40, "BILL_001": 12, "ERROR": 3, "none": 1}
	for _, operation := range []string{"bill.create", "bill.read", "bill.cancel", "bill.destroy", "bill.resend"} {
		count := evidence.Count{Partner: "PARTNER", Operation: operation, Since: now.Add(-100 * time.Hour), Creates: operation == "bill.create", Compared: 500, Fields: map[string]evidence.Field{}}
		for backend := range count.Backends {
			count.Backends[backend] = evidence.Calls{Number: 9056, Codes: maps.Clone(codes)}
		}
		plain, err := json.Marshal(count)
		if err != nil {
			t.Fatal(err)
		}
		count.Backends[evidence.Old].Unsupported = map[string]evidence.Unsupported{"VALIDATION_001 bill.tax": {Count: 3, Last: now.Add(-time.Hour)}}
		lacking, err := json.Marshal(count)
		if err != nil {
			t.Fatal(err)
		}
		run("INSERT INTO billbridge_counts (version, partner, operation, data, added, marked) %s", numbers(*largePartners,
			fmt.Sprintf("'%s', %s, '%s', %s, %d", table.Operation(operation).Version(), hashOf("n"), operation, text(fmt.Sprintf("replace(CASE WHEN n %% 1000 = 3 THEN '%s' ELSE '%s' END, 'PARTNER', %s)", lacking, plain, hashOf("n"))), at)+", CASE WHEN n % 1000 = 3 THEN 1 ELSE 0 END"))
	}
	run("INSERT INTO billbridge_owners (partner, bill, upstream, state, creates, uncertain, changed, tried, ends, estimated) %s", numbers(*largeBills,
		hashOf(fmt.Sprintf("1 + n %% %d", *largePartners))+fmt.Sprintf(`, 'B' || n, CASE n %% 2 WHEN 0 THEN 'old' ELSE 'new' END, CASE WHEN n <= 100 THEN 'pending' ELSE 'owned' END,
			CASE WHEN n <= 100 THEN 'abcdefghijklmnop ' ELSE '' END, 0, %d, %d, %d, 0`, at, at, now.Add(time.Hour).UnixMilli())))
	run("ANALYZE")
	return hash(1), hash(*largePartners)
}

// openRaw opens a store without package store. numbers selects the terms for each number n up to a limit, hashOf is the term for a hash of
// a partner, and text the term for a text as bytes.
func openRaw(t *testing.T, address string) (db *sql.DB, numbers func(n int, terms string) string, hashOf, text func(term string) string) {
	t.Helper()
	driver, name := "pgx", address
	numbers = func(n int, terms string) string {
		return fmt.Sprintf("SELECT %s FROM generate_series(1, %d) AS series(n)", terms, n)
	}
	hashOf = func(term string) string { return "rpad(to_hex(188900966400000 + " + term + "), 64, '0')" }
	text = func(term string) string { return "convert_to(" + term + ", 'UTF8')" }
	if file, isFile := strings.CutPrefix(address, "sqlite:"); isFile {
		driver, name = "sqlite", file
		numbers = func(n int, terms string) string {
			return fmt.Sprintf("WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %d) SELECT %s FROM series", n, terms)
		}
		hashOf = func(term string) string { return "printf('%012x%052d', 188900966400000 + " + term + ", 0)" }
		text = func(term string) string { return "CAST(" + term + " AS BLOB)" }
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if driver == "sqlite" {
		if _, err := db.Exec("PRAGMA synchronous = OFF"); err != nil {
			t.Fatal(err)
		}
	}
	return db, numbers, hashOf, text
}

// Each page of partners and bills reads what it needs. With -partners 10000 -bills 1000000 -v the log shows the time of each.
func TestPagesOfManyPartners(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, address string) {
		proxytest.Open(t, address)
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		first, last := manyPartners(t, address, now)
		pages := newStored(t, address, nil)
		for _, row := range []struct{ target, shows string }{
			{"/", "Needs a person"},
			{"/partners", first[:12]},
			{"/partners?stage=new", "90,560 calls"},
			{"/partners/" + last, last[:12]},
			{"/partners/" + last + "/next", ""},
			{"/partners/stop", "cannot carry bill.create: VALIDATION_001 bill.tax"},
			{"/bills", "B100"},
			{"/bills?bill=B5", "B5"},
			{"/bills?partner=" + last, ""},
		} {
			timePage(t, pages, row.target, row.shows)
		}
	})
}
