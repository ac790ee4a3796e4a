package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/sandbox"
)

// A shop is the test system of a partner: an integration in either form, with the order hook. Without a habit it is a
// good one. A habit is one mistake; see testdata/wrong-shops.txt.
type shop struct {
	form, habit, key string
	base, self       string // base URLs of the service and of the shop
	send             string // the sendType in v2
	client           *http.Client
	reconcile        time.Duration
	retry            time.Duration // the first pause before a call is repeated

	ctx  context.Context
	all  sync.WaitGroup
	mu   sync.Mutex
	list []*sale
}

type sale struct {
	id, bill, state, amount, phone, name string
	booked                               string
	fulfilled, bills, asked              int
	sent                                 []string
	busy, gaveUp, seen                   bool
	callbacks                            int
	made                                 time.Time
}

// pending are the states of a sale without a bill that is known.
var pending = []string{"new", "unknown"}

func (s *shop) is(habit string) bool { return s.habit == habit }

// ownReads reads the bill of a sale twice, at the shop's interval.
func (s *shop) ownReads(o *sale) {
	for n := 0; (n < 2 || s.is("polls") || s.is("short")) && s.pause(s.reconcile); n++ {
		s.mu.Lock()
		open := o.bill != "" && (o.state == "waiting" || o.state == "unknown" || o.state == "paid") && !o.busy
		switch {
		case s.is("no-reconcile"), s.is("reconciles-unpaid-only") && o.state == "paid",
			s.is("reconciles-known-only") && o.state == "unknown", s.is("done-before-work") && o.seen:
			open = false
		}
		s.mu.Unlock()
		if open {
			s.refresh(o)
		}
	}
}

func (s *shop) find(match func(*sale) bool) *sale {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if match(o) {
			return o
		}
	}
	return nil
}

// ServeHTTP serves the order hook and callbacks.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if id, ok := strings.CutPrefix(r.URL.Path, "/desk/orders/"); ok {
		o := s.find(func(o *sale) bool { return o.id == id })
		if o == nil {
			o = &sale{state: "unknown"}
		}
		s.mu.Lock()
		answer := map[string]any{"state": o.state, "fulfilled": o.fulfilled, "bill_ids": o.sent}
		if o.booked != "" && !s.is("does-not-say-amount") {
			answer["amount"] = json.Number(o.booked)
		}
		s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/callback/"); ok {
		s.callback(w, r, id, body)
		return
	}
	var c Command
	_ = json.Unmarshal(body, &c)
	o := s.find(func(o *sale) bool { return o.id == c.Order })
	if r.URL.Path == "/desk/order" && o == nil {
		o = &sale{id: c.Order, amount: c.Amount.String(), phone: c.Phone, name: c.Name, state: "new", made: time.Now()}
		s.mu.Lock()
		s.list = append(s.list, o)
		s.mu.Unlock()
		s.all.Go(func() { s.ownReads(o) })
	}
	do := map[string]func(*sale){
		"/desk/order": s.order, "/desk/refund": s.refund, "/desk/withdraw": s.withdraw, "/desk/resend": s.resend,
	}[r.URL.Path]
	if o == nil || do == nil {
		http.NotFound(w, r)
		return
	}
	s.all.Go(func() { do(o) })
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, "{}")
}

// set changes a sale.
func (s *shop) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// mark changes the state of a sale.
func (s *shop) mark(o *sale, state string) { s.set(func() { o.state = state }) }

// state returns the state of a sale.
func (s *shop) state(o *sale) (state string) {
	s.set(func() { state = o.state })
	return state
}

// renew gives a sale another bill id, and reissue creates that bill, too.
func (s *shop) renew(o *sale) { s.set(func() { s.newBill(o) }) }

func (s *shop) reissue(o *sale) {
	s.renew(o)
	s.create(o, 0)
}

func (s *shop) pause(d time.Duration) bool { return !s.pauseOr(s.ctx, d) }

// An outcome is what the shop knows after a call.
type outcome struct {
	status int
	after  time.Duration // Retry-After
	code   string        // "" if the reply has none: the outcome is unknown
	err    error
	body   map[string]any
	raw    string
}

func (o outcome) get(name string) string {
	find := func(in map[string]any) (string, bool) {
		for k, v := range in {
			if plain(k) == name && v != nil {
				return fmt.Sprint(v), true
			}
		}
		return "", false
	}
	if v, ok := find(o.body); ok {
		return v
	}
	data, _ := o.body["data"].(map[string]any)
	v, _ := find(data)
	return v
}

