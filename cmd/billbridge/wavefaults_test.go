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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/wave"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
)

// A waveRun is gateways, two backends, and partners that bill through them.
type waveRun struct {
	*cluster
	t        *testing.T
	gateways []*gateway
	config   string
	services []*sandbox.Service
	keys     []string
	byShort  map[string]int // keys by their short hash
	client   *http.Client
	fault    atomic.Pointer[waveFault]
	busy     atomic.Pointer[[]int] // the keys whose partners bill more than others: those that the waves are moving
	bills    atomic.Int64

	// from the audit log
	forward   int
	takenBack []string
	before    struct{ forward, takenBack int } // the fault
	others    []string                         // why waves paused for another reason than that of the fault

	mu      sync.Mutex
	created map[string]bool // bills whose create was acknowledged
	lost    []string        // of these, those that a read did not find
	calls   int             // since the fault began
	refused map[string]int  // of these, those that did not get what they should, by their code
}

// Two waves move 500 partners while a fault of each kind happens: each stops what it must, no bill is lost or at two
// backends, and all partners get through. The output ends with a table. The pace is the fastest one, 1/s for each wave.
func TestWavesUnderFaults(t *testing.T) {
	if !proxytest.Long() {
		t.Skip("it takes minutes: set BILLBRIDGE_LONG=1, as .ci/long does. TestOperatorDecisions has each reason by itself")
	}
	for _, with := range []struct {
		name     string
		url      func(testing.TB) string
		gateways int
		kill     bool // a gateway that makes steps, during each fault
	}{
		{name: "one gateway on SQLite", url: proxytest.SQLite, gateways: 1},
		{name: "two gateways on PostgreSQL, one is killed during each fault", url: proxytest.Postgres, gateways: 2, kill: true},
	} {
		t.Run(with.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := newWaveRun(t, 500, with.url(t), with.gateways)
			end := r.bill()
			// 340 and 330 steps: both waves last as long.
			r.start("autumn", "canary:50,new", r.keys[:170])
			r.start("winter", "canary:50", r.keys[170:])
			table := "fault | the waves pause | after | steps forward until then | taken back | calls | of these refused or wrong\n"
			for i, f := range waveFaults {
				r.await("the next fault", func() bool { return r.forward > 75*i }) // the last one when most steps are made
				row := r.run(&f, with.kill && f.action == nil)
				t.Log(row)
				table += row + "\n"
			}
			r.await("all partners get through", func() bool { return r.running() == 0 })
			end()
			r.check()
			t.Logf("%s, %s\n%s", with.name, time.Since(began).Round(time.Second), table)
		})
	}
}

// weakVerdict is for other processes: see [proxytest.Tuned].
var weakVerdict = proxytest.Tuned(func(c *config.Config) {
	c.Rollout.Verdict.Bills, c.Rollout.Verdict.Unclear, c.Rollout.UnknownRate = 3, 0.5, 50
})

func newWaveRun(t *testing.T, number int, url string, gateways int) *waveRun {
	r := &waveRun{cluster: newCluster(t), t: t, byShort: map[string]int{}, created: map[string]bool{}, refused: map[string]int{}}
	var ids []partner.ID
	for i := range number {
		key := fmt.Sprint("wave-key-", i)
		r.keys, ids = append(r.keys, key), append(ids, partner.Of(key))
		r.byShort[ids[i].Short()] = i
	}
	_ = proxytest.BeginRollout(t, url, ids...)
	r.services, r.config = startBackends(t, "legacy", "v2", ", timeout: 5s", r.keys, r.serve)
	r.config += fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nroute: {default: old}\nfailures: {explain: 300ms}\n"+
		"rollout: {old: old, new: new, settle: 8s, verdict: {comparisons: 5, paid: 1, mismatch: 0.5}}\nstore: {url: %q}\n", url) + weakVerdict
	r.client = r.cluster.client(t)
	for range gateways {
		r.gateways = append(r.gateways, r.cluster.start(t, r.config))
	}
	return r
}

// start starts a wave.
func (r *waveRun) start(name, steps string, keys []string) {
	order := operate.WaveOrder{WaveName: operate.WaveName{Name: name}}
	must(r.t, order.Steps.UnmarshalText([]byte(steps)))
	order.Each, order.Stay = wave.Pace{Steps: 60, Per: time.Minute}, wave.Duration(time.Second)
	for _, key := range keys {
		order.Partners += string(partner.Of(key)) + "\n"
	}
	r.post(wavePath, nil, order)
}

