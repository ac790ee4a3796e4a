package proxy_test

import (
	"database/sql"
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
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	do("PRAGMA busy_timeout = 5000")
	theirs := "https://partner.example.com/" + strings.Repeat("a", 500)
	q := v2("create").with("callbackUrl", theirs)
	kept, spoilt := 0, 0
	r.waitFor("rows of disconnected callers", func() bool {
		do("BEGIN IMMEDIATE") // the store waits until COMMIT
		refused := func() int { return strings.Count(r.logs.String(), `"reason":"store`) }
		before := refused()
		r.waitFor("caller that disconnected while its address waited for the store", func() bool {
			leave, ended := r.sendAndLeave(q)
			stop := time.AfterFunc(20*time.Millisecond, leave)
			<-ended
			stop.Stop()
			return refused() > before
		})
		var others sync.WaitGroup
		for range 64 {
			others.Go(func() {
				r.post(q.path(), strings.Repeat("z", len(q.body()))).is(t, 400)
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
	equal(t, spoilt, 0, "of", kept, "rows have bytes of other calls")
}