// call makes a call of the service.
func (s *shop) call(op string, o *sale, extra map[string]any) (out outcome) {
	v2 := s.form == "v2"
	body := map[string]any{"member": "m", "merchant": "s", "apikey": s.key}
	inner, path := body, "/if/bill/"+strings.Replace(op, "create", "send", 1)
	if v2 {
		delete(body, "apikey")
		inner, body["apiKey"] = map[string]any{}, s.key
		body["bill"], path = inner, "/bill/"+op
	}
	if op == "create" {
		path = strings.TrimSuffix(path, "/create")
		if !v2 {
			inner = map[string]any{}
			body["bill"] = inner
		}
	}
	for k, v := range extra {
		inner[k] = v
	}
	inner[map[bool]string{true: "billId", false: "bill_id"}[v2]] = o.bill
	text, _ := json.Marshal(body)
	if s.is("key-in-url") {
		path += "?key=" + s.key
	}
	req, _ := http.NewRequestWithContext(s.ctx, "POST", s.base+path, bytes.NewReader(text))
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return outcome{err: err}
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(res.Body)
	out = outcome{status: res.StatusCode, err: err, raw: string(reply)}
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	out.after = time.Duration(seconds) * time.Second
	if err == nil {
		out.body = parse(reply)
		out.code, _ = out.body["code"].(string)
	}
	return out
}

// adapt makes a plan that of the shop.
func (s *shop) adapt(p *Plan) {
	switch s.habit {
	case "polls":
		p.Options, p.Reconcile, p.speed = slices.DeleteFunc(p.Options, func(o string) bool { return o == "callbacks" }), 5*time.Second, 60
	case "short":
		p.Reconcile, p.speed = time.Second, 60
	case "other-key":
		s.key = "some-other-key"
	}
	s.reconcile = p.Reconcile
}

// price is the price in the form's type.
func (s *shop) price(o *sale, amount string) any {
	if s.form == "v2" {
		return json.Number(amount)
	}
	return amount
}

// newBill gives a sale a bill id. A good shop does that once.
func (s *shop) newBill(o *sale) {
	o.bills++
	o.bill = fmt.Sprintf("S%sX%d", strings.NewReplacer("D-", "", "-", "").Replace(o.id), o.bills)
	if s.is("ids-from-time") {
		o.bill = fmt.Sprint(time.Now().Unix(), "x", o.bills)
	}
	o.sent = append(o.sent, o.bill)
}

// order creates the bill of a sale, until the outcome is known or ten minutes are over.
func (s *shop) order(o *sale) {
	stop := false
	s.set(func() {
		o.asked++
		if s.is("again-is-new") && o.asked > 1 {
			stop = true
			other := sale{id: o.id + "-again", amount: o.amount, phone: o.phone}
			s.newBill(&other)
			s.all.Go(func() { s.create(&other, 0) })
			return
		}
		if s.is("paid-order-is-new") && o.state == "paid" {
			s.newBill(o)
			s.all.Go(func() { s.create(o, 0) })
		}
		stop = o.busy || !slices.Contains(pending, o.state) || o.gaveUp
		if !stop {
			o.busy = true
			if o.bill == "" {
				s.newBill(o)
			}
		}
	})
	if stop {
		return
	}
	defer s.set(func() { o.busy = false })
	hashes := 0
	pause := s.retry
	for range 12 {
		out := s.create(o, hashes)
		again := false
		switch {
		case out.code == "0000":
			s.take(o, "W", "")
			if s.is("creates-twice") || s.is("second-bill-later") && s.pause(4*time.Minute) {
				s.reissue(o)
			}
			return
		case s.newIDAfter(out):
			s.renew(o)
			again = true
		case out.code == "VALIDATION_002" && s.is("tries-hashes") && hashes < 2:
			hashes++
			continue
		case out.code == "BILL_001":
			if s.is("duplicate-is-failure") {
				s.set(func() { o.state, o.gaveUp = "new", true })
				return
			}
		case out.code == "MAINTAINED_METHOD" || out.status == 429:
			if s.gives(out) {
				s.set(func() { o.gaveUp = true })
				return
			}
			switch {
			case s.is("repeats-at-once"):
			case s.is("ignores-retry-after"):
				s.pause(time.Second)
			default:
				s.pause(max(pause, out.after))
			}
			pause = min(2*pause, 64*s.retry/2)
			continue
		case out.code != "" && out.code != "ERROR":
			if s.is("repeats-"+out.code) || s.is("repeats-unknown-codes") && out.code == "X_999" {
				s.pause(pause)
				continue
			}
			s.mark(o, "new")
			return
		}
		s.set(func() {
			if o.state == "new" {
				o.state = "unknown"
			}
		})
		if s.is("lost-is-failure") || s.is("gives-up-closed") && out.err != nil {
			s.set(func() { o.state, o.gaveUp = "new", true })
			return
		}
		if s.is("never-reads-unknown") {
			return
		}
		if s.is("lost-is-success") {
			s.mark(o, "waiting")
			return
		}
		if !again && !s.is("duplicate-is-failure") && !(s.is("same-id") && out.code != "BILL_001") {
			switch read := s.refresh(o); {
			case s.is("link") && read.get("apprstate") == "W": // nothing shows the link again
				s.call("destroy", o, s.signed(o))
				if s.call("read", o, nil).get("apprstate") == "D" {
					s.set(func() { s.newBill(o); o.state = "unknown" })
				}
				continue
			case read.code == "BILL_003" && s.is("new-id-after-not-found"):
				s.renew(o)
			case !slices.Contains(pending, s.state(o)):
				return
			case s.is("reconciles-known-only"):
				return
			}
		}
		s.pause(pause)
		pause = min(2*pause, 64*s.retry/2)
	}
}

