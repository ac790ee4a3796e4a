package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/wave"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
)

// A waveFault is what happens at the new backend, or to the gateways, while two waves move partners.
type waveFault struct {
	name   string
	action func(*waveRun)             // once; nil for none
	reply  func(*waveRun, *faultCall) // of each call at the new backend; nil for none
	stops  string                     // why the waves pause; with | between several; "" if they do not
	repair func(*waveRun)             // what a person does before the waves are resumed
}

// A faultCall is a call at the new backend.
type faultCall struct {
	partner, operation string
	serve              func() // the sandbox carries the call out
	code               int
	body               []byte
	context.Context
}

// victim is a partner whose creates the new backend refuses, in one of the faults.
const victim = "wave-key-3"

// waveFaults are one of each kind.
var waveFaults = []waveFault{
	{name: "the gateway that makes the steps is killed", action: func(r *waveRun) { r.killLeader() }},
	{
		name: "creates of one partner are refused",
		reply: func(_ *waveRun, c *faultCall) {
			if c.partner == victim && c.operation == "create" {
				c.body = []byte(`{"code":"ERROR","message":"","data":null}`)
				return
			}
			c.serve()
		},
		repair: func(r *waveRun) { r.reset(victim) },
	},
	{
		name:  "1 of 5 calls fails with 500",
		stops: "failed at the new backend",
		reply: func(_ *waveRun, c *faultCall) {
			if rand.IntN(5) == 0 {
				c.code, c.body = 500, []byte("{}")
				return
			}
			c.serve()
		},
	},
	{
		name:  "each call takes 700 ms longer",
		stops: "99 % of the calls",
		reply: func(_ *waveRun, c *faultCall) {
			c.serve()
			select {
			case <-time.After(700 * time.Millisecond):
			case <-c.Done():
			}
		},
	},
	{
		name:  "1 of 10 creates takes effect and has no answer",
		stops: "with an unknown outcome|failed at the new backend", // a call without an answer is both
		reply: func(_ *waveRun, c *faultCall) {
			c.serve()
			if c.operation == "create" && rand.IntN(10) == 0 {
				panic(http.ErrAbortHandler)
			}
		},
		repair: func(r *waveRun) { r.readAll() },
	},
	{
		name:  "a digit of the amount is another in 1 of 20 replies",
		stops: "an exact field differs",
		reply: func(_ *waveRun, c *faultCall) {
			if c.serve(); c.operation == "read" && rand.IntN(20) == 0 {
				c.body = bytes.Replace(c.body, []byte("20000"), []byte("20001"), 1)
			}
		},
		repair: func(r *waveRun) { r.resetAll() },
	},
	{
		name:   "the kill switch",
		stops:  "the kill switch is on",
		action: func(r *waveRun) { r.post("/rollout/stop", nil, nil) },
		repair: func(r *waveRun) { r.post("/rollout/resume", nil, nil) },
	},
	{name: "the store is declared to be restored", stops: "restored from a backup", action: func(r *waveRun) { r.post("/rollout/restored", nil, nil) }},
}

// A waveRun is two gateways on PostgreSQL, two backends, and partners that bill through them.
type waveRun struct {
	*cluster
	t        *testing.T
	gateways [2]*gateway
	config   string
	services [2]*sandbox.Service
	keys     []string
	client   *http.Client
	fault    atomic.Pointer[waveFault]

	mu      sync.Mutex
	created map[string]bool // bills whose create was acknowledged
	answers map[string]int  // since the fault began
	errors  map[string]int  // of these, those without a success, by their code
}

// Two waves move partners while a fault of each kind happens: each stops what it must, no bill is lost or at two backends,
// and all partners come to new. The output ends with a table.
func TestWavesUnderFaults(t *testing.T) {
	if !proxytest.Long() {
		t.Skip("it takes minutes: set BILLBRIDGE_LONG=1, as .ci/long does. TestWavePauses has each reason by itself")
	}
	t.Parallel()
	const number = 500
	r := newWaveRun(t, number)
	ctx, end := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	t.Cleanup(func() { end(); traffic.Wait() })
	for range 8 {
		traffic.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r.bill(ctx)
			}
		})
	}
	half := number / 2
	for name, keys := range map[string][]string{"autumn": r.keys[:half], "winter": r.keys[half:]} {
		order := operate.WaveOrder{WaveName: operate.WaveName{Name: name}}
		order.Steps = wave.Steps{{Stage: rollout.StageCanary, Percent: 50}, {Stage: rollout.StageNew}}
		order.Each, order.Stay = wave.Pace{Steps: 60, Per: time.Minute}, wave.Duration(time.Second)
		for _, key := range keys {
			order.Partners += string(partner.Of(key)) + "\n"
		}
		r.post(wavePath, nil, order)
	}
	table := "fault | waves pause | after | steps forward until then | taken back | calls | without a success\n"
	for _, f := range waveFaults {
		table += r.run(&f)
	}
	r.await("all partners come to new", func() bool {
		for _, w := range r.waves() {
			if w.State != store.WaveEnded {
				return false
			}
		}
		return true
	})
	end()
	traffic.Wait()
	r.check()
	t.Log("\n" + table)
}

