package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"text/template"
	"time"

	"billbridge/proxy/sandbox"
	"billbridge/translate"
)

const (
	demoOpenBills = 5                       // of one partner, at most
	demoUnknown   = "demo-key-nobody-has"   // of no partner
	demoDelay     = 1200 * time.Millisecond // of a reply that comes too late: the timeout of the upstreams is 1s
)

// A demoTraffic makes the calls of the partners of a demo, one after the other. The same seed makes the same calls.
type demoTraffic struct {
	*trial
	gateway string
	request *template.Template
	client  http.Client
	rnd     *rand.Rand
	bills   [][]*demoBill // that are not over, by partner
	steps   int
	created int
}

// A demoBill is a bill and what its partner still does with it.
type demoBill struct {
	partner int // the index
	ID      string
	Price   int
	Tax     int
	plan    []string
}

// A demoCall is a call about a bill, for the template of requests.
type demoCall struct {
	*demoBill
	Operation, Key, Callback string
}

// Phone is the customer's.
func (demoCall) Phone() string { return demoPhone }

// Expires is the last day of the bill.
func (demoCall) Expires() string { return inAMonth() }

// Hash is that of a request with a phone, or with none.
func (c demoCall) Hash(phone string) string { return sandbox.Hash(c.ID, phone, strconv.Itoa(c.Price)) }

func newDemoTraffic(d *trial, gateway string) *demoTraffic {
	return &demoTraffic{
		trial: d, gateway: gateway, request: template.Must(template.New("").Parse(d.demo.Request)),
		client: http.Client{Timeout: 20 * time.Second}, rnd: rand.New(rand.NewPCG(1, 1)),
		bills: make([][]*demoBill, len(d.demo.Partners)),
	}
}

// run makes calls until ctx ends.
func (t *demoTraffic) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second / time.Duration(t.rate))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := t.step(ctx); err != nil && ctx.Err() == nil {
			t.log.Error("a call of the demo failed", "error", err.Error())
		}
	}
}

// step makes one call, or pays one bill. Refusals and failures come at fixed steps, so that each kind is seen in the
// first minute.
func (t *demoTraffic) step(ctx context.Context) error {
	t.steps++
	n := t.drawPartner()
	fault := 90 * max(1, t.rate/50) // it takes more than a second: a high rate is not slowed down
	switch s := t.steps; {
	case s%fault == fault/2:
		return t.stepWithFault(ctx, s/fault)
	case s%40 == 20:
		return t.call(ctx, "bill.read", demoUnknown, &demoBill{partner: n, ID: "DEMO0000000000000000"})
	case s%50 == 30:
		return t.repeat(ctx, t.with("unlucky"))
	case s%60 == 40:
		return t.call(ctx, "mapping.list", "", &demoBill{partner: n})
	}
	open := t.bills[n]
	if len(open) == 0 || len(open) < demoOpenBills && t.rnd.IntN(4) == 0 {
		return t.create(ctx, n)
	}
	return t.advance(ctx, open[t.rnd.IntN(len(open))])
}

// stepWithFault makes a call whose reply comes too late. The backend carries it out, so a write has an unknown outcome.
func (t *demoTraffic) stepWithFault(ctx context.Context, turn int) error {
	n := t.with([]string{"forgetful", "unlucky", "unlucky"}[turn%3])
	if open := t.bills[n]; turn%3 == 2 && len(open) > 0 {
		defer t.delay("bill.read")()
		return t.call(ctx, "bill.read", "", open[0])
	}
	defer t.delay("bill.create")()
	err := t.create(ctx, n)
	if open := t.bills[n]; turn%3 == 0 { // it does not read the bill
		t.bills[n] = open[:len(open)-1]
	}
	return err
}

// delay delays the next reply of an operation, at both backends. The caller must call stop after the call.
func (t *demoTraffic) delay(operation string) (stop func()) {
	for _, backend := range []*sandbox.Service{t.old, t.new} {
		backend.Fault(sandbox.Fault{Operation: operation, Delay: demoDelay})
	}
	return func() {
		t.old.ClearFaults("")
		t.new.ClearFaults("")
	}
}

// repeat creates a bill with an id that is used already.
func (t *demoTraffic) repeat(ctx context.Context, n int) error {
	if len(t.bills[n]) == 0 {
		return t.create(ctx, n)
	}
	return t.call(ctx, "bill.create", "", t.bills[n][0])
}

// with is the index of the partner with a quirk.
func (t *demoTraffic) with(quirk string) int {
	return slices.IndexFunc(t.demo.Partners, func(p demoPartner) bool { return p.Quirk == quirk })
}

// drawPartner draws a partner by weight.
func (t *demoTraffic) drawPartner() int {
	total := 0
	for _, p := range t.demo.Partners {
		total += p.Weight
	}
	at := t.rnd.IntN(total)
	return slices.IndexFunc(t.demo.Partners, func(p demoPartner) bool {
		at -= p.Weight
		return at < 0
	})
}

func (t *demoTraffic) create(ctx context.Context, n int) error {
	t.created++
	id := fmt.Sprintf("DEMO%02dB", n+1)
	id += fmt.Sprintf("%0*d", 20-len(id), t.created) // the most that the interface allows
	b := &demoBill{partner: n, ID: id, Price: 20_000 + 500*t.rnd.IntN(200)}
	taxed := t.demo.Partners[n].Quirk == "taxed" && t.rnd.IntN(4) == 0
	b.plan = t.demo.Plans[t.rnd.IntN(len(t.demo.Plans))]
	if taxed { // it may be refused
		b.Tax = b.Price / 11
	} else {
		t.bills[n] = append(t.bills[n], b)
	}
	return t.call(ctx, "bill.create", "", b)
}

// advance does the next thing of a bill's plan.
func (t *demoTraffic) advance(ctx context.Context, b *demoBill) error {
	next := b.plan[0]
	if b.plan = b.plan[1:]; len(b.plan) == 0 {
		t.bills[b.partner] = slices.DeleteFunc(t.bills[b.partner], func(other *demoBill) bool { return other == b })
	}
	if next != "pay" {
		return t.call(ctx, "bill."+next, "", b)
	}
	// The backend that created the bill takes the payment.
	key, backend := t.demo.Partners[b.partner].Key, t.new
	if _, err := t.old.Bill(key, b.ID); err == nil {
		backend = t.old
	}
	_ = backend.Pay(key, b.ID) // an error means that the create was refused
	return nil
}

// call makes a call in the form of the partner of a bill, with its key if none is given. Its result does not matter:
// refusals and failures are a part of the demo.
func (t *demoTraffic) call(ctx context.Context, operation, key string, b *demoBill) error {
	p := t.demo.Partners[b.partner]
	if key == "" {
		key = p.Key
	}
	var text bytes.Buffer
	err := t.request.Execute(&text, demoCall{b, operation, key, fmt.Sprint(t.urls[2], "/", b.partner)})
	body := text.Bytes()
	form, o := translate.Form("v2"), t.table.Operation(operation)
	translation := o.Translation(form, "legacy")
	if err == nil && p.Form == "legacy" && translation != nil {
		form = "legacy"
		body, err = translation.Start().Request(nil, body)
	}
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.gateway+o.Path(form), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := t.client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reply.Body)
	_ = reply.Body.Close()
	return err
}
