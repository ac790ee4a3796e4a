package proxy_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// A kept is a gateway with a rollout and callbacks, and its database.
type kept struct {
	*process
	store   string // its URL
	db      *sql.DB
	service *sandbox.Service
}

// newKept has the given backend; nil is a sandbox.
func newKept(t *testing.T, url string, back http.Handler) *kept {
	t.Helper()
	k := &kept{store: url, service: newService()}
	if back == nil {
		back = k.service
	}
	upstream := httptest.NewServer(back) // not a backend, which would keep all calls in memory
	t.Cleanup(upstream.Close)
	proxytest.BeginRollout(t, url)
	driver, source := "pgx", url
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)"
	}
	var err error
	if k.db, err = sql.Open(driver, source); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.db.Close() })
	k.process = newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: v2, url: %q}
  new: {form: v2, url: "http://127.0.0.2:9"}
route: {default: old}
rollout: {old: old, new: new}
store: {url: %q}
limits: {address_connections: 10000, trusted_proxies: [127.0.0.1]}
callbacks: {public_url: https://bridge.example.com}
`, upstream.URL, url))
	return k
}

// rows are the numbers of rows of the tables that calls add to.
func (k *kept) rows() map[string]int {
	k.t.Helper()
	all := map[string]int{}
	for _, table := range []string{"addresses", "owners", "unknown", "callbacks", "seen", "proven", "counts"} {
		var n int
		must(k.t, k.db.QueryRow("SELECT count(*) FROM billbridge_"+table).Scan(&n))
		all[table] = n
	}
	return all
}

// size is that of the SQLite file, with all of its log in it; 0 for PostgreSQL, which frees space in its own time.
func (k *kept) size() int64 {
	k.t.Helper()
	file, ok := strings.CutPrefix(k.store, "sqlite:")
	if !ok {
		return 0
	}
	must(k.t, k.db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(new(int), new(int), new(int)))
	info, err := os.Stat(file)
	must(k.t, err)
	return info.Size()
}

// flood makes n calls, many at a time, half of them creates and half registrations. It returns how many had which
// code.
func (k *kept) flood(n int, key func(i int) string) (codes map[string]int) {
	k.t.Helper()
	codes = map[string]int{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	for worker := range 32 {
		callers.Go(func() {
			for i := worker; i < n; i += 32 {
				path, body := "/auth/mapping", fmt.Sprintf(`{"apiKey":%q,"memberId":"academy","merchantId":"m%d","businessNumber":"1234567890","callbackUrl":"https://partner.example.com/%d","redirectUrl":"https://partner.example.com/back"}`, key(i), i, i)
				if i%2 == 0 {
					q := v2("create").with("apiKey", key(i)).with("billId", fmt.Sprintf("FLOOD%015d", i)).with("expireDt", "9999-12-31")
					path, body = q.path(), q.body()
				}
				got, err := doRequest(k.client, http.MethodPost, k.url+path, body)
				if err != nil {
					k.t.Error(err)
					return
				}
				mu.Lock()
				codes[strings.Trim(gjson.Get(got.body, "code").Raw, `"`)]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return codes
}

