package proxy_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// When a caller disconnects, the store may still write its callback address. By then another call may use the same
// buffer; its bytes must not get into the row.
func TestStoredCallbackAddressIsNotOverwritten(t *testing.T) {
	t.Parallel()
	r := newCallbackGateway(t, "v2")
	db, err := sql.Open("sqlite", r.file)
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1) // BEGIN and COMMIT must use the same connection
	do := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do("PRAGMA busy_timeout = 5000")
	theirs := "https://partner.example.com/" + strings.Repeat("a", 500)
	q := v2("create").with("callbackUrl", theirs)
	kept, spoilt := 0, 0
	r.waitFor("rows of disconnected callers", func() bool {
		do("BEGIN IMMEDIATE") // the store waits until COMMIT
		before := strings.Count(r.logs.String(), `"reason":"store`)
		r.waitFor("caller that disconnected while its address waited for the store", func() bool {
			ctx, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+q.path(), strings.NewReader(q.body()))
			must(t, err)
			req.Header.Set("Content-Type", "application/json")
			if res, err := r.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
			return strings.Count(r.logs.String(), `"reason":"store`) > before
		})
		var others sync.WaitGroup
		for range 64 {
			others.Go(func() {
				got := r.post(q.path(), strings.Repeat("z", len(q.body())))
				equal(t, got.status, 400, err)
			})
		}
		others.Wait()
		do("COMMIT")
		r.waitFor("ready store", func() bool { // it writes after all waiting writers
			return r.admin("GET", "/-/ready").status == 200
		})
		must(t, db.QueryRowContext(t.Context(), "SELECT count(*), count(*) FILTER (WHERE url <> $1 OR bill <> $2) FROM billbridge_addresses",
			theirs, demoBill).Scan(&kept, &spoilt))
		return kept >= 10 // the store skips calls that it has not started, and not every buffer is used again
	})
	if spoilt > 0 {
		t.Errorf("%d of %d rows have bytes of other calls", spoilt, kept)
	}
}
