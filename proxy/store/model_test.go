package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"billbridge/proxy/store"
)

const (
	window    = 10 * time.Second
	retention = 60 * time.Second
)

// A row is a callback in the model.
type row struct {
	store.Callback
	due   time.Time
	claim int // the number of the claim that holds it; 0 for none
	heard int // its attempts with an HTTP answer, over all replays
	done  time.Time
}

// A model is the simplest model of the queue.
type model struct {
	t      *rapid.T
	ctx    context.Context
	s      *store.Store
	now    time.Time
	rows   []*row // in the order of their acceptance
	made   int
	claims int
	held   []holding // what was claimed and not yet finished, claims that have ended included
}

type holding struct {
	store.Claimed
	claim int
}

func (m *model) check(err error) {
	must(m.t, err)
}

func (m *model) row(id string) *row {
	for _, r := range m.rows {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (m *model) accept(t *rapid.T) {
	m.made++
	bill := fmt.Sprint("b", rapid.IntRange(0, 2).Draw(t, "bill"))
	c := callback(fmt.Sprint("c", m.made), bill)
	c.Digest = [32]byte{byte(rapid.IntRange(0, 2).Draw(t, "digest"))}
	c.Host = fmt.Sprint("h", rapid.IntRange(0, 2).Draw(t, "host"))
	c.Upstream = rapid.SampledFrom(backends).Draw(t, "upstream")
	c.Address += rapid.SampledFrom([]string{"", "", " again"}).Draw(t, "address")
	c.Received = m.now.Add(-time.Duration(rapid.IntRange(0, 2).Draw(t, "late")) * time.Second) // by another replica's clock
	c.Next = m.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "wait")) * time.Second)
	c.Once = rapid.Bool().Draw(t, "once")
	var repeats *row
	for _, r := range m.rows { // the last of its order decides, or with Once any of them
		if r.Order == c.Order && r.Digest == c.Digest && r.Address == c.Address && r.Received.After(c.Received.Add(-window)) {
			repeats = r
		} else if r.Order == c.Order && !c.Once {
			repeats = nil
		}
	}
	want := repeats == nil
	got, err := m.s.Accept(m.ctx, c, window)
	m.check(err)
	equal(t, got.Fresh, want, "fresh")
	if !want {
		repeats.Repeats, repeats.Repeated = repeats.Repeats+1, c.Received
	}
	if want {
		c.Once = false // it is not stored
		c.State = store.Waiting
		m.rows = append(m.rows, &row{Callback: c, due: c.Next})
		equal(t, idsOf(got.Ended), m.supersede(c.Order, c.Received, true), "superseded")
	} else {
		equal(t, got.Ended, nil, "superseded by a repetition")
	}
}

// supersede ends the callbacks of an order that the partner has answered three times and that a newer one follows, and returns their ids. With
// soon, the others that it has answered are due within ten seconds.
func (m *model) supersede(order string, at time.Time, hasten bool) (ended []string) {
	newer := false
	for _, r := range slices.Backward(m.rows) {
		if r.Order != order {
			continue
		}
		if soon := at.Add(10 * time.Second); newer && r.State == store.Waiting && r.claim == 0 && r.heard >= 3 {
			r.State, r.Next, r.due, r.done = store.Superseded, at, at, at
			ended = append(ended, r.ID)
		} else if hasten && newer && r.State == store.Waiting && r.claim == 0 && r.heard > 0 && r.Next.After(soon) {
			r.Next, r.due = soon, soon
		}
		newer = newer || r.State == store.Waiting || r.State == store.Delivered
	}
	slices.Sort(ended)
	return ended
}