func newWaveRun(t *testing.T, number int) *waveRun {
	r := &waveRun{cluster: newCluster(t), t: t, created: map[string]bool{}, answers: map[string]int{}, errors: map[string]int{}}
	url := proxytest.Postgres(t)
	var ids []partner.ID
	var partners []sandbox.Partner
	for i := range number {
		key := fmt.Sprint("wave-key-", i)
		r.keys, ids = append(r.keys, key), append(ids, partner.Of(key))
		partners = append(partners, sandbox.Partner{Key: key, Name: key})
	}
	_ = proxytest.BeginRollout(t, url, ids...)
	r.config = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nroute: {default: old}\nfailures: {explain: 300ms}\n" +
		"rollout: {old: old, new: new, settle: 6s, verdict: {comparisons: 10, bills: 5, paid: 1, mismatch: 0.3, unclear: 0.5}, unknown: {rate: 50}}\nupstreams:\n"
	for n, form := range []string{"legacy", "v2"} {
		service := sandbox.New(sandbox.Options{Partners: partners, Transport: noCallbacks{}})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.serve(n, w, q) }))
		t.Cleanup(func() { server.CloseClientConnections(); server.Close(); _ = service.Close() })
		r.services[n] = service
		r.config += fmt.Sprintf("  %s: {form: %s, url: %q, timeout: 3s}\n", backendNames[n], form, server.URL)
	}
	r.config += fmt.Sprintf("store: {url: %q}\n", url)
	r.client = r.cluster.client(t)
	for i := range r.gateways {
		r.gateways[i] = r.start(t, r.config)
	}
	return r
}

