package main

import (
	"cmp"
	"context"
	"errors"
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
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
	"billbridge/proxy/store/storetest"
)

// TestRolloutUnderKill: partners are moved to and fro while upstreams fail and the gateway is ended by kill -9, again and
// again, each time over a call that is at a side. In the end every bill is at one side, what was acknowledged is in effect
// once and what was refused is not, and on the way no write came to a side that is not the owner and no answer named a
// wrong state.
func TestRolloutUnderKill(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	m := newMoving(t, b, "legacy", "v2", "sqlite:"+filepath.Join(b.folder, "bridge.db"))
	m.run(t, 1)
}

// TestRolloutReplicasUnderKill is the same with two replicas on one PostgreSQL, which are killed in turn, and between
// upstreams that speak the forms the other way round.
func TestRolloutReplicasUnderKill(t *testing.T) {
	t.Parallel()
	m := newMoving(t, newBridge(t), "v2", "legacy", storetest.Postgres(t))
	m.run(t, 2)
}

// All that is drawn follows from the seed. When calls meet, and which of them a kill hits, does not.
var rolloutSeed = flag.Uint64("rollout.seed", 0, "the seed of the tests of rollouts under kill; a new one if it is 0")

const (
	rolloutKills = 8
	atOneTime    = 12 // clients
	madeBefore   = 90 // of the first bills, the mover's
	decideEvery  = 15 // calls
)

// A moving is two backends, the gateways between them, and partners who move from one to the other.
type moving struct {
	t       *testing.T
	seed    uint64
	config  string
	bridge  *bridge
	client  *http.Client
	sides   [2]*side
	writing sync.WaitGroup // writes at the sides
	ended   atomic.Bool    // no client begins another bill
	calm    bool           // nothing goes wrong any more

	deciding sync.Mutex // one change at a time
	rnd      *rand.Rand // of the operator
	plan     []change   // the first of them
	stopped  bool
	since    int // calls since the last change

	mu    sync.Mutex
	sums  sums
	sent  map[string]*sending
	open  map[spot]*[2]creates
	done  map[spot]map[string]int // writes that took effect
	goals map[spot]string         // the states that the clients brought them to
	story map[spot][]string
	next  *blow
	told  map[spot]bool // that its story was told
}

// A change puts a partner, or all that have no stage of their own, into a stage.
type change struct{ who, stage, percent string }

// creates of a bill at a side that may have made it, or may yet.
type creates struct {
	now    int
	unsure bool // one ended so that it will never be known
}

// sums are what a run lived through.
type sums struct {
	calls, acknowledged, refused, unknown, cutOff, named, mishaps, payments, together, stages, stops, undecided int
}