func idsOf(ended []store.Supersession) (ids []string) {
	for _, e := range ended {
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return ids
}

// first is the first waiting row of an order; nil if there is none.
func (m *model) first(order string) *row {
	for _, r := range m.rows {
		if r.State == store.Waiting && r.Order == order {
			return r
		}
	}
	return nil
}

// claimable are the rows to claim, the longest due first.
func (m *model) claimable() (found []*row) {
	for i, r := range m.rows {
		if r.State != store.Waiting || r.due.After(m.now) {
			continue
		}
		heldBack := false
		for j, other := range m.rows {
			if other.State == store.Waiting && other.Order == r.Order && (j < i || j > i && other.claim > 0 && other.due.After(m.now)) {
				heldBack = true
			}
		}
		if !heldBack {
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b *row) int { return a.due.Compare(b.due) })
	return found
}

func (m *model) claim(t *rapid.T) {
	limit, perHost := rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 3).Draw(t, "per host")
	busy := map[string]int{"h0": rapid.IntRange(0, 3).Draw(t, "busy")}
	lease := time.Duration(rapid.IntRange(1, 10).Draw(t, "lease")) * time.Second
	m.claims++
	var want []string
	taken := map[string]int{"h0": busy["h0"]}
	for _, r := range m.claimable() {
		if len(want) < limit && taken[r.Host] < perHost {
			taken[r.Host]++
			r.due, r.claim = m.now.Add(lease), m.claims
			want = append(want, r.ID)
		}
	}
	claimed, err := m.s.Claim(m.ctx, m.now, lease, limit, perHost, limit, busy)
	m.check(err)
	equal(t, ids(claimed), want, "claimed")
	for _, c := range claimed {
		m.held = append(m.held, holding{c, m.claims})
	}
}

func (m *model) finish(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip("nothing is claimed")
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(t, "which")
	h := m.held[i]
	if rapid.Bool().Draw(t, "once") { // else it is finished again some time
		m.held = slices.Delete(m.held, i, i+1)
	}
	result := store.Result{
		At: m.now, Status: rapid.SampledFrom([]int{0, 200, 201, 500}).Draw(t, "status"), Outcome: "made up",
		State: rapid.SampledFrom([]store.State{store.Waiting, store.Waiting, store.Delivered, store.Dead, store.Dropped}).Draw(t, "state"),
		Next:  m.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "wait")) * time.Second),
	}
	m.end(t, h, result)
}

// answer claims callbacks three times, and the partner answers all of them.
func (m *model) answer(t *rapid.T) {
	for range 3 {
		m.claim(t)
		for _, h := range m.held {
			if h.claim == m.claims {
				m.end(t, h, store.Result{At: m.now, Status: 201, Outcome: "answer", State: store.Waiting, Next: m.now})
			}
		}
	}
}

// end ends an attempt.
func (m *model) end(t *rapid.T, h holding, result store.Result) {
	ended, err := m.s.Finish(m.ctx, h.Claimed, result)
	r := m.row(h.ID)
	if r == nil || r.State != store.Waiting || r.claim != h.claim {
		if !errors.Is(err, store.ErrLeaseLost) {
			t.Fatalf("Finish(%s): %v", h.ID, err)
		}
		return
	}
	m.check(err)
	if first := m.first(r.Order); first != r && first.claim == 0 && first.due.Equal(r.due) {
		first.due = first.Next // it has waited for the end of this attempt
	}
	r.Attempts++
	r.claim, r.State, r.LastAt, r.LastStatus, r.LastOutcome = 0, result.State, m.now, result.Status, result.Outcome
	r.Next, r.done = m.now, time.Time{}
	switch r.State {
	case store.Waiting:
		r.Next = result.Next
	case store.Delivered, store.Dropped:
		r.done = m.now
	}
	r.due = r.Next
	var want []string
	if result.Status != 0 {
		r.heard++
	}
	if result.State == store.Waiting {
		want = m.supersede(r.Order, m.now, result.Status != 0)
	}
	equal(t, idsOf(ended), want, "superseded")
}

// decide replays or drops rows in the states, and returns how many those are.
func (m *model) decide(state store.State, limit int, among ...*row) (n int) {
	for _, r := range among {
		if n == limit {
			break
		}
		n++
		r.State, r.claim, r.Next, r.due, r.done = state, 0, m.now, m.now, time.Time{}
		if state == store.Waiting {
			r.Attempts, r.heard = 0, 0
			for _, other := range m.rows { // what comes before one that is under way is due when its lease ends
				if r == m.first(r.Order) && other.Order == r.Order && other.State == store.Waiting && other.claim > 0 && other.due.After(r.due) {
					r.due = other.due
				}
			}
		} else {
			r.done = m.now
		}
	}
	return n
}

