package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tidwall/gjson"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A patroniFault is what happens to a cluster. undo, if there is one, repairs it: 10 s after the cluster has a new
// primary, and 40 s after the fault at the latest.
type patroniFault struct {
	name     string
	do, undo func(c *patroni, primary string)
}

var patroniFaults = []patroniFault{
	{name: "switchover", do: func(c *patroni, was string) {
		c.order(http.MethodPost, was, "/switchover", `{"leader": "`+was+`"}`)
	}},
	{name: "postgres killed", do: func(c *patroni, was string) { c.killPostgres(was) }},
	{
		name: "node killed",
		do:   func(c *patroni, was string) { c.signal(syscall.SIGKILL, was, was+"/billbridge") },
		undo: func(c *patroni, was string) { c.start(was) },
	},
	{
		name: "patroni killed",
		do:   func(c *patroni, was string) { c.signal(syscall.SIGKILL, was) },
		undo: func(c *patroni, was string) { c.start(was) },
	},
	{
		name: "node frozen",
		do:   func(c *patroni, was string) { c.signal(syscall.SIGSTOP, was, was+"/billbridge") },
		undo: func(c *patroni, was string) { c.signal(syscall.SIGCONT, was, was+"/billbridge") },
	},
	{
		name: "etcd stopped",
		do:   func(c *patroni, _ string) { c.signal(syscall.SIGKILL, "etcd") },
		undo: func(c *patroni, _ string) { c.start("etcd") },
	},
	{
		name: "etcd stopped, no failsafe_mode",
		do: func(c *patroni, was string) {
			c.order(http.MethodPatch, was, "/config", `{"failsafe_mode": false}`)
			c.signal(syscall.SIGKILL, "etcd")
		},
		undo: func(c *patroni, was string) {
			c.start("etcd")
			c.awaitHealthy()
			c.order(http.MethodPatch, was, "/config", `{"failsafe_mode": true}`)
		},
	},
	{name: "rolling restart", do: func(c *patroni, was string) {
		for _, node := range append(c.replicas(), was) {
			c.order(http.MethodPost, node, "/restart", "{}")
			c.awaitHealthy()
		}
	}},
}

// Two gateways on a Patroni cluster, by the addresses of its nodes and through HAProxy, during faults. It prints for
// how long they refused creates. It fails if a bill is lost, at both backends, or not where the ledger says; if a
// create was refused and sent; if no gateway reports a loss; if a read that needs no store is refused; if creates do
// not come back by themselves.
func TestPatroni(t *testing.T) {
	proxytest.OnlyLong(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CLUSTER\tFAULT\tADDRESS\tPRIMARY\tREFUSED\tAFTER\tREADS\tCREATED\tREFUSED\tUNKNOWN\t"+
		"NOT IN LEDGER\tFAIL-OVERS\tLOST\tDOUBLED\tMISROUTED")
	for _, mode := range []struct {
		name, failover string
		settings       []string
	}{
		{"asynchronous", "lossy", []string{"synchronous_mode: true", "synchronous_mode: false"}},
		{"synchronous", "lossless", nil},
		{"strict", "lossless", []string{"synchronous_mode_strict: false", "synchronous_mode_strict: true"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			c := newPatroni(t, mode.settings...)
			c.execute("postgres", "CREATE ROLE billbridge LOGIN PASSWORD 'change-me-3'")
			for n, f := range patroniFaults {
				t.Run(f.name, func(t *testing.T) {
					c.t = t
					c.awaitHealthy()
					var trials []*patroniTrial
					for _, address := range []string{"direct", "haproxy"} {
						trials = append(trials, newPatroniTrial(t, c, address, fmt.Sprint("bills", n, address), mode.failover))
					}
					within(trials, (*patroniTrial).begin)
					began, primary := c.during(f, trials)
					within(trials, (*patroniTrial).end)
					for _, b := range trials {
						row := fmt.Sprintf("%s\t%s\t%s\t%s", mode.name, f.name, b.address, b.judge(t, f, began, primary))
						t.Log(row)
						_, _ = fmt.Fprintln(w, row)
					}
				})
				c.t = t
			}
		})
	}
	_ = w.Flush()
	t.Logf("PRIMARY: seconds until the cluster had its new primary. REFUSED: seconds of refused creates. AFTER: of these,"+
		" after that. SLOWEST: seconds of the slowest create. READS: refused reads that need no store. Then numbers of"+
		" bills.\n%s", table.String())
}

