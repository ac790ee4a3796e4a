package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/sandbox"
)

// Partners move between stages while calls fail and the gateway is killed with kill -9 during calls. In the end every
// bill is at one backend, acknowledged writes took effect once, and refused ones did not. No write reached a backend that
// is not the owner, and no answer had a wrong state.
func TestRolloutKeepsEveryBillAtOneBackendUnderKill(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	m := newRolloutRun(t, b, "legacy", "v2", "sqlite:"+filepath.Join(b.folder, "bridge.db"))
	m.run(t, 1)
}

// The same with two replicas on one PostgreSQL, and with the forms of the backends exchanged.
func TestRolloutReplicasKeepEveryBillAtOneBackendUnderKill(t *testing.T) {
	t.Parallel()
	m := newRolloutRun(t, newCluster(t), "v2", "legacy", proxytest.Postgres(t))
	m.run(t, proxytest.Size(1, 2))
}

// The seed determines all random choices, but not the timing of calls and kills.
var rolloutSeed = flag.Uint64("rollout.seed", 0, "the seed of the tests of rollouts under kill; a new one if it is 0")

const (
	rolloutKills = 8
	clientCount  = 12 // at the same time
	oldBills     = 90 // bills of oldPartner from before the gateway
	decideEvery  = 15 // calls between two changes
)

// A rolloutRun has partners, gateways and two backends.
type rolloutRun struct {
	t         *testing.T
	seed      uint64
	config    string
	cluster   *cluster
	client    *http.Client
	backends  [2]*backend
	writes    sync.WaitGroup // writes at the backends that are under way
	stopping  atomic.Bool    // clients begin no other bill
	faultless bool           // no more faults

	deciding sync.Mutex // serializes changes
	rnd      *rand.Rand // for the changes
	plan     []change   // the first changes
	stopped  bool
	since    int // the number of calls since the last change

	mu          sync.Mutex
	counts      runCounts
	sent        map[string]*partnerCall
	openCreates map[billRef]*[2]creates
	effects     map[billRef]map[string]int // the number of writes that took effect, by operation
	finalStates map[billRef]string         // the states that clients have reached
	history     map[billRef][]string
	nextKill    *plannedKill
	reported    map[billRef]bool // the history was printed
}

// A change sets the stage of a partner, or the default stage.
type change struct{ who, stage, percent string }

// creates are the creates of a bill at a backend.
type creates struct {
	underWay int
	mayExist bool // the bill may exist or come into existence
}

// runCounts are the counts of a run.
type runCounts struct {
	calls, acknowledged, refused, unknown, cutOff, named, faults, payments, together, stages, stops, undecided int
}