// TestInventedKeysLeaveTheStoreAsItWas: calls that the backend refuses leave no address, and no row of the ledger
// after the next sweep.
func TestInventedKeysLeaveTheStoreAsItWas(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		k := newKept(t, url, nil)
		k.expect(v2("create"), success)
		k.expect(v2("create"), idInUse) // the backend may use the second address, too
		proxytest.Eventually(t, func() bool { r := k.rows(); return r["proven"] == 1 && r["seen"] == 1 && r["addresses"] == 2 }, func() string { return fmt.Sprint(k.rows()) })
		before, size := k.rows(), k.size()
		const keys = 400 // one source can make no more than 1,000 such calls at once
		codes := k.flood(keys, func(i int) string { return fmt.Sprintf("%032d", i) })
		if refused := codes["PARTNER_003"]; refused < keys/2 || refused+codes["MAINTAINED_METHOD"] != keys {
			t.Errorf("codes %v", codes) // a few calls may find the store too slow on a machine with other work
		}
		owners := 0
		want := maps.Clone(before)
		same := func() string { // but for the counts of the report, which are stored every few seconds
			now := k.rows()
			owners, now["owners"], now["counts"], want["owners"], want["counts"] = now["owners"], 0, 0, 0, 0
			return cmp.Diff(want, now)
		}
		proxytest.Eventually(t, func() bool { return same() == "" }, func() string { return "rows at once: -before +after\n" + same() })
		t.Logf("%d calls: %d rows and %d bytes, then %d rows of the ledger and %d bytes", keys, before["owners"], size, owners, k.size())
		s := proxytest.Open(t, url)
		proxytest.Eventually(t, func() bool { // the last refusals can be recorded after their answers; the gateway sweeps, too
			if _, err := s.SweepOwners(t.Context(), time.Now(), time.Now(), 2*365*24*time.Hour); err != nil {
				t.Fatal(err)
			}
			owners = k.rows()["owners"]
			return owners == before["owners"]
		}, func() string { return fmt.Sprintf("after the sweep %d rows", owners) })
		if diff := same(); diff != "" || owners != 1 {
			t.Errorf("after the sweep: %d bills\n%s", owners, diff)
		}
		if now := k.size(); now > size+64<<10 {
			t.Errorf("the file has %d bytes, and had %d", now, size)
		}
	})
}

// Any number of invented keys together add few rows, also if the backend's firewall answers them with a page. A call of
// another source, and one of a key with a success, are served.
func TestInventedKeysOfOneSourceAddFewRows(t *testing.T) {
	t.Parallel()
	service := newService()
	page := replyWith(http.StatusForbidden, "<html>Forbidden</html>")
	k := newKept(t, proxytest.SQLite(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(bytes.NewReader(body)); strings.Contains(string(body), demoKey) {
			service.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	}))
	create := v2("create")
	k.expect(create, success)
	codes := k.flood(1500, func(i int) string { return fmt.Sprintf("%032d", i) })
	if codes["MAINTAINED_METHOD"] == 0 {
		t.Errorf("no call of the flood is refused: %v", codes)
	}
	rows := k.rows()
	if n := rows["addresses"] + rows["owners"] + rows["unknown"]; n > 2*store.UnprovenRows+200 {
		t.Errorf("%d rows: %v", n, rows)
	}
	k.expect(create.with("billId", "ANOTHERBILL000000001"), success)
	invented := create.with("apiKey", "an-invented-key-without-a-success")
	served := slices.ContainsFunc([]string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1"}, func(source string) bool {
		return k.send(invented, "X-Forwarded-For", source).status != 503
	})
	if !served { // some may share their limit with the source of the flood
		t.Error("no call of another source reached the backend")
	}
}

// A partner whose first calls had unknown outcomes, so that it holds all the rows that it can, is not refused for ever: a
// trial call is made, and its success ends the limit. A trial that fails is not repeated at once.
func TestKeyWithTooManyRowsGetsATrialCall(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		k := newKept(t, url, nil)
		const invented = "an-invented-key-without-a-success"
		for _, key := range []string{demoKey, invented} {
			if _, err := k.db.Exec(fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
				INSERT INTO billbridge_unknown (partner, bill, operation, upstream, request, at, finding, state, amount)
				SELECT '%s', 'B' || i, 'bill.create', 'old', '', %d, 'not asked', '', '' FROM n`, store.UnprovenRows, partner.Of(key), time.Now().UnixMilli())); err != nil {
				t.Fatal(err)
			}
		}
		create := v2("create").with("callbackUrl", "https://partner.example.com/paid")
		k.expect(create, success)
		proxytest.Eventually(t, func() bool { return k.rows()["proven"] == 1 }, nil)
		for n := range 5 {
			k.expect(create.with("billId", fmt.Sprintf("TRIAL%015d", n)), success)
		}
		began, refused := time.Now(), 0
		for range 5 {
			if k.send(create.with("apiKey", invented)).status == 503 {
				refused++
			}
		}
		if refused != 4 && time.Since(began) < time.Minute {
			t.Errorf("%d of 5 calls of an invented key are refused, want 4", refused)
		}
	})
}