// serve is a backend.
func (r *waveRun) serve(n int, service *sandbox.Service, w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
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
		service.ServeHTTP(answer, q)
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

// bill lets partners bill until the caller calls end.
func (r *waveRun) bill() (end func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for ctx.Err() == nil {
				n := rand.IntN(len(r.keys))
				if busy := r.busy.Load(); busy != nil && len(*busy) > 0 && rand.IntN(5) > 0 {
					n = (*busy)[rand.IntN(len(*busy))]
				}
				r.billOnce(ctx, []string{"legacy", "v2"}[n%2], billRef{r.keys[n], fmt.Sprint("WAVE", r.bills.Add(1))})
				<-time.After(100 * time.Millisecond) // the gateways need the CPU
			}
		})
	}
	end = func() { cancel(); all.Wait() }
	r.t.Cleanup(end)
	return end
}

// billOnce is the life of a bill: it is created, with the same id until there is an answer, read, paid and read again.
func (r *waveRun) billOnce(ctx context.Context, form string, at billRef) {
	for exists := false; !exists; {
		if ctx.Err() != nil {
			return
		}
		code := r.call(ctx, form, "create", at)
		if exists = code == "0000" || code == "BILL_001"; !exists {
			<-time.After(100 * time.Millisecond) // as a program that tries again
		}
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

// call makes a call, and returns its code.
func (r *waveRun) call(ctx context.Context, form, operation string, at billRef) string {
	status, answer, err := post(ctx, r.client, clusterURL+operationPath(form, operation), operationBody(form, operation, at, "m", false))
	code := gjson.Get(answer, "code").String()
	if state := gjson.Get(answer, "appr_state"); code == "" && state.Exists() {
		code = "0000"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.calls++; {
	case strings.Contains(answer, "20001"):
		r.refused["wrong amount"]++
	case ctx.Err() != nil || code == "0000" || code == "BILL_001" && operation == "create":
	case err != nil:
		r.refused["no answer"]++
	case code == "BILL_003":
		r.lost = append(r.lost, at.bill)
		fallthrough
	default:
		r.refused[fmt.Sprint(status, " ", code)]++
	}
	return code
}

// run has one fault, and ends when the waves make steps again.
func (r *waveRun) run(f *waveFault, kill bool) string {
	equal(r.t, r.running(), 2, f.name)
	r.mu.Lock()
	r.calls, r.refused = 0, map[string]int{}
	r.mu.Unlock()
	r.before.forward, r.before.takenBack, r.others = r.forward, len(r.takenBack), nil
	began := time.Now()
	r.fault.Store(f)
	if f.action != nil {
		f.action(r)
	}
	if kill {
		r.killGateway()
	}
	paused := "no"
	if f.until == nil {
		f.until = func(r *waveRun) (is bool) {
			paused, is = r.paused(f.pauses)
			return is
		}
	}
	r.await(f.name, func() bool { return f.until(r) })
	took := time.Since(began)
	forward, taken := r.forward-r.before.forward, len(r.takenBack)-r.before.takenBack
	r.fault.Store(nil)
	if f.repair != nil {
		f.repair(r)
	}
	r.await("the waves are resumed after "+f.name, func() bool { return r.resume(nil) })
	resumed := r.forward
	r.await("the waves go on after "+f.name, func() bool { return r.forward > resumed+4 })
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := 0
	for _, n := range r.refused {
		failed += n
	}
	return fmt.Sprintf("%s | %s %v | %s | %d | %d | %d | %d (%.2f %%) %v", f.name, paused, r.others,
		took.Round(100*time.Millisecond), forward, taken, r.calls, failed, 100*float64(failed)/float64(max(r.calls, 1)), r.refused)
}

// running returns how many waves have not ended.
func (r *waveRun) running() (n int) {
	for _, w := range r.waves() {
		if w.State != store.WaveEnded {
			n++
		}
	}
	return n
}

// paused returns why the waves are paused, and whether all of them are for one of these reasons.
func (r *waveRun) paused(why *regexp.Regexp) (reasons string, all bool) {
	all = true
	for _, w := range r.waves() {
		if reason := why.FindString(w.Why.String()); w.State == store.WavePaused && reason != "" {
			reasons += w.Name + ": " + reason + ". "
		} else if w.State != store.WaveEnded {
			all = false
		}
	}
	return reasons, all
}

// resume does what a person does about waves that have paused for another reason than why: it resolves unknown
// outcomes, and resumes the waves. It reports whether all of them run.
func (r *waveRun) resume(why *regexp.Regexp) bool {
	all := true
	for _, w := range r.waves() {
		if w.State != store.WavePaused || why != nil && why.MatchString(w.Why.String()) {
			continue
		}
		if r.try("/rollout/read-all"); !r.try(wavePath+"/"+w.Name+"/resume", operate.Author{By: "anna"}) {
			all = false
		} else if f := r.fault.Load(); f != nil {
			r.others = append(r.others, w.Why.String())
		}
	}
	return all
}

// await waits, and looks at the audit log meanwhile.
func (r *waveRun) await(what string, is func() bool) {
	r.t.Helper()
	late := time.Now().Add(10 * proxytest.Patience)
	for r.follow(); !is(); r.follow() {
		if time.Now().After(late) {
			r.t.Fatalf("not in time: %s\n%+v", what, r.waves())
		}
		if f := r.fault.Load(); f == nil {
			r.release()
			r.resume(nil)
		} else {
			r.resume(f.pauses)
		}
		<-time.After(time.Second)
	}
}

// follow reads the audit log: what the waves did, and which partners they are moving.
func (r *waveRun) follow() {
	var log []operate.Change
	must(r.t, r.admin().get(r.t.Context(), "/audit", &log, operate.AuditPage{Limit: operate.AtMost(10_000)}))
	at := map[string]string{}
	busy := []int{r.byShort[partner.Of(victim).Short()]}
	r.forward, r.takenBack = 0, nil
	for i, c := range slices.Backward(log) {
		key, known := r.byShort[c.Partner]
		if !known || c.Action != string(store.Staged) {
			continue
		}
		if at[c.Partner] = c.To; c.To == string(rollout.StageOld) {
			r.takenBack = append(r.takenBack, c.Partner)
		} else {
			r.forward++
		}
		if i < 20 { // the last ones
			busy = append(busy, key)
		}
	}
	for short, stage := range at {
		if key := r.byShort[short]; key < 170 && stage == string(rollout.StageCanary) {
			busy = append(busy, key)
		}
	}
	r.busy.Store(&busy)
}

// admin is the admin listener of a gateway.
func (r *waveRun) admin() *adminFlags {
	return &adminFlags{Admin: "http://" + r.gateways[0].operator}
}

func (r *waveRun) post(path string, into any, in ...any) {
	r.t.Helper()
	must(r.t, r.admin().send(r.t.Context(), http.MethodPost, path, into, append(in, operate.Author{By: "anna"})...))
}

func (r *waveRun) try(path string, in ...any) bool {
	return r.admin().send(r.t.Context(), http.MethodPost, path, nil, in...) == nil
}

func (r *waveRun) waves() (all []operate.WaveInfo) {
	must(r.t, r.admin().get(r.t.Context(), wavePath, &all))
	return all
}

// killGateway kills the gateway that made the last step, and starts another one.
func (r *waveRun) killGateway() {
	const moves = "a wave moved a partner"
	last, since := -1, ""
	r.await("a gateway makes a step", func() bool {
		for i, g := range r.gateways {
			for line := range strings.Lines(g.process.all("stderr")) {
				if strings.Contains(line, moves) && line > since { // begins with the time
					last, since = i, line
				}
			}
		}
		return last >= 0
	})
	r.cluster.kill(r.t, r.gateways[last])
	r.gateways[last] = r.cluster.start(r.t, r.config)
}

// reset is what a person does after a fault: the bills with an unknown outcome are read, all counts begin again, and
// partners that were taken back go on.
func (r *waveRun) reset() {
	r.await("the counts are reset", func() bool {
		var reads operate.Reads
		return r.try("/rollout/read-all") && r.admin().get(r.t.Context(), "/rollout/reads", &reads) == nil && reads.Unknown == 0 &&
			r.try("/rollout/reset", operate.PartnerRef{Partner: operate.All}, operate.Decision{
				Author: operate.Author{By: "anna"}, Force: operate.Force{rollout.Unproven, rollout.Unchecked},
			})
	})
	r.release()
}

// release lets the partners that were taken back go on.
func (r *waveRun) release() {
	for _, w := range r.waves() {
		var info operate.WaveInfo
		if w.State == store.WaveEnded || w.Waits == 0 ||
			r.admin().get(r.t.Context(), wavePath+"/"+w.Name, &info, operate.WaveQuery{Limit: operate.AtMost(1000)}) != nil {
			continue
		}
		for _, p := range info.Partners {
			if p.Waits.Kind != "" {
				id := operate.PartnerRef{Partner: p.Partner}
				r.try("/rollout/reset", id, operate.Decision{
					Author: operate.Author{By: "anna"}, Force: operate.Force{rollout.Unproven, rollout.Unchecked},
				})
				r.try(wavePath+"/"+w.Name+"/release", operate.Author{By: "anna"}, id)
			}
		}
	}
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
	if len(r.lost) > 0 {
		r.t.Errorf("reads did not find these bills: %v", r.lost)
	}
	r.t.Logf("%d bills were acknowledged, and each is at one backend", len(r.created))
}
