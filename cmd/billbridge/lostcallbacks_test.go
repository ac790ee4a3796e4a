package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// A toldPartner is the server of a partner: it has the ids of the callbacks of each bill.
type toldPartner struct {
	url string

	mu   sync.Mutex
	told map[string]map[string]bool // by bill and webhook-id
}

func newToldPartner(t *testing.T) *toldPartner {
	t.Helper()
	p := &toldPartner{told: map[string]map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway was killed during the request
		}
		bill := r.URL.Path[1:]
		has(t, string(body), bill)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.told[bill] == nil {
			p.told[bill] = map[string]bool{}
		}
		p.told[bill][r.Header.Get("webhook-id")] = true
		_, _ = io.WriteString(w, callbackAnswer(formOf(bill)))
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

const frequentReadsRate = 100

// frequentReads is for other processes: see [proxytest.Tuned].
var frequentReads = proxytest.Tuned(func(c *config.Config) {
	c.Callbacks.PerHost, c.Callbacks.Reconcile.Every, c.Limits.Reads = 64, 3*time.Second, frequentReadsRate
	c.Callbacks.Reconcile.After = time.Second
})

// The sandbox loses one in ten callbacks, and gateways are killed while bills are read. After the reads the partner knows of the payment of
// every bill exactly once, also when the sandbox sends the lost callback later. The reads stay under the rate. Package relay has the values
// of a callback that is made, and the states.
func TestLostCallbacks(t *testing.T) {
	proxytest.OnlyLong(t)
	t.Parallel()
	ctx := t.Context()
	const rate, key, n, kills = frequentReadsRate, "k-one", 10_000, 6
	p, b := newToldPartner(t), newCluster(t)
	client := b.client(t)
	service := sandbox.New(sandbox.Options{
		CallbackInterval: 2 * time.Second, CallbackRetries: 1000, Transport: client.Transport, BaseURL: "https://pay.example.com",
		Partners: []sandbox.Partner{{Key: key}},
	})
	t.Cleanup(func() { _ = service.Close() })
	var mu sync.Mutex
	var reads []time.Time
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == operationPath("v2", "read") {
			mu.Lock()
			reads = append(reads, time.Now())
			mu.Unlock()
		}
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(backend.Close)
	config := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {backend: {form: v2, url: %q}}
store: {url: "sqlite:bridge.db"}
callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s%s], reconcile: {deliver: true}}
`, backend.URL, clusterURL, strings.Repeat(", 500ms", 50)) + frequentReads
	g := b.start(t, config)

	ids := billIDs("LOST", n)
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for i := w; i < n; i += 16 {
				form := formOf(ids[i])
				status, answer, err := post(ctx, client, clusterURL+operationPath(form, "create"), createBody(form, billRef{key, ids[i]}, p.url+"/"+ids[i]))
				if err != nil || status != http.StatusOK || !strings.Contains(answer, `"code":"0000"`) {
					t.Errorf("%s: %d %s, %v", ids[i], status, answer, err)
				}
			}
		})
	}
	workers.Wait()
	for i, id := range ids {
		if i%10 == 0 {
			service.Fault(sandbox.Fault{Operation: "callback.payment", Skip: true})
		}
		must(t, service.Pay(key, id))
	}
	began := time.Now()
	known := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.told)
	}
	late := began.Add(time.Duration(proxytest.Size(90, 1800)) * time.Second)
	left := kills
	for ; known() < n; <-time.After(50 * time.Millisecond) {
		mu.Lock()
		passed := len(reads)
		mu.Unlock()
		if left > 0 && passed > n*(kills-left+1)/(2*kills) {
			left--
			b.kill(t, g)
			b.expireLooks(ctx, t)
			g = b.start(t, config)
			// The key is only in the memory of a gateway.
			works(t)(post(ctx, client, clusterURL+operationPath("v2", "read"), operationBody("v2", "read", billRef{key, ids[0]}, "m", false)))
		}
		if time.Now().After(late) {
			_, list, errs := runCommand(t, false, "callbacks", "missing", "--admin", "http://"+g.operator)
			t.Fatalf("the partner knows %d of %d; missing are:\n%s%s", known(), n, list, errs)
		}
	}
	took := time.Since(began)
	equal(t, left, 0, "kills that did not happen")
	for _, c := range service.Callbacks() { // the sandbox sends the lost ones now
		if c.State == "given_up" {
			must(t, service.Notify(c.Partner, c.BillID))
		}
	}
	proxytest.Eventually(t, func() bool {
		waiting := 0
		for _, c := range service.Callbacks() {
			if c.State == "waiting" {
				waiting++
			}
		}
		_, list, _ := runCommand(t, false, "callbacks", "list", "--state", "waiting", "--admin", "http://"+g.operator)
		return waiting == 0 && strings.Count(list, "\n") == 1
	}, func() string { return "callbacks wait" })
	p.mu.Lock()
	defer p.mu.Unlock()
	made := 0
	for bill, told := range p.told {
		equal(t, len(told), 1, bill, told)
		for id := range told {
			if strings.HasPrefix(id, "cb_read_") {
				made++
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	most := 0
	for first, last := 0, 0; last < len(reads); last++ {
		for reads[last].Sub(reads[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	if made < n/20 || most > rate {
		t.Errorf("%d callbacks were made; %d reads in one second", made, most)
	}
	code, list, errs := runCommand(t, false, "callbacks", "missing", "--admin", "http://"+g.operator)
	if code != exitOK || strings.Count(list, "\n") != 1 {
		t.Errorf("exit code %d: %s%s", code, list, errs)
	}
	t.Logf("%d bills, %d kills; %d callbacks made from a read; %d reads, at most %d in one second; all known %s after the last payment",
		n, kills, made, len(reads), most, took.Round(100*time.Millisecond))
}

// expireLooks ends the claims of a killed gateway. In the long form they end by themselves, after up to five minutes.
func (b *cluster) expireLooks(ctx context.Context, t *testing.T) {
	t.Helper()
	file := filepath.Join(b.folder, "bridge.db")
	if expireClaims(t, "sqlite", file); proxytest.Long() {
		return
	}
	db, err := sql.Open("sqlite", file)
	must(t, err)
	works(t)(db.ExecContext(ctx, "UPDATE billbridge_addresses SET look = look - 300000 WHERE look IS NOT NULL"))
	must(t, db.Close())
}
