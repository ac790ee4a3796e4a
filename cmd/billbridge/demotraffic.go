package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
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
	client  *http.Client
	rnd     *rand.Rand
	bills   [][]*demoBill // that are not over, by partner
	steps   int
	created int
}

// A demoBill is a bill and what its partner still does with it.
type demoBill struct {
	partner int // the index
	id      string
	price   int
	tax     bool
	plan    []string // read, resend, destroy, cancel; or pay, which the customer does
}

// demoPlans are the lives of bills. Each ends in a cancel or a destroy, so that the old backend has no open bills of a
// partner some time after it has moved.
var demoPlans = [][]string{
	{"read", "pay", "read", "read", "cancel", "read"},
	{"read", "pay", "read", "cancel"},
	{"read", "resend", "read", "pay", "read", "cancel", "read"},
	{"read", "read", "destroy"},
	{"read", "destroy", "read"},
}

func newDemoTraffic(d *trial, gateway string) *demoTraffic {
	return &demoTraffic{
		trial: d, gateway: gateway,
		client: &http.Client{
			Timeout: 20 * time.Second, Transport: http.DefaultTransport.(*http.Transport).Clone(),
		},
		rnd: rand.New(rand.NewPCG(1, 1)), bills: make([][]*demoBill, len(d.partners)),
	}
}

// run makes calls until ctx ends.
func (t *demoTraffic) run(ctx context.Context) {
	defer t.client.CloseIdleConnections()
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
		return t.call(ctx, n, "read", demoUnknown, &demoBill{id: "DEMO0000000000000000"})
	case s%50 == 30:
		return t.repeat(ctx, t.with(unlucky))
	case s%60 == 40:
		return t.post(ctx, n, "mapping.list", map[string]any{"apiKey": t.partners[n].key})
	}
	open := t.bills[n]
	if len(open) == 0 || len(open) < demoOpenBills && t.rnd.IntN(4) == 0 {
		return t.create(ctx, n)
	}
	return t.advance(ctx, open[t.rnd.IntN(len(open))])
}

// stepWithFault makes a call whose reply comes too late. The backend carries it out, so a write has an unknown outcome.
func (t *demoTraffic) stepWithFault(ctx context.Context, turn int) error {
	n := t.with([]quirk{forgetful, unlucky, unlucky}[turn%3])
	if open := t.bills[n]; turn%3 == 2 && len(open) > 0 {
		defer t.delay("bill.read")()
		return t.call(ctx, n, "read", t.partners[n].key, open[0])
	}
	defer t.delay("bill.create")()
	err := t.create(ctx, n)
	if open := t.bills[n]; t.partners[n].quirk == forgetful {
		t.bills[n] = open[:len(open)-1]
	}
	return err
}

// delay delays the next reply of an operation, at both backends. The caller must call stop after the call.
func (t *demoTraffic) delay(operation string) (stop func()) {
	fault := sandbox.Fault{Operation: operation, Delay: demoDelay}
	t.old.Fault(fault)
	t.new.Fault(fault)
	return func() {
		t.old.ClearFaults()
		t.new.ClearFaults()
	}
}

// repeat creates a bill with an id that is used already.
func (t *demoTraffic) repeat(ctx context.Context, n int) error {
	if len(t.bills[n]) == 0 {
		return t.create(ctx, n)
	}
	return t.call(ctx, n, "create", t.partners[n].key, t.bills[n][0])
}

// with is the index of the partner with a quirk.
func (t *demoTraffic) with(q quirk) int {
	return slices.IndexFunc(t.partners, func(p demoPartner) bool { return p.quirk == q })
}

// drawPartner draws a partner by weight.
func (t *demoTraffic) drawPartner() int {
	total := 0
	for _, p := range t.partners {
		total += p.weight
	}
	at := t.rnd.IntN(total)
	return slices.IndexFunc(t.partners, func(p demoPartner) bool {
		at -= p.weight
		return at < 0
	})
}

func (t *demoTraffic) create(ctx context.Context, n int) error {
	t.created++
	id := fmt.Sprintf("DEMO%02dB", n+1)
	id += fmt.Sprintf("%0*d", 20-len(id), t.created) // the most that the interface allows
	b := &demoBill{
		partner: n, id: id, price: 20_000 + 500*t.rnd.IntN(200),
		tax: t.partners[n].quirk == taxed && t.rnd.IntN(4) == 0, plan: demoPlans[t.rnd.IntN(len(demoPlans))],
	}
	if !b.tax { // with tax it may be refused
		t.bills[n] = append(t.bills[n], b)
	}
	return t.call(ctx, n, "create", t.partners[n].key, b)
}

// advance does the next thing of a bill's plan.
func (t *demoTraffic) advance(ctx context.Context, b *demoBill) error {
	next := b.plan[0]
	if b.plan = b.plan[1:]; len(b.plan) == 0 {
		t.bills[b.partner] = slices.DeleteFunc(t.bills[b.partner], func(other *demoBill) bool { return other == b })
	}
	if next == "pay" {
		t.pay(t.partners[b.partner].key, b.id)
		return nil
	}
	return t.call(ctx, b.partner, next, t.partners[b.partner].key, b)
}

// pay pays a bill at the backend that created it: the old one if it has the bill, because the new one has copies of
// its bills.
func (t *demoTraffic) pay(key, bill string) {
	backend := t.new
	if _, err := t.old.Bill(key, bill); err == nil {
		backend = t.old
	}
	_ = backend.Pay(key, bill) // an error means that the create was refused
}

// call makes one call about a bill.
func (t *demoTraffic) call(ctx context.Context, n int, operation, key string, b *demoBill) error {
	return t.post(ctx, n, "bill."+operation, b.request(operation, key, t.urls[2]+"/"+strconv.Itoa(n)))
}

// request returns a request in v2. For a partner in legacy, post translates it.
func (b *demoBill) request(operation, key, callback string) map[string]any {
	bill := map[string]any{"billId": b.id}
	hash := func(phone string) string { return sandbox.Hash(b.id, phone, strconv.Itoa(b.price)) }
	switch operation {
	case "create":
		bill = map[string]any{
			"billId": b.id, "sendType": "TALK", "price": b.price, "expireDt": inAMonth(),
			"productName": "11월 수강료", "memberName": "김하늘", "phone": demoPhone,
			"hash": hash(demoPhone), "callbackUrl": callback,
		}
		if b.tax {
			bill["tax"] = strconv.Itoa(b.price / 11)
		}
	case "cancel", "destroy":
		bill["price"], bill["hash"] = b.price, hash("")
	}
	return map[string]any{"apiKey": key, "member": "demo-member", "merchant": "demo-store", "bill": bill}
}

// post makes a call in the form of a partner. Its result does not matter: refusals and failures are a part of the demo.
func (t *demoTraffic) post(ctx context.Context, n int, operation string, call map[string]any) error {
	body, err := json.Marshal(call)
	form, o := translate.Form("v2"), t.table.Operation(operation)
	translation := o.Translation(form, "legacy")
	if err == nil && t.partners[n].form == "legacy" && translation != nil {
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
