package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
)

// Gateways are killed with kill -9 in the middle of creates, while calls fail, partners repeat them in both forms, and stages change. In the
// end each bill that was created is at one backend, once, and a destroy that was acknowledged took effect. TestRolloutModel of package proxy
// has the other events; here the processes and the stores are real.
func TestRolloutKeepsEveryBillAtOneBackendUnderKill(t *testing.T) {
	t.Parallel()
	for replicas, c := range []struct {
		old, new string
		store    func(testing.TB) string
	}{{"legacy", "v2", proxytest.SQLite}, {"v2", "legacy", proxytest.Postgres}} {
		t.Run(c.old+" to "+c.new, func(t *testing.T) {
			t.Parallel()
			newKillRun(t, c.old, c.new, c.store(t)).run(t, replicas+1)
		})
	}
}

// A killRun is gateways that are killed, between two backends.
type killRun struct {
	*cluster
	services []*sandbox.Service
	config   string
	store    *store.Store
	client   *http.Client
	random   func(n int) int
	kill     atomic.Pointer[plannedKill] // for the next create at a backend

	mu        sync.Mutex
	created   map[string]bool // by bill: whether a create was acknowledged
	destroyed map[string]bool
	counts    map[string]int // of answers
}

// A plannedKill waits for a create at a backend.
type plannedKill struct{ due, killed chan struct{} }

// shortProbes is for other processes: see [proxytest.Tuned].
var shortProbes = proxytest.Tuned(func(c *config.Config) { c.Rollout.ProbeTimeout = 300 * time.Millisecond })

func newKillRun(t *testing.T, old, fresh, url string) *killRun {
	r := &killRun{cluster: newCluster(t), random: proxytest.Random(t), created: map[string]bool{}, destroyed: map[string]bool{}, counts: map[string]int{}}
	r.client = r.cluster.client(t)
	r.store = proxytest.BeginRollout(t, url, partner.Of(trialKey))
	r.services, r.config = startBackends(t, old, fresh, ", timeout: 300ms", []string{trialKey}, func(_ int, s *sandbox.Service, w http.ResponseWriter, q *http.Request) {
		r.serve(t, s, w, q)
	})
	r.config += fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nroute: {default: old}\n"+
		"rollout: {old: old, new: new}\nstore: {url: %q}\n", url) + shortProbes
	return r
}

// serve is a backend. One call in six has no answer: of these, half have no effect, and some have it when the gateway has given up.
func (r *killRun) serve(t *testing.T, service *sandbox.Service, w http.ResponseWriter, q *http.Request) {
	fault := r.random(24)
	wait := func(bool) {}
	if create := q.URL.Path == "/bill" || q.URL.Path == "/if/bill/send"; create {
		if planned := r.kill.Swap(nil); planned != nil {
			fault, wait = 24, func(now bool) {
				if !now {
					return
				}
				close(planned.due)
				select {
				case <-planned.killed:
				case <-t.Context().Done():
				}
			}
		}
	}
	early := r.random(2) == 0
	switch fault {
	case 0, 1:
		panic(http.ErrAbortHandler)
	case 2:
		<-q.Context().Done()
	}
	wait(early)
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, q)
	wait(!early)
	if fault < 4 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// call makes a call in a form, through a gateway that is alive, and returns its code: "" for an unknown outcome.
func (r *killRun) call(ctx context.Context, form, operation, bill string) string {
	status, answer, err := post(ctx, r.client, clusterURL+operationPath(form, operation),
		operationBody(form, operation, billRef{trialKey, bill}, "m", false))
	code := gjson.Get(answer, "code").String()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[fmt.Sprint(operation, " ", status, " ", code)]++
	if err != nil {
		r.counts["cut off"]++
	}
	if code == "0000" {
		map[string]map[string]bool{"create": r.created, "destroy": r.destroyed}[operation][bill] = true
	}
	return code
}

// bill creates a bill, with both forms at the same time, until there is an answer, and destroys every other one.
func (r *killRun) bill(ctx context.Context, n int) {
	bill := fmt.Sprint("BILL", n)
	for exists := false; !exists && ctx.Err() == nil; {
		var wave sync.WaitGroup
		codes := [2]string{}
		for i, form := range []string{"v2", "legacy"} {
			wave.Go(func() { codes[i] = r.call(ctx, form, "create", bill) })
		}
		wave.Wait()
		for _, code := range codes {
			exists = exists || code == "0000" || code == "BILL_001"
		}
	}
	if n%2 == 0 {
		r.call(ctx, "v2", "destroy", bill)
	}
}

func (r *killRun) run(t *testing.T, replicas int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(proxytest.Size(1, 5))*patience)
	var partners sync.WaitGroup
	t.Cleanup(func() { cancel(); partners.Wait() })
	var gateways []*gateway
	for range replicas {
		gateways = append(gateways, r.start(t, r.config))
	}
	var over atomic.Bool
	var n atomic.Int64
	for range 12 {
		partners.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				r.bill(ctx, int(n.Add(1)))
			}
		})
	}
	for kill := range proxytest.Size(3, 20) {
		stage := store.Change{Action: store.Staged, Partner: partner.Of(trialKey), To: []string{"canary", "new", "old"}[kill%3], By: "test", At: time.Now(), Forced: true}
		if kill%3 == 0 {
			stage.ToPercent = 50
		}
		must(t, r.store.Change(ctx, stage))
		for from := n.Load(); n.Load() < from+10 && ctx.Err() == nil; { // bills in this stage
			<-time.After(5 * time.Millisecond)
		}
		planned := &plannedKill{make(chan struct{}), make(chan struct{})}
		r.kill.Store(planned)
		select {
		case <-planned.due:
		case <-ctx.Done():
			t.Fatal("no create arrives at a backend")
		}
		g := gateways[kill%replicas]
		r.cluster.kill(t, g)
		close(planned.killed)
		gateways[kill%replicas] = r.start(t, r.config)
	}
	over.Store(true)
	partners.Wait()
	r.check(ctx, t)
}

// check compares the backends with the answers that partners got.
func (r *killRun) check(ctx context.Context, t *testing.T) {
	states, at := map[string]string{}, [2]int{}
	for n, service := range r.services {
		for _, b := range service.Bills() {
			equal(t, states[b.ID], "", b.ID)
			states[b.ID] = b.State
			at[n]++
		}
	}
	for bill := range r.created {
		if states[bill] == "" {
			t.Errorf("%s was created by its answer, and is at no backend", bill)
		}
	}
	for bill := range r.destroyed {
		equal(t, states[bill], "D", bill)
	}
	if r.counts["cut off"] == 0 || at[0] == 0 || at[1] == 0 || len(r.destroyed) == 0 {
		t.Errorf("%v at the backends, %d destroyed, %v", at, len(r.destroyed), r.counts)
	}
	for bill := range states {
		if code := r.call(ctx, "v2", "create", bill); code == "0000" {
			t.Errorf("%s was created again", bill)
		}
	}
	t.Logf("%v bills at the backends, %d destroyed, %v", at, len(r.destroyed), r.counts)
}
