package console

import (
	"database/sql"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

var largeStore = flag.Int("callbacks", 20_000, "how many callbacks the store of TestPagesOfALargeStore has")

// fillStore adds rows without the gateway, which would take minutes. A thousandth of them is dead or waiting. One partner has most of
// them, and one has few.
const fillStore = `
	INSERT INTO billbridge_callbacks (seq, id, address, upstream, partner, bill, form, url, host, ordering, digest, content_type, received, state,
		attempts, next, due, lease, last_at, last_status, last_outcome, done, body) %s
	SELECT n, 'cb_' || n, 'a', CASE WHEN n %% 100 = 7 THEN 'new' ELSE 'old' END,
		CASE WHEN n %% 10000 = 3 THEN '%s' WHEN n %% 10 < 7 THEN '%s' ELSE '%s' END, 'B' || n, 'v2', 'http://127.0.0.1:1/paid', 'h', 'o' || n, %s, 'application/json',
		%d + n, CASE WHEN n %% 4000 = 5 THEN 'dead' WHEN n %% 4000 = 6 THEN 'dropped' WHEN n %% 2000 = 9 THEN 'waiting' ELSE 'delivered' END,
		1, 0, 0, '', %d, 200, 'delivered', CASE WHEN n %% 4000 = 5 OR n %% 2000 = 9 THEN NULL ELSE %d END, %s
	FROM %s`

func addCallbacks(t *testing.T, address string, n int, now time.Time) {
	t.Helper()
	first := now.UnixMilli() - int64(n)
	one, most, rest := partner.Of("one"), partner.Of("two"), partner.Of("three")
	driver, name, statements := "pgx", address, []string{fmt.Sprintf(fillStore, "OVERRIDING SYSTEM VALUE", one, most, rest, `decode(repeat('00', 32), 'hex')`, first, first, first,
		`decode(repeat('00', 1000), 'hex')`, fmt.Sprintf("generate_series(1, %d) AS series(n)", n)), "ANALYZE billbridge_callbacks"}
	if file, isFile := strings.CutPrefix(address, "sqlite:"); isFile {
		driver, name, statements = "sqlite", file, []string{"PRAGMA synchronous = OFF", strings.Replace(fmt.Sprintf(fillStore, "", one, most, rest, `zeroblob(32)`, first, first, first,
			`zeroblob(1000)`, "series"), "\n\tINSERT", fmt.Sprintf("WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %d) INSERT", n), 1)}
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

// Each page of callbacks and bills reads a bounded number of rows. With -callbacks 1000000 -v the log shows the time of each.
func TestPagesOfALargeStore(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, address string) {
		proxytest.Open(t, address)
		addCallbacks(t, address, *largeStore, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
		pages := newStored(t, address, nil)
		newest := func(each, rest int) string { return fmt.Sprint("/deliveries/cb_", (*largeStore-rest)/each*each+rest) }
		names := url.Values{"one": {partner.Of("one").Short()}, "most": {partner.Of("two").Short()}}
		for _, row := range []struct{ target, shows string }{
			{"/deliveries", "cb_" + fmt.Sprint(*largeStore)},
			{"/deliveries?state=dead", "/deliveries/all/replay"},
			{"/deliveries?state=waiting", newest(2000, 9)},
			{"/deliveries?state=dropped", newest(4000, 6)},
			{"/deliveries?state=delivered", "Older callbacks"},
			{"/deliveries?upstream=new", "Older callbacks"},
			{"/deliveries?upstream=new&state=waiting", ""},
			{"/deliveries?partner=" + names.Get("one"), "cb_10003"},
			{"/deliveries?partner=" + names.Get("most"), "Older callbacks"},
			{"/deliveries?state=dead&partner=" + names.Get("most"), "/deliveries/all/replay"},
			{"/deliveries?state=waiting&partner=" + names.Get("most"), ""},
			{"/deliveries?bill=B5", `/deliveries/cb_5"`},
			{"/deliveries?bill=none", "No callback matches."},
			{"/deliveries?bill=B5&partner=" + names.Get("most"), `/deliveries/cb_5"`},
			{"/deliveries?age=1h", "Older callbacks"},
			{"/deliveries?age=-168h", "No callback matches."},
			{"/deliveries?after=5000", `/deliveries/cb_4999"`},
			{"/deliveries/cb_5", "Replay"},
			{"/deliveries/all/replay?state=dead", "failed callbacks will be"},
			{"/deliveries/all/drop?state=dead&upstream=new", "Nothing would change"},
			{"/bills", "There is none."},
			{"/bills?bill=B5", `/deliveries/cb_5"`},
			{"/config", "Hana Clinic"},
		} {
			timePage(t, pages, row.target, row.shows)
		}
	})
}

// timePage opens a page three times, and logs the time of each. It must have a text.
func timePage(t *testing.T, pages http.Handler, target, shows string) {
	t.Helper()
	var took [3]time.Duration
	for i := range took {
		begin := time.Now()
		status, body := get(t, pages, target, "")
		took[i] = time.Since(begin)
		if status != http.StatusOK || !strings.Contains(body, shows) {
			t.Errorf("%s: %d, want %q in\n%s", target, status, shows, body)
		}
	}
	t.Logf("%-60s first %8.1f ms, then %8.1f %8.1f ms", target, took[0].Seconds()*1e3, took[1].Seconds()*1e3, took[2].Seconds()*1e3)
}