func within(trials []*patroniTrial, do func(*patroniTrial)) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, b := range trials {
		all.Go(func() { do(b) })
	}
}

// during returns when the fault began, and when the cluster had its last new primary.
func (c *patroni) during(f patroniFault, trials []*patroniTrial) (began, primary time.Time) {
	was := c.primaries()
	began, primary = time.Now(), time.Now()
	var doing sync.WaitGroup
	doing.Go(func() { f.do(c, was) })
	now, last, undone := was, "", f.undo == nil // last is the primary after the fault
	watch := func(until func() bool) {
		late := time.Now().Add(proxytest.Patience)
		for ; !until() && time.Now().Before(late); <-time.After(100 * time.Millisecond) {
			if next := c.primaries(); next != now {
				c.t.Logf("%5.1f s: primary %q", time.Since(began).Seconds(), next)
				if now = next; next != "" && next != last { // else it only did not answer in time
					last, primary = next, time.Now()
				}
			}
		}
	}
	settled := func() bool {
		return last != "" && time.Since(primary) > 10*time.Second || time.Since(began) > 40*time.Second
	}
	if watch(settled); !undone {
		c.t.Logf("%5.1f s: repaired", time.Since(began).Seconds())
		f.undo(c, was)
	}
	doing.Wait()
	watch(func() bool { yes, _ := c.healthy(); return yes })
	c.t.Logf("%5.1f s: all nodes run", time.Since(began).Seconds())
	healthy := time.Now()
	watch(func() bool {
		restless := slices.ContainsFunc(trials, func(b *patroniTrial) bool { return !b.calm() })
		return time.Since(healthy) > 5*time.Second && !restless
	})
	return began, primary
}

// execute runs a statement at the primary.
func (c *patroni) execute(database, statement string) {
	c.t.Helper()
	db, err := pgx.Connect(c.t.Context(), c.superuser(c.primaries())+"/"+database)
	if err == nil {
		_, err = db.Exec(c.t.Context(), statement)
		_ = db.Close(c.t.Context())
	}
	must(c.t, err)
}

// A patroniTrial is two gateways with one address of the cluster, and a load of creates and reads.
type patroniTrial struct {
	*failOverTrial
	t            *testing.T
	address, url string
	client       *http.Client
	stop         chan struct{}
	loading      sync.WaitGroup

	mu    sync.Mutex
	calls []patroniCall
}

type patroniCall struct {
	billRef
	read       bool
	gateway    int
	began      time.Time
	took       time.Duration
	status     int
	code, text string
}

func (c patroniCall) ok() bool { return c.status == http.StatusOK && (c.code == "0000" || c.read) }

// refused reports whether the caller may take it for certain that nothing was sent.
func (c patroniCall) refused() bool { return c.status != http.StatusOK && c.code != "" }

var patroniPartners = map[string]store.Change{
	"p-canary": {Action: store.Staged, To: "canary", ToPercent: 50}, "p-new": {Action: store.Staged, To: "new"},
}

