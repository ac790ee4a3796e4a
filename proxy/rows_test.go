package proxy_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
)

// A kept is a gateway with a rollout and callbacks, and its database.
type kept struct {
	*process
	db      *sql.DB
	service *sandbox.Service
}

// newKept has the given backend; nil is a sandbox.
func newKept(t *testing.T, url string, back http.Handler) *kept {
	t.Helper()
	k := &kept{service: newService()}
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
limits: {trusted_proxies: [127.0.0.1]}
callbacks: {public_url: https://bridge.example.com}
`, upstream.URL, url)+limits(func(l *config.Limits) { l.AddressConnections = 10_000 }))
	return k
}

// rows are the numbers of rows of the tables that calls add to.
func (k *kept) rows() map[string]int {
	k.t.Helper()
	all := map[string]int{}
	for _, table := range []string{"addresses", "bills", "callbacks", "seen", "proven", "counts"} {
		var n int
		must(k.t, k.db.QueryRow("SELECT count(*) FROM billbridge_"+table).Scan(&n))
		all[table] = n
	}
	return all
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
		before := k.rows()
		const keys = 400 // one source can make no more than 1,000 such calls at once
		codes := k.flood(keys, func(i int) string { return fmt.Sprintf("%032d", i) })
		if refused := codes["PARTNER_003"]; refused < keys/2 || refused+codes["MAINTAINED_METHOD"] != keys {
			t.Errorf("codes %v", codes) // a few calls may find the store too slow on a machine with other work
		}
		s := proxytest.Open(t, url)
		proxytest.Eventually(t, func() bool { // the last refusals can be recorded after their answers; the gateway sweeps, too
			proxytest.Works(t)(s.SweepBills(t.Context(), time.Now(), time.Now(), 2*365*24*time.Hour))
			now := k.rows()
			now["counts"] = before["counts"] // those of the report, which are stored every few seconds
			return maps.Equal(now, before) && now["bills"] == 1
		}, func() string { return fmt.Sprint(before, " before the flood, and after it and a sweep ", k.rows()) })
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
	if n := rows["addresses"] + rows["bills"]; n > 2*store.UnprovenRows+200 {
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
				INSERT INTO billbridge_bills (partner, bill, version, upstream, state, also_at, ends, estimated, data)
				SELECT '%s', 'B' || i, 1, '', '', '', %d, 0, '{}' FROM n`, store.UnprovenRows, partner.Of(key), time.Now().UnixMilli())); err != nil {
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