func newRolloutRun(t *testing.T, b *cluster, old, fresh, storeURL string) *rolloutRun {
	t.Helper()
	m := &rolloutRun{
		t: t, seed: cmp.Or(*rolloutSeed, rand.Uint64()), cluster: b, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		sent: map[string]*partnerCall{}, openCreates: map[billRef]*[2]creates{}, effects: map[billRef]map[string]int{},
		finalStates: map[billRef]string{}, history: map[billRef][]string{}, reported: map[billRef]bool{},
	}
	t.Cleanup(m.client.CloseIdleConnections)
	m.rnd = rand.New(rand.NewPCG(m.seed, 1<<63))
	for _, stage := range []string{"shadow", "canary", "new"} { // every partner goes through all stages, and then to random ones
		for _, who := range partnerNames {
			m.plan = append(m.plan, m.drawChange(who, stage))
		}
	}
	m.backends = [2]*backend{newBackend(t, m, 0, old), newBackend(t, m, 1, fresh)}
	m.config = fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams:
  old: {form: %s, url: %q, timeout: 300ms}
  new: {form: %s, url: %q, timeout: 300ms}
route: {default: old}
failures: {explain: 300ms}
rollout: {old: old, new: new, ask: 300ms}
store: {url: %q}
`, old, m.backends[0].url, fresh, m.backends[1].url, storeURL)
	var ids []partner.ID
	for _, key := range partnerNames {
		ids = append(ids, partner.Of(key))
	}
	if err := proxytest.BeginRollout(t, storeURL, ids...).Close(); err != nil {
		t.Fatal(err)
	}
	for n := range oldBills {
		if c := m.newClient(n); c.existsBefore {
			body := operationBody(old, "create", c.at, c.merchant, false)
			if answer, code := m.backends[0].do(operationPath(old, "create"), []byte(body)); code != "0000" {
				t.Fatalf("%s", answer.Body)
			}
			m.effectsOn(c.at)["create"]++
		}
	}
	return m
}

// run kills gateways while clients make calls, and checks the backends at the end.
func (m *rolloutRun) run(t *testing.T, replicas int) {
	start, rnd := time.Now(), rand.New(rand.NewPCG(m.seed, 1<<62))
	var gateways []*gateway
	for range replicas {
		gateways = append(gateways, m.cluster.start(t, m.config))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // for the whole run
	var clients sync.WaitGroup
	t.Cleanup(func() { cancel(); clients.Wait() })
	var began atomic.Int64
	for range clientCount {
		clients.Go(func() {
			for !m.stopping.Load() && ctx.Err() == nil {
				m.newClient(int(began.Add(1)) - 1).run(ctx)
			}
		})
	}
	for kill := range rolloutKills {
		n := kill % replicas
		planned := m.planKill(rnd, gateways[n], replicas)
		select {
		case <-planned.due:
		case <-ctx.Done():
			t.Fatalf("seed %d: no call through gateway %d", m.seed, n)
		}
		m.cluster.kill(t, gateways[n])
		close(planned.killed)
		gateways[n] = m.cluster.start(t, m.config)
	}
	m.stopping.Store(true)
	clients.Wait()
	m.writes.Wait()
	if ctx.Err() != nil {
		t.Fatalf("seed %d: the run did not end in time", m.seed)
	}
	m.faultless = true
	m.readAll(ctx)
	for _, g := range gateways {
		terminate(t, m.cluster, g)
	}
	bills := m.checkBackends()
	m.mu.Lock()
	s := m.counts
	m.mu.Unlock()
	if s.cutOff == 0 || replicas > 1 && s.together == 0 {
		t.Errorf("%d calls were cut off, %d bills were created through both replicas at the same time", s.cutOff, s.together)
	}
	t.Logf("seed %d, %s to %s, %d replicas: %d calls (%d acknowledged, %d refused, %d of unknown outcome, %d cut off by a kill), %d bills (%d at old, %d at new), "+
		"%d created through both replicas at the same time, %d kills, %d stage changes, %d stops and resumes, %d changes cut off, %d faults, %d payments, "+
		"%d states named, within %s",
		m.seed, m.backends[0].form, m.backends[1].form, replicas, s.calls, s.acknowledged, s.refused, s.unknown, s.cutOff, bills[0]+bills[1], bills[0], bills[1],
		s.together, rolloutKills, s.stages, s.stops, s.undecided, s.faults, s.payments, s.named, time.Since(start).Round(100*time.Millisecond))
}

// planKill plans the kill of a gateway during a call.
func (m *rolloutRun) planKill(rnd *rand.Rand, through *gateway, replicas int) *plannedKill {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nextKill = &plannedKill{through: through, calls: (60 + rnd.IntN(120)) / replicas, when: killMoment(rnd.IntN(4)), due: make(chan struct{}), killed: make(chan struct{})}
	if m.nextKill.when == duringRead {
		m.nextKill.calls = (4 + rnd.IntN(24)) / replicas // such calls are rare
	}
	return m.nextKill
}

// decide makes a change after a number of calls.
func (m *rolloutRun) decide(ctx context.Context, calls int) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	if m.since += calls; m.since < decideEvery {
		return
	}
	m.since = 0
	if stop := m.rnd.IntN(8) == 0 || m.stopped && m.rnd.IntN(2) == 0; stop {
		what := map[bool]string{false: "stop", true: "resume"}[m.stopped]
		before := m.counts.undecided
		if m.operate(ctx, "/rollout/"+what+"?by=test") {
			m.counts.stops++
			m.stopped = !m.stopped
		} else if m.counts.undecided > before {
			m.stopped = false // not known; stop works in both states, resume does not
		}
		return
	}
	if len(m.plan) > 0 {
		var c change
		c, m.plan = m.plan[0], m.plan[1:]
		m.set(ctx, c)
		return
	}
	m.set(ctx, m.drawChange(partnerNames[m.rnd.IntN(len(partnerNames))], ""))
}

// move makes a change while a partner creates a bill or resolves an unknown outcome.
func (m *rolloutRun) move(ctx context.Context, who string) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	m.set(ctx, m.drawChange(who, ""))
}

func (m *rolloutRun) set(ctx context.Context, c change) {
	// With force: the test waits for no verdict, the ledger has the bills of drained partners, and the settling period is
	// over.
	q := url.Values{"by": {"test"}, "partner": {string(partner.Of(c.who))}, "stage": {c.stage}, "force": {rollout.JoinKinds(rollout.ReasonKinds)}}
	if c.who == defaultPartner {
		q.Set("partner", "default")
	}
	if c.percent != "" {
		q.Set("percent", c.percent)
	}
	if m.operate(ctx, "/rollout/stage?"+q.Encode()) {
		m.counts.stages++
	}
}

// drawChange returns a change of a partner, to a random stage if none is given.
func (m *rolloutRun) drawChange(who, stage string) change {
	stages := []string{"old", "shadow", "canary", "canary", "new", "new", "drained", "drained"}
	if who != freshPartner {
		stages = stages[:6]
	}
	c := change{who: who, stage: cmp.Or(stage, stages[m.rnd.IntN(len(stages))])}
	if c.stage == "canary" {
		c.percent = []string{"0", "30", "60", "100"}[m.rnd.IntN(4)]
	}
	return c
}

// operate makes a change through a gateway that is alive. It reports whether the change is known to be made.
func (m *rolloutRun) operate(ctx context.Context, target string) bool {
	g, err := m.cluster.anyGateway(ctx, m.rnd.Int())
	if err != nil {
		return false
	}
	status, answer, err := post(ctx, m.client, "http://"+g.operator+target, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && (!m.cluster.isAlive(g) || ctx.Err() != nil):
		m.counts.undecided++
	case err != nil || status != http.StatusOK:
		m.t.Errorf("%s: %d %s, %v", target, status, answer, err)
	}
	return err == nil && status == http.StatusOK
}

// readAll reads every bill in both forms, without faults.
func (m *rolloutRun) readAll(ctx context.Context) {
	m.mu.Lock()
	goals := m.finalStates
	m.mu.Unlock()
	readers, todo := sync.WaitGroup{}, make(chan billRef)
	for range clientCount {
		readers.Go(func() {
			for at := range todo {
				var n int
				_, _ = fmt.Sscanf(at.bill, "BILL%d", &n)
				c := m.newClient(n)
				for _, c.form = range []string{"v2", "legacy"} {
					if got := c.readState(ctx); got != goals[at] {
						m.mu.Lock()
						m.violation(at, "read in state %q, want %q", got, goals[at])
						m.mu.Unlock()
					}
				}
			}
		})
	}
	for at := range goals {
		todo <- at
	}
	close(todo)
	readers.Wait()
}

// checkBackends compares the backends with the acknowledged and refused calls. It returns the number of bills of each
// backend.
func (m *rolloutRun) checkBackends() (bills [2]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sent {
		switch {
		case s.op == "read":
		case s.arrivals > 1 || s.effects > 1:
			m.violation(s.at, "%s: arrived at the backends %d times and took effect %d times", s.id, s.arrivals, s.effects)
		case s.code == "0000" && s.effects != 1:
			m.violation(s.at, "%s: acknowledged, but took effect %d times", s.id, s.effects)
		case s.code != "" && s.code != "0000" && s.effects != 0:
			m.violation(s.at, "%s: refused with %s, but took effect", s.id, s.code)
		}
	}
	found := map[billRef]sandbox.Bill{}
	for n, backend := range m.backends {
		for _, b := range backend.service.Bills() {
			at := billRef{b.Partner, b.ID}
			if _, twice := found[at]; twice {
				m.violation(at, "the bill is at both backends")
			}
			found[at] = b
			bills[n]++
			did := m.effects[at]
			want := map[string]int{"create": 1, "resend": b.Messages - 1}
			switch b.State {
			case "D":
				want["destroy"] = 1
			case "C":
				want["cancel"] = 1
			}
			for _, op := range operations {
				if did[op] != want[op] {
					m.violation(at, "it is in state %s with %d messages, and a %s took effect %d times", b.State, b.Messages, op, did[op])
				}
			}
		}
	}
	for at, goal := range m.finalStates {
		if got := found[at].State; got != goal {
			m.violation(at, "in state %q, want %q", got, goal)
		}
	}
	if len(m.finalStates) == 0 || bills[0] == 0 || bills[1] == 0 {
		m.t.Errorf("%d bills have a final state, and the backends have %v bills: too few", len(m.finalStates), bills)
	}
	return bills
}

func (m *rolloutRun) states(at billRef) [2]string {
	return [2]string{m.backends[0].state(at), m.backends[1].state(at)}
}

// creates returns the creates of a bill. The lock must be held here and in the functions below.
func (m *rolloutRun) creates(at billRef) *[2]creates {
	if m.openCreates[at] == nil {
		m.openCreates[at] = &[2]creates{}
	}
	return m.openCreates[at]
}

func (m *rolloutRun) effectsOn(at billRef) map[string]int {
	if m.effects[at] == nil {
		m.effects[at] = map[string]int{}
	}
	return m.effects[at]
}

func (m *rolloutRun) note(at billRef, format string, args ...any) {
	m.history[at] = append(m.history[at], fmt.Sprintf(format, args...))
}

// violation reports a violation of a rule. The first one of a bill has the bill's history.
func (m *rolloutRun) violation(at billRef, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !m.reported[at] {
		m.reported[at] = true
		text += "\n\t" + strings.Join(m.history[at], "\n\t")
	}
	m.t.Errorf("seed %d: %v: %s", m.seed, at, text)
}