func (m *model) decideSome(t *rapid.T) {
	f := store.Filter{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Bill: rapid.SampledFrom([]string{"", "b0", "b1"}).Draw(t, "bill")}
	var dead []*row
	for _, r := range m.rows {
		if r.State == store.Dead && (f.Bill == "" || f.Bill == r.Bill) {
			dead = append(dead, r)
		}
	}
	limit := f.Limit
	if limit == 0 {
		limit = -1
	}
	state, d := store.Waiting, store.Replay
	if rapid.Bool().Draw(t, "drop") {
		state, d = store.Dropped, store.Drop
	}
	n, err := m.s.Decide(m.ctx, d, f, store.Author{Name: "tester"}, m.now, nil)
	m.check(err)
	equal(t, n, m.decide(state, limit, dead...), "changed")
}

func (m *model) decideOne(t *rapid.T) {
	id := fmt.Sprint("c", rapid.IntRange(0, m.made+1).Draw(t, "which"))
	state, from, d := store.Waiting, []store.State{store.Dead, store.Delivered, store.Superseded}, store.Replay
	if rapid.Bool().Draw(t, "drop") {
		state, from, d = store.Dropped, from[:1], store.Drop
	}
	var want error
	if r := m.row(id); r == nil {
		want = store.ErrNotFound
	} else if !slices.Contains(from, r.State) {
		want = store.ErrState
	} else {
		m.decide(state, 1, r)
	}
	if err := m.s.DecideOne(m.ctx, d, id, store.Author{Name: "tester"}, m.now); !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("%s: %v, want %v", id, err, want)
	}
}

func (m *model) sweep(t *rapid.T) {
	before := len(m.rows)
	m.rows = slices.DeleteFunc(m.rows, func(r *row) bool {
		return !r.done.IsZero() && r.done.Before(m.now.Add(-retention))
	})
	n, err := m.s.Sweep(m.ctx, m.now, retention)
	m.check(err)
	equal(t, n, before-len(m.rows), "removed")
}

func (m *model) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second)
}

// ask compares the store's answers about its queue with the model.
func (m *model) ask(t *rapid.T) {
	want := map[string]store.Backlog{}
	var next time.Time
	for _, r := range m.rows {
		b := want[r.Upstream]
		switch r.State {
		case store.Waiting:
			b.Waiting++
			b.Oldest = max(b.Oldest, m.now.Sub(r.Received))
			if r == m.first(r.Order) && r.due.After(m.now) && (next.IsZero() || r.due.Before(next)) {
				next = r.due
			}
		case store.Dead:
			b.Dead++
		default:
			continue
		}
		want[r.Upstream] = b
	}
	stats, err := m.s.Stats(m.ctx, m.now)
	m.check(err)
	equal(t, stats, want, "Stats")
	at, ok, err := m.s.NextDue(m.ctx, m.now)
	m.check(err)
	if ok == next.IsZero() || !at.Equal(next) {
		t.Fatalf("NextDue = %s, %v, want %s", at, ok, next)
	}
}

// same compares every row with the model.
func (m *model) same(t *rapid.T) {
	page, err := m.s.Page(m.ctx, store.Filter{Limit: 1000})
	m.check(err)
	all := page.Callbacks
	slices.Reverse(all)
	var want []store.Callback
	for i, r := range m.rows {
		c := r.Callback
		c.Body = nil
		if i < len(all) {
			c.Cursor = all[i].Cursor
		}
		want = append(want, c)
	}
	equal(t, all, want, "the callbacks")
}

// After any sequence of calls the store equals the model.
func TestModel(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "sqlite") {
			url = "memory:"
		}
		s := openSmall(t, url, 0)
		rapid.Check(t, func(rt *rapid.T) {
			m := &model{t: rt, ctx: t.Context(), s: s, now: noon}
			m.check(s.Clear(m.ctx))
			rt.Repeat(map[string]func(*rapid.T){
				"accept": m.accept, "accept more": m.accept, "claim": m.claim, "claim more": m.claim, "finish": m.finish, "finish more": m.finish, "answer": m.answer,
				"decide some": m.decideSome, "decide one": m.decideOne, "sweep": m.sweep, "wait": m.wait, "ask": m.ask, "": m.same,
			})
		})
	})
}
