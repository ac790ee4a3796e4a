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

// Careful partners of gateways that move them: what is not known they read, and they go on from there.

// The partners. What each lives through is what the rules promise something of:
const (
	mover    = "mover"    // has bills from before the bridge; is never drained, as those are still there
	newcomer = "newcomer" // has none; goes through every stage
	follower = "follower" // has no stage of its own
)

var movers = []string{mover, newcomer, follower}

// A sending is one call of a partner, and what came of it.
type sending struct {
	id, form, op string
	at           spot
	wrong        bool // it is signed wrong, and must be refused
	through      *gateway
	write        mishap
	read         [2]mishap // of reads at either backend, the gateway's own too
	before       [2]string // the bill's state at either backend
	after        [2]string

	status int
	body   string
	err    error
	code   string // "" for an unknown outcome

	visits, effects int // of a write, at the sides; the lock of moving is held
}

// A client takes one bill through its life.
type client struct {
	*moving
	rnd      *rand.Rand
	form     string
	at       spot
	merchant string
	made     bool // before the bridge
}

// tries is how often a client does again what did not come out; the world is not that bad.
const tries = 100

// newClient is the nth. All that it draws follows from the seed.
func (m *moving) newClient(n int) *client {
	c := &client{moving: m, rnd: rand.New(rand.NewPCG(m.seed, uint64(n)))}
	c.form = []string{"v2", "legacy"}[c.rnd.IntN(2)]
	c.at = spot{movers[n%len(movers)], fmt.Sprintf("BILL%d", n)}
	c.merchant = fmt.Sprintf("store%d", n%7)
	c.made = c.at.partner == mover && n < madeBefore
	return c
}

func (c *client) oneIn(n int) bool { return c.rnd.IntN(n) == 0 }

// live is the bill's life. What it comes to in the end is told, and is judged when all is over.
func (c *client) live(ctx context.Context) {
	if !c.made || c.oneIn(2) {
		c.create(ctx)
	}
	goal := "W"
	for range c.rnd.IntN(3) {
		c.send(ctx, c.draw([]string{"read", "resend"}[c.rnd.IntN(2)]))
	}
	switch c.rnd.IntN(4) {
	case 0:
		goal = "D"
		c.bring(ctx, "destroy", goal)
	case 1, 2:
		goal = "F"
		c.pay(ctx)
		c.send(ctx, c.draw("resend")) // which is refused
		if c.oneIn(3) {
			break
		}
		goal = "C"
		c.bring(ctx, "cancel", goal)
		c.send(ctx, c.draw("destroy")) // which is refused
	}
	if ctx.Err() == nil {
		c.mu.Lock()
		c.goals[c.at] = goal
		c.mu.Unlock()
	}
}

