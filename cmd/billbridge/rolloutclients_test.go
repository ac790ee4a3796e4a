package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// The partners of the rollout tests. They read a bill if an outcome is unknown, and continue from its state.

// The keys of the partners.
const (
	oldPartner     = "old-partner"     // has bills from before the gateway, so it is never drained
	freshPartner   = "fresh-partner"   // has no old bills, and goes through every stage
	defaultPartner = "default-partner" // has no stage of its own
)

var partnerNames = []string{oldPartner, freshPartner, defaultPartner}

// A partnerCall is a call of a partner and its result.
type partnerCall struct {
	id, form, op string
	at           billRef
	wrong        bool // the hash is wrong: the call must be refused
	through      *gateway
	write        fault
	read         [2]fault  // the faults of reads at both backends, also those of the gateway
	before       [2]string // the state of the bill at both backends
	after        [2]string

	status int
	body   string
	err    error
	code   string // "" for an unknown outcome

	arrivals, effects int // of a write at the backends; guarded by the lock of rolloutRun
}

// A client creates, pays and ends one bill.
type client struct {
	*rolloutRun
	rnd          *rand.Rand
	form         string
	at           billRef
	merchant     string
	existsBefore bool // before the gateway
}

// maxTries bounds the repetitions of a call.
const maxTries = 100

// newClient returns the nth client. The seed determines all that it draws.
func (m *rolloutRun) newClient(n int) *client {
	c := &client{rolloutRun: m, rnd: rand.New(rand.NewPCG(m.seed, uint64(n)))}
	c.form = []string{"v2", "legacy"}[c.rnd.IntN(2)]
	c.at = billRef{partnerNames[n%len(partnerNames)], fmt.Sprintf("BILL%d", n)}
	c.merchant = fmt.Sprintf("store%d", n%7)
	c.existsBefore = c.at.partner == oldPartner && n < oldBills
	return c
}

func (c *client) oneIn(n int) bool { return c.rnd.IntN(n) == 0 }

// run makes the calls of a bill and records its final state.
func (c *client) run(ctx context.Context) {
	if !c.existsBefore || c.oneIn(2) {
		c.create(ctx)
	}
	goal := "W"
	for range c.rnd.IntN(3) {
		c.send(ctx, c.drawCall([]string{"read", "resend"}[c.rnd.IntN(2)]))
	}
	switch c.rnd.IntN(4) {
	case 0:
		goal = "D"
		c.reachState(ctx, "destroy", goal)
	case 1, 2:
		goal = "F"
		c.pay(ctx)
		c.send(ctx, c.drawCall("resend")) // which is refused
		if c.oneIn(3) {
			break
		}
		goal = "C"
		c.reachState(ctx, "cancel", goal)
		c.send(ctx, c.drawCall("destroy")) // which is refused
	}
	if ctx.Err() == nil {
		c.mu.Lock()
		c.finalStates[c.at] = goal
		c.mu.Unlock()
	}
}

// create repeats the create until the bill exists. Some creates are sent several times at once, through different
// gateways and in both forms.
func (c *client) create(ctx context.Context) {
	hard := c.oneIn(3) // the first creates are refused or have an unknown outcome
	for range maxTries {
		var wave []*partnerCall
		for len(wave) == 0 || len(wave) < 3 && c.oneIn(2) {
			s := c.drawCall("create")
			s.form = []string{"v2", "legacy"}[c.rnd.IntN(2)]
			if s.wrong = s.wrong || hard && c.oneIn(2); hard && !s.wrong {
				s.write = []fault{lost, lateEffect}[c.rnd.IntN(2)]
			}
			wave = append(wave, s)
		}
		hard = false
		var moved sync.WaitGroup
		if c.oneIn(2) { // so that the creates may be routed differently
			moved.Go(func() { c.move(ctx, c.at.partner) })
		}
		c.send(ctx, wave...)
		moved.Wait()
		unsure := false
		for _, s := range wave {
			if s.code == "0000" || s.code == "BILL_001" || ctx.Err() != nil {
				return
			}
			unsure = unsure || s.code == ""
		}
		if c.oneIn(2) {
			c.move(ctx, c.at.partner)
		}
		if unsure && c.readState(ctx) != "" {
			return
		}
	}
	c.t.Errorf("%v cannot be created", c.at)
}