func newMoving(t *testing.T, b *bridge, old, fresh, storeURL string) *moving {
	t.Helper()
	m := &moving{
		t: t, seed: cmp.Or(*rolloutSeed, rand.Uint64()), bridge: b, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		sent: map[string]*sending{}, open: map[spot]*[2]creates{}, done: map[spot]map[string]int{},
		goals: map[spot]string{}, story: map[spot][]string{}, told: map[spot]bool{},
	}
	t.Cleanup(m.client.CloseIdleConnections)
	m.rnd = rand.New(rand.NewPCG(m.seed, 1<<63))
	for _, stage := range []string{"shadow", "canary", "new"} { // each goes all the way, and then to and fro
		for _, who := range movers {
			m.plan = append(m.plan, m.drawChange(who, stage))
		}
	}
	m.sides = [2]*side{newSide(t, m, 0, old), newSide(t, m, 1, fresh)}
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
`, old, m.sides[0].url, fresh, m.sides[1].url, storeURL)
	s, err := store.Open(t.Context(), storeURL)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Begin(t.Context(), "test", time.Now())
	for _, key := range movers { // seen long ago, so that they may leave
		err = errors.Join(err, s.Seen(t.Context(), partner.Of(key), time.Now().Add(-time.Hour)))
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for n := range madeBefore {
		if c := m.newClient(n); c.made {
			body := operationBody(old, "create", c.at, c.merchant, false)
			if answer, code := m.sides[0].do(operationPath(old, "create"), []byte(body)); code != "0000" {
				t.Fatalf("%s", answer.Body)
			}
			m.did(c.at)["create"]++
		}
	}
	return m
}

// run has clients go on while gateways are killed, and judges when all is over.
func (m *moving) run(t *testing.T, replicas int) {
	start, rnd := time.Now(), rand.New(rand.NewPCG(m.seed, 1<<62))
	var gateways []*gateway
	for range replicas {
		gateways = append(gateways, m.bridge.start(t, m.config))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	var clients sync.WaitGroup
	t.Cleanup(func() { cancel(); clients.Wait() })
	var began atomic.Int64
	for range atOneTime {
		clients.Go(func() {
			for !m.ended.Load() && ctx.Err() == nil {
				m.newClient(int(began.Add(1)) - 1).live(ctx)
			}
		})
	}
	for kill := range rolloutKills {
		n := kill % replicas
		blow := m.expect(rnd, gateways[n], replicas)
		select {
		case <-blow.due:
		case <-ctx.Done():
			t.Fatalf("seed %d: no call comes through gateway %d", m.seed, n)
		}
		m.bridge.kill(t, gateways[n])
		close(blow.struck)
		gateways[n] = m.bridge.start(t, m.config)
	}
	m.ended.Store(true)
	clients.Wait()
	m.writing.Wait()
	if ctx.Err() != nil {
		t.Fatalf("seed %d: it does not come to an end", m.seed)
	}
	m.calm = true
	m.readAll(ctx)
	for _, g := range gateways {
		terminated(t, m.bridge, g)
	}
	bills := m.judgeAll()
	m.mu.Lock()
	s := m.sums
	m.mu.Unlock()
	if s.cutOff == 0 || replicas > 1 && s.together == 0 {
		t.Errorf("%d calls were cut off, %d bills were made through both replicas at the same time", s.cutOff, s.together)
	}
	t.Logf("seed %d, %s to %s, %d replicas: %d calls (%d acknowledged, %d refused, %d of unknown outcome, %d cut off by a kill), %d bills (%d at old, %d at new), "+
		"%d made through both replicas at the same time, %d kills, %d stage changes, %d stops and resumes, %d changes cut off, %d faults, %d payments, "+
		"%d states named, within %s",
		m.seed, m.sides[0].form, m.sides[1].form, replicas, s.calls, s.acknowledged, s.refused, s.unknown, s.cutOff, bills[0]+bills[1], bills[0], bills[1],
		s.together, rolloutKills, s.stages, s.stops, s.undecided, s.mishaps, s.payments, s.named, time.Since(start).Round(100*time.Millisecond))
}

// expect has a gateway killed soon.
func (m *moving) expect(rnd *rand.Rand, through *gateway, replicas int) *blow {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = &blow{through: through, calls: (60 + rnd.IntN(120)) / replicas, when: moment(rnd.IntN(4)), due: make(chan struct{}), struck: make(chan struct{})}
	if m.next.when == asking {
		m.next.calls = (4 + rnd.IntN(24)) / replicas // they are rare
	}
	return m.next
}

// decide is the operator, who changes something after so many calls, whatever else is under way.
func (m *moving) decide(ctx context.Context, calls int) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	if m.since += calls; m.since < decideEvery {
		return
	}
	m.since = 0
	if stop := m.rnd.IntN(8) == 0 || m.stopped && m.rnd.IntN(2) == 0; stop {
		what := map[bool]string{false: "stop", true: "resume"}[m.stopped]
		before := m.sums.undecided
		if m.operate(ctx, "/rollout/"+what+"?by=test") {
			m.sums.stops++
			m.stopped = !m.stopped
		} else if m.sums.undecided > before {
			m.stopped = false // perhaps: what is stopped may be stopped again, but not resumed again
		}
		return
	}
	if len(m.plan) > 0 {
		var c change
		c, m.plan = m.plan[0], m.plan[1:]
		m.set(ctx, c)
		return
	}
	m.set(ctx, m.drawChange(movers[m.rnd.IntN(len(movers))], ""))
}

// move is the operator who changes something just when a partner makes a bill, or does not know what became of it.
func (m *moving) move(ctx context.Context, who string) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	m.set(ctx, m.drawChange(who, ""))
}

func (m *moving) set(ctx context.Context, c change) {
	// Forced: no verdict is waited for, and what a drained partner has at the old backend the ledger knows. All were seen for
	// long enough.
	q := url.Values{"by": {"test"}, "partner": {string(partner.Of(c.who))}, "stage": {c.stage}, "force": {"true"}}
	if c.who == follower {
		q.Set("partner", "default")
	}
	if c.percent != "" {
		q.Set("percent", c.percent)
	}
	if m.operate(ctx, "/rollout/stage?"+q.Encode()) {
		m.sums.stages++
	}
}

// drawChange is of a partner, to any stage if none is given.
func (m *moving) drawChange(who, stage string) change {
	stages := []string{"old", "shadow", "canary", "canary", "new", "new", "drained", "drained"}
	if who != newcomer {
		stages = stages[:6]
	}
	c := change{who: who, stage: cmp.Or(stage, stages[m.rnd.IntN(len(stages))])}
	if c.stage == "canary" {
		c.percent = []string{"0", "30", "60", "100"}[m.rnd.IntN(4)]
	}
	return c
}

// operate makes a change through one of the gateways that live. It tells whether it is known to be made.
func (m *moving) operate(ctx context.Context, target string) bool {
	g, err := m.bridge.one(ctx, m.rnd.Int())
	if err != nil {
		return false
	}
	status, answer, err := post(ctx, m.client, "http://"+g.operator+target, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && (!m.bridge.lives(g) || ctx.Err() != nil):
		m.sums.undecided++
	case err != nil || status != http.StatusOK:
		m.t.Errorf("%s: %d %s, %v", target, status, answer, err)
	}
	return err == nil && status == http.StatusOK
}

// readAll finds every bill again, in either form, when nothing goes wrong any more.
func (m *moving) readAll(ctx context.Context) {
	m.mu.Lock()
	goals := m.goals
	m.mu.Unlock()
	readers, todo := sync.WaitGroup{}, make(chan spot)
	for range atOneTime {
		readers.Go(func() {
			for at := range todo {
				var n int
				_, _ = fmt.Sscanf(at.bill, "BILL%d", &n)
				c := m.newClient(n)
				for _, c.form = range []string{"v2", "legacy"} {
					if got := c.look(ctx); got != goals[at] {
						m.mu.Lock()
						m.breach(at, "it is read in state %q, and was brought to %q", got, goals[at])
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

// judgeAll holds the sides to what was acknowledged and refused, when nothing is under way. It returns how many bills
// they have.
func (m *moving) judgeAll() (bills [2]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sent {
		switch {
		case s.op == "read":
		case s.visits > 1 || s.effects > 1:
			m.breach(s.at, "%s: it came to the sides %d times and took effect %d times", s.id, s.visits, s.effects)
		case s.code == "0000" && s.effects != 1:
			m.breach(s.at, "%s: it was acknowledged and took effect %d times", s.id, s.effects)
		case s.code != "" && s.code != "0000" && s.effects != 0:
			m.breach(s.at, "%s: it was refused with %s and took effect", s.id, s.code)
		}
	}
	found := map[spot]sandbox.Bill{}
	for n, side := range m.sides {
		for _, b := range side.service.Bills() {
			at := spot{b.Partner, b.ID}
			if _, twice := found[at]; twice {
				m.breach(at, "it is at both backends")
			}
			found[at] = b
			bills[n]++
			did := m.done[at]
			want := map[string]int{"create": 1, "resend": b.Messages - 1}
			switch b.State {
			case "D":
				want["destroy"] = 1
			case "C":
				want["cancel"] = 1
			}
			for _, op := range operations {
				if did[op] != want[op] {
					m.breach(at, "it is in state %s with %d messages, and a %s took effect %d times", b.State, b.Messages, op, did[op])
				}
			}
		}
	}
	for at, goal := range m.goals {
		if got := found[at].State; got != goal {
			m.breach(at, "it is in state %q, and was brought to %q", got, goal)
		}
	}
	if len(m.goals) == 0 || bills[0] == 0 || bills[1] == 0 {
		m.t.Errorf("%d bills came to their ends, and the sides have %v", len(m.goals), bills)
	}
	return bills
}

func (m *moving) states(at spot) [2]string {
	return [2]string{m.sides[0].state(at), m.sides[1].state(at)}
}

// creates are those of a bill. The lock is held, as for all below.
func (m *moving) creates(at spot) *[2]creates {
	if m.open[at] == nil {
		m.open[at] = &[2]creates{}
	}
	return m.open[at]
}

func (m *moving) did(at spot) map[string]int {
	if m.done[at] == nil {
		m.done[at] = map[string]int{}
	}
	return m.done[at]
}

func (m *moving) note(at spot, format string, args ...any) {
	m.story[at] = append(m.story[at], fmt.Sprintf(format, args...))
}

// breach is of a rule. The first of a bill comes with all that became of it.
func (m *moving) breach(at spot, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !m.told[at] {
		m.told[at] = true
		text += "\n\t" + strings.Join(m.story[at], "\n\t")
	}
	m.t.Errorf("seed %d: %v: %s", m.seed, at, text)
}