// create goes on until the bill is there. Some send it more than once at the same time, through whichever gateway, and
// in either form, as partners do that are just changing theirs.
func (c *client) create(ctx context.Context) {
	hard := c.oneIn(3) // none of the first comes out: they are refused, or nobody knows
	for range tries {
		var wave []*sending
		for len(wave) == 0 || len(wave) < 3 && c.oneIn(2) {
			s := c.draw("create")
			s.form = []string{"v2", "legacy"}[c.rnd.IntN(2)]
			if s.wrong = s.wrong || hard && c.oneIn(2); hard && !s.wrong {
				s.write = []mishap{lost, later}[c.rnd.IntN(2)]
			}
			wave = append(wave, s)
		}
		hard = false
		var moved sync.WaitGroup
		if c.oneIn(2) { // so that they may not all want the same side
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
		if unsure && c.look(ctx) != "" {
			return
		}
	}
	c.t.Errorf("%v cannot be made", c.at)
}

// bring goes on until the bill is in a state.
func (c *client) bring(ctx context.Context, op, state string) {
	for range tries {
		s := c.draw(op)
		c.send(ctx, s)
		if s.code == "0000" || ctx.Err() != nil {
			return
		}
		if s.code != "VALIDATION_002" && c.look(ctx) == state {
			return
		}
	}
	c.t.Errorf("%v does not come to state %s", c.at, state)
}

// look reads until there is an answer, and returns the state, "" if there is no such bill.
func (c *client) look(ctx context.Context) string {
	for range tries {
		s := c.draw("read")
		c.send(ctx, s)
		if s.code == "0000" {
			return gjson.Get(s.body, "data.apprState").String() + gjson.Get(s.body, "appr_state").String()
		}
		if s.code == "BILL_003" || ctx.Err() != nil {
			return ""
		}
	}
	c.t.Errorf("%v cannot be read", c.at)
	return ""
}

// pay is the customer.
func (c *client) pay(ctx context.Context) {
	paid := 0
	for _, s := range c.sides {
		if s.service.Pay(c.at.partner, c.at.bill) == nil {
			paid++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(c.at, "paid")
	if c.sums.payments += paid; paid != 1 && ctx.Err() == nil {
		c.breach(c.at, "the bill could be paid at %d sides", paid)
	}
}

// draw is a call and what goes wrong with it.
func (c *client) draw(op string) *sending {
	s := &sending{form: c.form, op: op, at: c.at}
	if op == "create" || op == "destroy" || op == "cancel" {
		s.wrong = c.oneIn(5)
	}
	if c.calm {
		s.wrong = false
	} else if c.oneIn(6) {
		s.write = mishaps[c.rnd.IntN(len(mishaps))]
	}
	for n := range s.read {
		if !c.calm && c.oneIn(10) {
			s.read[n] = mishaps[c.rnd.IntN(len(mishaps))]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.id = fmt.Sprintf("r%d", len(c.sent))
	c.sent[s.id] = s
	return s
}

// send makes calls, all at the same time, each through one of the gateways that live.
func (c *client) send(ctx context.Context, wave ...*sending) {
	turn := c.rnd.Int()
	var all sync.WaitGroup
	for i, s := range wave {
		all.Go(func() {
			through, err := c.bridge.one(ctx, turn+i)
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
			c.judge(ctx, s)
		})
	}
	all.Wait()
	if len(wave) > 1 && wave[0].through != wave[1].through {
		c.mu.Lock()
		c.sums.together++
		c.mu.Unlock()
	}
	c.decide(ctx, len(wave))
}

func (m *moving) exchange(ctx context.Context, url string, s *sending, merchant string) (int, string, error) {
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

// one is a gateway that lives, or the first that comes.
func (b *bridge) one(ctx context.Context, turn int) (*gateway, error) {
	for {
		b.mu.Lock()
		came, n := b.came, len(b.living)
		if n > 0 {
			defer b.mu.Unlock()
			return b.living[turn%n], nil
		}
		b.mu.Unlock()
		select {
		case <-came:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *bridge) lives(g *gateway) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.living {
		if one == g {
			return true
		}
	}
	return false
}

// A state is named in an answer to a read, and where an outcome is explained.
var namedState = regexp.MustCompile(`bill in state ([A-Z])\.|"appr_?[sS]tate": ?"([A-Z])"`)

var stateRank = map[string]int{"": -1, "W": 0, "F": 1, "D": 1, "C": 2}

// lived tells whether a bill was in a state at a moment between two others. States only go on: W, F, C or W, D.
func lived(before, state, after string) bool {
	goesTo := func(from, to string) bool {
		return from == to || stateRank[from] < stateRank[to] && from != "D"
	}
	return goesTo(before, state) && goesTo(state, after)
}

// judge holds one answer to what the sides had and did.
func (m *moving) judge(ctx context.Context, s *sending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sums.calls++
	if s.err != nil {
		m.sums.cutOff++
		if m.bridge.lives(s.through) && ctx.Err() == nil {
			m.breach(s.at, "%s: no answer from a gateway that lives: %v", s.id, s.err)
		}
		return
	}
	m.note(s.at, "%s: HTTP %d %s", s.id, s.status, strings.TrimSpace(s.body))
	s.code = gjson.Get(s.body, "code").String()
	if s.code == "" && s.status == http.StatusOK && s.form == "legacy" && s.op == "read" {
		s.code = "0000" // a legacy read that succeeded is bare
	}
	write, existed, exists := s.op != "read", s.before != [2]string{}, s.after != [2]string{}
	stayed := func(state string) bool { return s.before[0]+s.before[1] == state && s.after == s.before }
	wrong := false // what is said of the bill
	switch s.code {
	case "0000":
		m.sums.acknowledged++
		if write && s.effects != 1 {
			m.breach(s.at, "%s: it was acknowledged and took effect %d times", s.id, s.effects)
		}
		wrong = !exists
	case "":
		m.sums.unknown++
		if !write || s.status == http.StatusOK || !strings.Contains(s.body, "outcome unknown") {
			m.breach(s.at, "%s: no outcome: HTTP %d %s", s.id, s.status, s.body)
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
	case "ERROR": // a side's failure; of a write it would be an unknown outcome
		wrong = write
	case "MAINTAINED_METHOD":
		wrong = !strings.Contains(s.body, "nothing was sent") || s.visits > 0
	default:
		wrong = true
	}
	if s.code != "0000" && s.code != "" {
		m.sums.refused++
		if s.effects > 0 {
			m.breach(s.at, "%s: it was refused and took effect: %s", s.id, s.body)
		}
	}
	if wrong || s.wrong && s.code == "0000" {
		m.breach(s.at, "%s: the bill was %q, then %q, and the answer is %s", s.id, s.before, s.after, s.body)
	}
	for _, found := range namedState.FindAllStringSubmatch(s.body, -1) {
		m.sums.named++
		if state := found[1] + found[2]; !lived(s.before[0], state, s.after[0]) && !lived(s.before[1], state, s.after[1]) {
			m.breach(s.at, "%s: it names state %s, and the bill was %q, then %q", s.id, state, s.before, s.after)
		}
	}
}