// reachState repeats a call until the bill is in a state.
func (c *client) reachState(ctx context.Context, op, state string) {
	for range maxTries {
		s := c.drawCall(op)
		c.send(ctx, s)
		if s.code == "0000" || ctx.Err() != nil {
			return
		}
		if s.code != "VALIDATION_002" && c.readState(ctx) == state {
			return
		}
	}
	c.t.Errorf("%v does not reach state %s", c.at, state)
}

// readState reads until there is an answer, and returns the state, or "" if there is no such bill.
func (c *client) readState(ctx context.Context) string {
	for range maxTries {
		s := c.drawCall("read")
		c.send(ctx, s)
		if s.code == "0000" {
			return gjson.Get(s.body, "data.apprState").String() + gjson.Get(s.body, "appr_state").String()
		}
		// After a kill a create stays open, and "no such bill" is not passed on for a minute: then the next create goes to the same backend.
		if s.code == "BILL_003" || strings.Contains(s.body, "it is not certain that there is no such bill") || ctx.Err() != nil {
			return ""
		}
	}
	c.t.Errorf("%v cannot be read", c.at)
	return ""
}

// pay pays the bill as its customer.
func (c *client) pay(ctx context.Context) {
	paid := 0
	for _, s := range c.backends {
		if s.service.Pay(c.at.partner, c.at.bill) == nil {
			paid++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(c.at, "paid")
	if c.counts.payments += paid; paid != 1 && ctx.Err() == nil {
		c.violation(c.at, "the bill was paid at %d backends, want 1", paid)
	}
}

// drawCall returns a call with random faults.
func (c *client) drawCall(op string) *partnerCall {
	s := &partnerCall{form: c.form, op: op, at: c.at}
	if op == "create" || op == "destroy" || op == "cancel" {
		s.wrong = c.oneIn(5)
	}
	if c.faultless {
		s.wrong = false
	} else if c.oneIn(6) {
		s.write = faults[c.rnd.IntN(len(faults))]
	}
	for n := range s.read {
		if !c.faultless && c.oneIn(10) {
			s.read[n] = faults[c.rnd.IntN(len(faults))]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.id = fmt.Sprintf("r%d", len(c.sent))
	c.sent[s.id] = s
	return s
}

// send makes calls at the same time, each through a gateway that is alive.
func (c *client) send(ctx context.Context, wave ...*partnerCall) {
	turn := c.rnd.Int()
	var all sync.WaitGroup
	for i, s := range wave {
		all.Go(func() {
			through, err := c.cluster.anyGateway(ctx, turn+i)
			if err != nil {
				s.err = err
				return
			}
			c.mu.Lock()
			s.through, s.before = through, c.states(s.at)
			c.note(s.at, "%s: a %s %s, signed wrong: %t", s.id, s.form, s.op, s.wrong)
			c.mu.Unlock()
			s.status, s.body, s.err = c.exchange(ctx, "http://"+through.partners, s, c.merchant)
			s.after = c.states(s.at)
			c.checkAnswer(ctx, s)
		})
	}
	all.Wait()
	if len(wave) > 1 && wave[0].through != wave[1].through {
		c.mu.Lock()
		c.counts.together++
		c.mu.Unlock()
	}
	c.decide(ctx, len(wave))
}

func (m *rolloutRun) exchange(ctx context.Context, url string, s *partnerCall, merchant string) (int, string, error) {
	body := operationBody(s.form, s.op, s.at, merchant, s.wrong)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+operationPath(s.form, s.op), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", s.id)
	reply, err := m.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = reply.Body.Close() }()
	answer, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(answer), err
}

// anyGateway returns a gateway that is alive, and waits for one if necessary.
func (b *cluster) anyGateway(ctx context.Context, turn int) (*gateway, error) {
	for {
		b.mu.Lock()
		started, n := b.started, len(b.alive)
		if n > 0 {
			defer b.mu.Unlock()
			return b.alive[turn%n], nil
		}
		b.mu.Unlock()
		select {
		case <-started:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *cluster) isAlive(g *gateway) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.alive {
		if one == g {
			return true
		}
	}
	return false
}

// namedState matches a state in the answer to a read or in the explanation of an unknown outcome.
var namedState = regexp.MustCompile(`bill in state ([A-Z])\.|"appr_?[sS]tate": ?"([A-Z])"`)

var stateRank = map[string]int{"": -1, "W": 0, "F": 1, "D": 1, "C": 2}

// wasPossible reports whether a bill can have been in a state between two others. The order is W, F, C or W, D.
func wasPossible(before, state, after string) bool {
	goesTo := func(from, to string) bool {
		return from == to || stateRank[from] < stateRank[to] && from != "D"
	}
	return goesTo(before, state) && goesTo(state, after)
}

// checkAnswer compares an answer with the bills and writes of the backends.
func (m *rolloutRun) checkAnswer(ctx context.Context, s *partnerCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.calls++
	if s.err != nil {
		m.counts.cutOff++
		if m.cluster.isAlive(s.through) && ctx.Err() == nil {
			m.violation(s.at, "%s: no answer from a gateway that is alive: %v", s.id, s.err)
		}
		return
	}
	m.note(s.at, "%s: HTTP %d %s", s.id, s.status, strings.TrimSpace(s.body))
	s.code = gjson.Get(s.body, "code").String()
	if s.code == "" && s.status == http.StatusOK && s.form == "legacy" && s.op == "read" {
		s.code = "0000" // a successful legacy read has no code
	}
	write, existed, exists := s.op != "read", s.before != [2]string{}, s.after != [2]string{}
	stayed := func(state string) bool { return s.before[0]+s.before[1] == state && s.after == s.before }
	wrong := false // the answer contradicts the backends
	switch s.code {
	case "0000":
		m.counts.acknowledged++
		if write && s.effects != 1 {
			m.violation(s.at, "%s: it was acknowledged and took effect %d times", s.id, s.effects)
		}
		wrong = !exists
	case "":
		m.counts.unknown++
		if !write || s.status == http.StatusOK || !strings.Contains(s.body, "outcome unknown") {
			m.violation(s.at, "%s: no outcome: HTTP %d %s", s.id, s.status, s.body)
		}
	case "BILL_001":
		wrong = !exists
	case "BILL_002":
		wrong = !exists || s.op == "destroy" && stayed("W") || s.op == "cancel" && stayed("F")
	case "BILL_003":
		wrong = existed
	case "BILL_006":
		wrong = !exists || stayed("W")
	case "VALIDATION_002":
		wrong = !s.wrong
	case "ERROR": // a failed read; a failed write would have an unknown outcome
		wrong = write
	case "MAINTAINED_METHOD":
		// The second text takes the place of the "no such bill" of a backend.
		notSent, open := strings.Contains(s.body, "nothing was sent"), strings.Contains(s.body, "it is not certain that there is no such bill")
		wrong = !notSent && !open || notSent && s.arrivals > 0
	default:
		wrong = true
	}
	if s.code != "0000" && s.code != "" {
		m.counts.refused++
		if s.effects > 0 {
			m.violation(s.at, "%s: it was refused and took effect: %s", s.id, s.body)
		}
	}
	if wrong || s.wrong && s.code == "0000" {
		m.violation(s.at, "%s: the bill was %q, then %q, and the answer is %s", s.id, s.before, s.after, s.body)
	}
	for _, found := range namedState.FindAllStringSubmatch(s.body, -1) {
		m.counts.named++
		if state := found[1] + found[2]; !wasPossible(s.before[0], state, s.after[0]) && !wasPossible(s.before[1], state, s.after[1]) {
			m.violation(s.at, "%s: it names state %s, and the bill was %q, then %q", s.id, state, s.before, s.after)
		}
	}
}