func newPatroniTrial(t *testing.T, c *patroni, address, database, failover string) *patroniTrial {
	b := &patroniTrial{t: t, address: address, stop: make(chan struct{})}
	b.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 500}}
	c.execute("postgres", "CREATE DATABASE "+database+" OWNER billbridge")
	for _, node := range patroniNodes {
		proxytest.Eventually(t, func() bool {
			db, err := pgx.Connect(t.Context(), c.superuser(node)+"/"+database)
			return err == nil && db.Close(t.Context()) == nil
		}, func() string { return node + " does not get the new database" })
	}
	const user = "postgres://billbridge:change-me-3@"
	direct := user + c.address("pg1") + "," + c.address("pg2") + "," + c.address("pg3") + "/" + database
	if b.url = direct; address == "haproxy" {
		b.url = user + c.address("haproxy") + ":5000/" + database
	}
	b.failOverTrial = &failOverTrial{cluster: newCluster(t), pair: &proxytest.Pair{URL: direct}}
	b.services, b.config = startBackends(t, "legacy", "v2", ", timeout: 3s", slices.Collect(maps.Keys(patroniPartners)), nil)
	b.config += fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nroute: {default: old}\n"+
		"rollout: {old: old, new: new, settle: 5s}\nstore: {url: %q, failover: %s}\n", b.url, failover)
	b.decide(t, func(t *testing.T, s *store.Store) error {
		return s.Change(t.Context(), store.Change{Action: store.Begun, By: "test", At: time.Now()})
	},
		func(t *testing.T, s *store.Store) (err error) {
			for key, stage := range patroniPartners {
				stage.Partner, stage.By, stage.At, stage.Forced = partner.Of(key), "anna", time.Now(), true
				err = errors.Join(err, s.Seen(t.Context(), partner.Of(key), time.Now().Add(-time.Hour)),
					s.Change(t.Context(), stage))
			}
			return err
		})
	b.startBoth(t)
	return b
}

// send makes a call and records it. The bill's number selects the gateway and the form.
func (b *patroniTrial) send(operation string, at billRef, n int) patroniCall {
	form, gateway := []string{"v2", "legacy"}[n/2%2], n%2
	call := patroniCall{billRef: at, read: operation == "read", gateway: gateway, began: time.Now()}
	url := "http://" + b.gateways[gateway].partners + operationPath(form, operation)
	status, answer, err := post(context.Background(), b.client, url, operationBody(form, operation, at, "m", false))
	if err != nil {
		answer = err.Error()
	}
	call.took, call.status, call.text = time.Since(call.began), status, answer
	call.code = gjson.Get(answer, "code").String()
	return call
}

const patroniKept = 20

func kept(n int) billRef { return billRef{"p-new", fmt.Sprint("kept-", n%patroniKept)} }

// begin starts the load: a create and a read of an earlier bill every 50 ms, also while those before have no answer.
func (b *patroniTrial) begin() {
	for n := range patroniKept {
		if call := b.send("create", kept(n), n); !call.ok() {
			b.t.Errorf("before the fault: %d %s", call.status, call.text)
		}
	}
	b.loading.Go(func() {
		ticks := time.NewTicker(50 * time.Millisecond)
		defer ticks.Stop()
		for n := 0; ; n++ {
			select {
			case <-b.stop:
				return
			case <-ticks.C:
			}
			created := billRef{[]string{"p-canary", "p-new"}[n/4%2], fmt.Sprint("bill-", n)}
			for operation, at := range map[string]billRef{"create": created, "read": kept(n)} {
				b.loading.Go(func() {
					call := b.send(operation, at, n)
					b.mu.Lock()
					defer b.mu.Unlock()
					b.calls = append(b.calls, call)
				})
			}
		}
	})
	proxytest.Eventually(b.t, b.calm, func() string { return "creates do not succeed before the fault" })
}

// calm reports whether all creates of the last 5 seconds succeeded.
func (b *patroniTrial) calm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	some := 0
	for _, call := range b.calls {
		if !call.read && time.Since(call.began.Add(call.took)) < 5*time.Second {
			if !call.ok() {
				return false
			}
			some++
		}
	}
	return some >= 80
}

func (b *patroniTrial) end() { close(b.stop); b.loading.Wait() }
