package main

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A toldPartner is the servers of all partners: it has what each callback told of each bill.
type toldPartner struct {
	url string

	mu   sync.Mutex
	told map[string]map[string]string // by "BILL STATE" and webhook-id: the body
}

func newToldPartner(t *testing.T) *toldPartner {
	t.Helper()
	p := &toldPartner{told: map[string]map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway was killed during the request
		}
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		form, state := "v2", fields["apprState"]
		if state == nil {
			form, state = "legacy", fields["appr_state"]
		}
		if bill := r.URL.Path[1:]; form != formOf(bill) {
			t.Errorf("bill %s of a partner that speaks %s: %s", bill, formOf(bill), body)
		}
		of := fmt.Sprintf("%s %s", r.URL.Path[1:], state)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.told[of] == nil {
			p.told[of] = map[string]string{}
		}
		p.told[of][r.Header.Get("webhook-id")] = string(body)
		_, _ = io.WriteString(w, callbackAnswer(form))
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

const frequentReadsRate = 100

// frequentReads is for other processes: see [proxytest.Tuned].
var frequentReads = proxytest.Tuned(func(c *config.Config) {
	c.Callbacks.PerHost, c.Callbacks.Reconcile.Every, c.Callbacks.Reconcile.Rate = 64, 3*time.Second, frequentReadsRate
})

// The sandbox loses one in ten callbacks, and gateways are killed. After the reads of the bills every partner knows the last state of
// every bill exactly once, with the values that the lost callback had, also when the sandbox sends it later. The reads stay under the rate.
func TestLostCallbacks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const rate = frequentReadsRate
	n, kills, keys := proxytest.Size(300, 10_000), proxytest.Size(1, 6), []string{"k-one", "k-two", "k-three"}
	p, b := newToldPartner(t), newCluster(t)
	client := b.client(t)
	options := sandbox.Options{
		CallbackCancelDestroy: true, CallbackInterval: 2 * time.Second, CallbackRetries: 1000, Transport: client.Transport, BaseURL: "https://pay.example.com",
	}
	for _, key := range keys {
		options.Partners = append(options.Partners, sandbox.Partner{Key: key, Strict: true, Merchants: []sandbox.Merchant{{MemberID: "m", MerchantID: "s-" + key}}})
	}
	service := sandbox.New(options)
	t.Cleanup(func() { _ = service.Close() })
	var mu sync.Mutex
	var reads []time.Time
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bill/read" {
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
upstreams: {backend: {form: v2, url: %q, timeout: 40s}}
store: {url: "sqlite:bridge.db"}
callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s%s], reconcile: {after: 1s, deliver: true}}
`, backend.URL, clusterURL, strings.Repeat(", 500ms", 50)) + frequentReads

	keyOf := func(i int) string { return keys[i%len(keys)] }
	call := func(by *http.Client, to, path string, i int, bill string) {
		t.Helper()
		status, answer, err := post(ctx, by, to+path, fmt.Sprintf(`{"apiKey":%q,"member":"m","merchant":"s-%[1]s","bill":%s}`, keyOf(i), bill))
		if err != nil || status != http.StatusOK || !strings.Contains(answer, `"code":"0000"`) {
			t.Errorf("%s %s: %d %s, %v", path, bill, status, answer, err)
		}
	}
	ids := billIDs("LOST", n)
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	create := func(i int) {
		bill := ids[i]
		if formOf(bill) == "v2" {
			call(client, clusterURL, "/bill", i, fmt.Sprintf(`{"billId":%q,"sendType":"URL","price":20000,"productName":"x","memberName":"x","hash":%q,"callbackUrl":"%s/%[1]s"}`, bill, hash(bill+",20000"), p.url))
			return
		}
		body := fmt.Sprintf(`{"apikey":%q,"member":"m","merchant":"s-%[1]s","bill":{"bill_id":%q,"price":"20000","product_nm":"x","member_nm":"x","phone":"01012345678","hash":%q,"callbackURL":"%s/%[2]s"}}`,
			keyOf(i), bill, hash(bill+",01012345678,20000"), p.url)
		if status, answer, err := post(ctx, client, clusterURL+"/if/bill/send", body); err != nil || status != http.StatusOK || !strings.Contains(answer, `"code":"0000"`) {
			t.Errorf("%s: %d %s, %v", bill, status, answer, err)
		}
	}
	each := func(from int, do func(i int)) {
		var workers sync.WaitGroup
		defer workers.Wait()
		var next atomic.Int64
		next.Store(int64(from))
		for range 16 {
			workers.Go(func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					do(int(i))
				}
			})
		}
	}

	g := b.start(t, config)
	restart := func() {
		b.kill(t, g)
		expireClaims(t, "sqlite", filepath.Join(b.folder, "bridge.db"))
		if !proxytest.Long() { // in the long form they expire by themselves, after up to a minute
			db, err := sql.Open("sqlite", filepath.Join(b.folder, "bridge.db"))
			must(t, err)
			works(t)(db.ExecContext(ctx, "UPDATE billbridge_addresses SET look = look - 60000 WHERE look IS NOT NULL"))
			must(t, db.Close())
		}
		g = b.start(t, config)
		for i := range keys { // their keys are only in the memory of a gateway
			status, answer, err := post(ctx, client, clusterURL+"/read/mapping", fmt.Sprintf(`{"apiKey":%q}`, keyOf(i)))
			if err != nil || status != http.StatusOK {
				t.Errorf("%d %s, %v", status, answer, err)
			}
		}
	}
	for i := range keys {
		create(i) // its success makes the key valid
	}
	each(len(keys), create)
	var lost, done atomic.Int64
	paying := make(chan struct{})
	go func() {
		defer close(paying)
		maybeLost := func(i int) {
			if i%10 == 0 {
				lost.Add(1)
				service.Fault(sandbox.Fault{Operation: "callback.payment", Skip: true})
			}
		}
		each(0, func(i int) {
			defer done.Add(1)
			if i%7 == 3 {
				return // it is not paid
			}
			maybeLost(i)
			must(t, service.Pay(keyOf(i), ids[i]))
			if i%3 == 0 {
				maybeLost(i + 5)
				call(backend.Client(), backend.URL, "/bill/cancel", i, fmt.Sprintf(`{"billId":%q,"price":20000,"hash":%q}`, ids[i], hash(ids[i]+",20000")))
			}
		})
	}()
	for kill := range kills / 2 {
		proxytest.Eventually(t, func() bool { return done.Load() > int64(n*(kill+1)/(kills+2)) }, func() string { return "bills are not paid" })
		restart()
	}
	<-paying
	began := time.Now()

	// unknown returns a bill whose last state its partner does not know, "" if there is none.
	unknown := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, bill := range service.Bills() {
			if of := bill.ID + " " + bill.State; bill.State != "W" && p.told[of] == nil {
				return of
			}
		}
		return ""
	}
	late := time.Now().Add(time.Duration(proxytest.Size(90, 1800)) * time.Second)
	left := kills - kills/2
	for unknown() != "" {
		mu.Lock()
		passed := len(reads)
		mu.Unlock()
		if left > 0 && passed > n*(kills-left+1)/kills {
			left--
			restart()
		}
		if time.Now().After(late) {
			_, list, errs := runCommand(t, false, "callbacks", "missing", "--admin", "http://"+g.operator)
			t.Fatalf("a partner does not know %s; missing are:\n%s%s", unknown(), list, errs)
		}
		<-time.After(50 * time.Millisecond)
	}
	took := time.Since(began)
	// The sandbox sends the lost callbacks now.
	for _, c := range service.Callbacks() {
		if c.State == "given_up" {
			must(t, service.Notify(c.Partner, c.BillID))
		}
	}
	proxytest.Eventually(t, func() bool {
		for _, c := range service.Callbacks() {
			if c.State == "waiting" {
				return false
			}
		}
		return true
	}, func() string { return "the callbacks are not all acknowledged" })
	awaitQueueEmpty(t, g)

	table, err := translate.Compile(32, billing.Table())
	must(t, err)
	bodies := map[string]string{} // of the callbacks as the sandbox would have sent them
	for _, c := range service.Callbacks() {
		body, _, err := table.Callback().Translate(nil, []byte(c.Body), "v2", translate.Form(formOf(c.BillID)))
		must(t, err)
		bodies[c.BillID+" "+c.BillState] = string(body)
	}
	made, all := 0, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, told := range p.told {
		equal(t, len(told), 1, of, told)
		for id, body := range told {
			if all++; strings.HasPrefix(id, "cb_read_") {
				made++
			}
			equal(t, parsed(t, body), parsed(t, bodies[of]), of, id)
		}
	}
	for _, bill := range service.Bills() {
		for _, state := range []string{"W", "F", "C", "D"} {
			_, told := p.told[bill.ID+" "+state]
			if may := state == "F" && bill.State == "C"; told != (state == bill.State && state != "W") && !may {
				t.Errorf("bill %s is %s, and %s is told: %v", bill.ID, bill.State, state, told)
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
	if made == 0 || most > rate {
		t.Errorf("%d callbacks were made; %d reads in one second", made, most)
	}
	code, list, errs := runCommand(t, false, "callbacks", "missing", "--admin", "http://"+g.operator)
	if code != exitOK || strings.Count(list, "\n") != 1 {
		t.Errorf("exit code %d: %s%s", code, list, errs)
	}
	t.Logf("%d bills, %d callbacks lost, %d kills: %d told, %d of them made from a read; %d reads, at most %d in one second; all known %s after the last payment",
		n, lost.Load(), kills-left, all, made, len(reads), most, took.Round(100*time.Millisecond))
}

func parsed(t *testing.T, doc string) (fields map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	must(t, d.Decode(&fields))
	return fields
}

// awaitQueueEmpty waits until no callback of a gateway waits.
func awaitQueueEmpty(t *testing.T, g *gateway) {
	t.Helper()
	proxytest.Eventually(t, func() bool {
		_, list, _ := runCommand(t, false, "callbacks", "list", "--state", "waiting", "--admin", "http://"+g.operator)
		return strings.Count(list, "\n") == 1
	}, func() string { return "callbacks wait" })
}