// serve is a backend.
func (r *waveRun) serve(n int, w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	c := &faultCall{Context: q.Context(), partner: billRefOf(body).partner, code: 200}
	switch path := q.URL.Path; {
	case path == "/bill" || path == "/if/bill/send":
		c.operation = "create"
	case strings.HasSuffix(path, "/read"):
		c.operation = "read"
	}
	c.serve = func() {
		answer := httptest.NewRecorder()
		r.services[n].ServeHTTP(answer, q)
		c.code, c.body = answer.Code, answer.Body.Bytes()
	}
	if f := r.fault.Load(); n == 1 && f != nil && f.reply != nil {
		f.reply(r, c)
	} else {
		c.serve()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(c.code)
	_, _ = w.Write(c.body)
}

var waveBills atomic.Int64

// bill is the life of a bill: it is created, with the same id until there is an answer, read, paid and read again.
func (r *waveRun) bill(ctx context.Context) {
	n := rand.IntN(len(r.keys))
	form := []string{"legacy", "v2"}[n%2]
	at := billRef{r.keys[n], fmt.Sprint("WAVE", waveBills.Add(1))}
	for exists := false; !exists && ctx.Err() == nil; {
		code := r.call(ctx, form, "create", at)
		exists = code == "0000" || code == "BILL_001"
	}
	r.mu.Lock()
	r.created[at.bill] = true
	r.mu.Unlock()
	r.call(ctx, form, "read", at)
	for _, service := range r.services {
		_ = service.Pay(at.partner, at.bill) // at one of them
	}
	r.call(ctx, form, "read", at)
}

// call makes a call, and returns its code, "" for none.
func (r *waveRun) call(ctx context.Context, form, operation string, at billRef) string {
	_, answer, _ := post(ctx, r.client, clusterURL+operationPath(form, operation), operationBody(form, operation, at, "m", false))
	code := gjson.Get(answer, "code").String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers[operation]++; code != "0000" && !(code == "BILL_001" && operation == "create") {
		r.errors[code]++
	}
	return code
}

// run has one fault, and ends when the waves move partners again.
func (r *waveRun) run(f *waveFault) string {
	r.mu.Lock()
	r.answers, r.errors = map[string]int{}, map[string]int{}
	r.mu.Unlock()
	steps, back := r.steps()
	began, row := time.Now(), ""
	r.fault.Store(f)
	if f.action != nil {
		f.action(r)
	}
	if f.stops == "" {
		r.await("steps go on during "+f.name, func() bool { now, _ := r.steps(); return now > steps+2 || r.ended() })
		row = "no"
	} else if !r.ended() {
		says := regexp.MustCompile(f.stops).MatchString
		r.await("the waves pause: "+f.name, func() bool {
			paused := 0
			for _, w := range r.waves() {
				if w.State == store.WaveEnded || w.State == store.WavePaused && says(w.Why) {
					paused++
				}
			}
			return paused >= 1 // the partners of the other one may have met too few of the faults
		})
		row = "yes: " + f.stops
	}
	took := time.Since(began)
	forward, taken := r.steps()
	r.fault.Store(nil)
	if f.repair != nil {
		f.repair(r)
	}
	for _, w := range r.waves() {
		if w.State == store.WavePaused {
			r.await("the wave is resumed after "+f.name, func() bool { return r.try(wavePath+"/"+w.Name+"/resume") == nil })
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, failed := 0, 0
	for _, n := range r.answers {
		calls += n
	}
	for _, n := range r.errors {
		failed += n
	}
	return fmt.Sprintf("%s | %s | %s | %d | %d | %d | %d %v\n",
		f.name, row, took.Round(100*time.Millisecond), forward-steps, taken-back, calls, failed, r.errors)
}

func (r *waveRun) ended() bool {
	for _, w := range r.waves() {
		if w.State != store.WaveEnded {
			return false
		}
	}
	return true
}

func (r *waveRun) await(what string, is func() bool) {
	r.t.Helper()
	for late := time.Now().Add(10 * proxytest.Patience); !is(); <-time.After(200 * time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("not in time: %s\n%+v", what, r.waves())
		}
	}
}

// admin is the admin listener of a gateway that is alive.
func (r *waveRun) admin() *adminFlags {
	return &adminFlags{Admin: "http://" + r.gateways[0].operator}
}

func (r *waveRun) post(path string, into any, in ...any) {
	r.t.Helper()
	must(r.t, r.admin().send(r.t.Context(), http.MethodPost, path, into, append(in, operate.Author{By: "anna"})...))
}

func (r *waveRun) try(path string) error {
	return r.admin().send(r.t.Context(), http.MethodPost, path, nil, operate.Author{By: "anna"})
}

// get asks until a gateway answers: on a busy machine the store may not answer within its second.
func (r *waveRun) get(path string, into any, in ...any) {
	r.t.Helper()
	var err error
	for late := time.Now().Add(proxytest.Patience); time.Now().Before(late); <-time.After(200 * time.Millisecond) {
		if err = r.admin().get(r.t.Context(), path, into, in...); err == nil {
			return
		}
	}
	r.t.Fatal(err)
}

func (r *waveRun) waves() (all []operate.WaveInfo) {
	r.get(wavePath, &all)
	return all
}

// steps returns how many steps forward and back the waves have made.
func (r *waveRun) steps() (forward, back int) {
	var log []operate.Change
	r.get("/audit", &log, operate.AuditPage{Limit: operate.AtMost(10_000)})
	for _, c := range log {
		if !strings.HasPrefix(c.By, "wave ") || c.Action != string(store.Staged) {
			continue
		}
		if c.To == string(rollout.StageOld) {
			back++
		} else {
			forward++
		}
	}
	return forward, back
}

func (r *waveRun) killLeader() {
	for i, g := range r.gateways {
		if strings.Contains(g.process.all("stderr"), "a wave moved a partner") || i == 1 {
			r.cluster.kill(r.t, g)
			r.gateways[i] = r.start(r.t, r.config)
			return
		}
	}
}

// reset starts the counts of a partner again, and lets it go on.
func (r *waveRun) reset(key string) {
	id := operate.PartnerRef{Partner: string(partner.Of(key))}
	in := []any{id, operate.Decision{Author: operate.Author{By: "anna"}, Force: operate.Force{rollout.Unproven}}}
	r.await("the counts start again", func() bool { // a busy store may need longer to have the last of them
		return r.admin().send(r.t.Context(), http.MethodPost, "/rollout/reset", nil, in...) == nil
	})
	for _, w := range r.waves() {
		_ = r.admin().send(r.t.Context(), http.MethodPost, wavePath+"/"+w.Name+"/release", nil, operate.Author{By: "anna"}, id)
	}
}

func (r *waveRun) resetAll() {
	for _, key := range r.keys {
		r.reset(key)
	}
}

// readAll reads all bills with an unknown outcome, until few are left.
func (r *waveRun) readAll() {
	r.await("unknown outcomes are resolved", func() bool {
		var reads operate.Reads
		must(r.t, r.admin().send(r.t.Context(), http.MethodPost, "/rollout/read-all", &reads))
		return reads.Unknown == 0
	})
}

// check compares the backends with the answers that partners got.
func (r *waveRun) check() {
	at := map[string]int{}
	for n, service := range r.services {
		for _, b := range service.Bills() {
			if other, twice := at[b.ID]; twice {
				r.t.Errorf("%s is at both backends: %d and %d", b.ID, other, n)
			}
			at[b.ID] = n
		}
	}
	for bill := range r.created {
		if _, is := at[bill]; !is {
			r.t.Errorf("%s was created by its answer, and is at no backend", bill)
		}
	}
	r.t.Logf("%d bills were acknowledged, and each is at one backend", len(r.created))
}