// newIDAfter is the habit of a new bill id after a kind of reply.
func (s *shop) newIDAfter(out outcome) bool {
	timeout := out.err != nil && errors.Is(out.err, context.DeadlineExceeded)
	return map[string]bool{
		"new-id-after-anything":     out.code == "" || out.code == "ERROR",
		"new-id-after-ERROR":        out.code == "ERROR" && out.status == 200,
		"new-id-after-timeout":      timeout,
		"new-id-after-closed":       out.err != nil && !timeout && out.status == 0,
		"new-id-after-504":          out.status == 504,
		"new-id-after-half":         out.err != nil && out.status == 200,
		"new-id-after-500":          out.status == 500,
		"new-id-after-empty-object": out.raw == "{}",
		"new-id-after-empty":        out.err == nil && strings.TrimSpace(out.raw) == "",
	}[s.habit]
}

// gives is the habit to give an order up.
func (s *shop) gives(out outcome) bool {
	return out.status == map[string]int{"gives-up-503": 503, "gives-up-429": 429, "gives-up-maintenance": 200}[s.habit]
}

func (s *shop) create(o *sale, hashes int) outcome {
	amount := o.amount
	if s.is("adds-a-fee") {
		amount += "0"
	}
	hash := sandbox.Hash(o.bill, o.phone, amount)
	if s.is("hashes-digits-of-phone") {
		hash = sandbox.Hash(o.bill, strings.ReplaceAll(o.phone, "-", ""), amount)
	}
	if s.is("tries-hashes") && hashes < 2 {
		hash = sandbox.Hash(o.bill, fmt.Sprint(hashes), amount)
	}
	callback := s.self + "/callback/" + o.id
	extra := map[string]any{"phone": o.phone, "hash": hash, "price": s.price(o, amount)}
	if s.form == "v2" {
		extra["sendType"], extra["callbackUrl"], extra["memberName"] = s.send, callback, o.name
	} else {
		extra["callbackURL"], extra["member_nm"] = callback, o.name
	}
	switch s.habit {
	case "polls":
		delete(extra, "callbackUrl")
		delete(extra, "callbackURL")
	case "damages-names":
		extra["memberName"], extra["member_nm"] = html.EscapeString(o.name), html.EscapeString(o.name)
	case "short-phone":
		extra["phone"] = "1"
	case "reads-in-a-loop":
		defer func() {
			for range 40 {
				s.refresh(o)
				s.pause(50 * time.Millisecond)
			}
		}()
	case "leftover":
		s.call("create", &sale{bill: "OLD" + o.bill, phone: o.phone}, map[string]any{
			"phone": o.phone, "hash": sandbox.Hash("OLD"+o.bill, o.phone, "4040017"), "price": s.price(o, "4040017"), "sendType": s.send,
		})
	}
	return s.call("create", o, extra)
}
