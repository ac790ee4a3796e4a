package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/sandbox"
)

// A shop is the test system of a partner: an integration in either form, with the order hook. Without a habit it is a
// good one. A habit is one mistake; see wrongShops.
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
	id, bill, state, amount, phone string
	booked                         string
	fulfilled, bills               int
	sent                           []string
	busy, gaveUp, seen             bool
	callbacks                      int
	made                           time.Time
}

func (s *shop) is(habit string) bool { return s.habit == habit }

// ownReads reads the bill of a sale twice, at the shop's interval.
func (s *shop) ownReads(o *sale) {
	for n := 0; n < 2 && s.pause(s.reconcile); n++ {
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
			http.NotFound(w, r)
			return
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
		o = &sale{id: c.Order, amount: c.Amount.String(), phone: c.Phone, state: "new", made: time.Now()}
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

func (s *shop) pause(d time.Duration) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

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
	o.sent = append(o.sent, o.bill)
}

// order creates the bill of a sale, until the outcome is known or ten minutes are over.
func (s *shop) order(o *sale) {
	stop := false
	s.set(func() {
		if s.is("again-is-new") && o.busy {
			stop = true
			other := sale{id: o.id + "-again", amount: o.amount, phone: o.phone}
			s.newBill(&other)
			s.all.Go(func() { s.create(&other, 0) })
			return
		}
		stop = o.busy || o.state != "new" && o.state != "unknown" || o.gaveUp
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
			s.set(func() {
				if o.state == "new" || o.state == "unknown" {
					o.state = "waiting"
				}
			})
			if s.is("second-bill-later") && s.pause(4*time.Minute) {
				s.set(func() { s.newBill(o) })
				s.create(o, 0)
			}
			if s.is("creates-twice") {
				s.set(func() { s.newBill(o) })
				s.create(o, 0)
			}
			return
		case s.newIDAfter(out):
			s.set(func() { s.newBill(o) })
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
			s.set(func() { o.state = "new" })
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
			s.set(func() { o.state = "waiting" })
			return
		}
		if !again && !s.is("duplicate-is-failure") {
			switch read := s.refresh(o); {
			case read.code == "BILL_003" && s.is("new-id-after-not-found"):
				s.set(func() { s.newBill(o) })
			case s.known(o):
				return
			case s.is("reconciles-known-only"):
				return
			}
		}
		s.pause(pause)
		pause = min(2*pause, 64*s.retry/2)
	}
}

func (s *shop) known(o *sale) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.state != "new" && o.state != "unknown"
}

// newIDAfter is the habit of a new bill id after a kind of reply.
func (s *shop) newIDAfter(out outcome) bool {
	timeout := out.err != nil && errors.Is(out.err, context.DeadlineExceeded)
	switch s.habit {
	case "new-id-after-anything":
		return out.code == "" || out.code == "ERROR"
	case "new-id-after-timeout":
		return timeout
	case "new-id-after-closed":
		return out.err != nil && !timeout && out.status == 0
	case "new-id-after-504":
		return out.status == 504
	case "new-id-after-half":
		return out.err != nil && out.status == 200
	case "new-id-after-500":
		return out.status == 500
	case "new-id-after-empty-object":
		return out.raw == "{}"
	case "new-id-after-empty":
		return out.err == nil && strings.TrimSpace(out.raw) == ""
	}
	return false
}

// gives is the habit to give an order up.
func (s *shop) gives(out outcome) bool {
	return s.is("gives-up-503") && out.status == 503 || s.is("gives-up-429") && out.status == 429 ||
		s.is("gives-up-maintenance") && out.status == 200
}

func (s *shop) create(o *sale, hashes int) outcome {
	amount := o.amount
	if s.is("adds-a-fee") {
		amount += "0"
	}
	hash := sandbox.Hash(o.bill, o.phone, amount)
	if s.is("tries-hashes") && hashes < 2 {
		hash = sandbox.Hash(o.bill, fmt.Sprint(hashes), amount)
	}
	callback := s.self + "/callback/" + o.id
	extra := map[string]any{"phone": o.phone, "hash": hash, "price": s.price(o, amount)}
	if s.form == "v2" {
		extra["sendType"], extra["callbackUrl"], extra["productName"] = s.send, callback, "수강료"
	} else {
		extra["callbackURL"], extra["product_nm"] = callback, "수강료"
	}
	if s.is("unknown-field") {
		extra["orderNo"] = o.id
	}
	if s.is("wrong-price-type") {
		extra["price"] = map[bool]any{true: amount, false: json.Number(amount)}[s.form == "v2"]
	}
	return s.call("create", o, extra)
}

// refresh reads the bill of a sale and takes over what the read says.
func (s *shop) refresh(o *sale) outcome {
	out := s.call("read", o, nil)
	state := out.get("apprstate")
	if s.is("legacy-read-needs-code") && out.code != "0000" {
		state = ""
	}
	if out.err != nil || out.status != 200 || out.code != "" && out.code != "0000" ||
		out.get("billid") != o.bill && !s.is("takes-another-bill") {
		state = ""
	}
	switch dt := out.get("apprdt"); {
	case state == "":
	case state != "W":
	case s.is("legacy-time-is-paid") && dt != "" && s.form == "legacy",
		s.is("null-is-paid") && strings.Contains(strings.ToLower(out.raw), `dt":null`),
		s.is("text-zero-is-paid") && out.get("apprprice") == "0",
		s.is("absent-is-paid") && !strings.Contains(strings.ToLower(out.raw), "price"),
		s.is("zero-price-is-paid") && s.form == "v2" && out.get("apprpaytype") == "0" && len(out.raw) < 200 &&
			out.get("apprprice") == "":
		state = "F"
	}
	if s.is("reads-C-as-paid") && state == "C" {
		state = "F"
	}
	if state == "" {
		s.blind(o, out)
		return out
	}
	s.take(o, state, o.amount)
	return out
}

// blind is what a shop does after a read that failed. A good one does nothing.
func (s *shop) blind(o *sale, out outcome) {
	s.mu.Lock()
	was := o.state
	s.mu.Unlock()
	closed := out.err != nil
	reissue := s.is("reissues-after-closed-read") && closed || s.is("reissues-after-502-read") && out.status == 502 ||
		s.is("reissues-after-504-read") && out.status == 504 ||
		s.is("reissues-after-ERROR-read") && out.code == "ERROR" && out.status == 200 ||
		s.is("reissues-after-maintenance-read") && out.code == "MAINTAINED_METHOD" && out.status == 200 ||
		s.is("reissues-after-empty-read") && out.raw == "{}" || s.is("reissues-after-failed-read") && out.code != "BILL_003"
	switch {
	case was != "waiting":
	case reissue:
		s.set(func() { s.newBill(o) })
		s.create(o, 0)
	case s.is("withdraws-after-failed-read"):
		s.call("destroy", o, s.signed(o))
	case s.is("not-found-closes") && out.code == "BILL_003":
		s.set(func() { o.state = "withdrawn" })
	case s.is("reissues-after-not-found") && out.code == "BILL_003":
		s.set(func() { s.newBill(o) })
		s.create(o, 0)
	}
}

// take takes over a state of the bill.
func (s *shop) take(o *sale, state, amount string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is("not-found-closes") && o.state == "withdrawn" {
		return
	}
	switch state {
	case "W":
		if o.state == "new" || o.state == "unknown" {
			o.state = "waiting"
		}
	case "F":
		if o.state == "refunded" {
			return
		}
		if o.state != "paid" || s.is("ships-twice") {
			if s.is("ships-in-a-race") {
				s.mu.Unlock()
				time.Sleep(time.Millisecond)
				s.mu.Lock()
			}
			o.fulfilled++
			o.booked = amount
		}
		o.state = "paid"
	case "C":
		if s.is("refund-needs-paid") && o.state != "paid" {
			return
		}
		o.state = "refunded"
	case "D":
		o.state = "withdrawn"
	}
}

// callback answers a callback. It is a hint to read the bill.
func (s *shop) callback(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	answer := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	ok := func() {
		switch s.habit {
		case "answers-result-ok":
			answer(200, `{"result":"OK"}`)
		case "answers-201":
			answer(201, `{"code":"0000"}`)
		case "answers-empty":
			answer(200, "")
		case "answers-body":
			answer(200, string(body))
		default:
			answer(200, `{"code":"0000","msg":"성공하였습니다."}`)
		}
	}
	in := outcome{body: parse(body)}
	bill, state := in.get("billid"), in.get("apprstate")
	if s.is("strict-fields") && (in.body["new_field"] != nil) {
		answer(500, `{"code":"ERROR"}`)
		return
	}
	o := s.find(func(o *sale) bool { return o.bill == bill })
	if s.is("takes-order-from-path") {
		o = s.find(func(o *sale) bool { return o.id == path })
	}
	switch {
	case o == nil && s.is("unknown-bill-is-500"):
		answer(500, `{"code":"ERROR"}`)
		return
	case o == nil:
		answer(200, `{"code":"BILL_005","msg":"no such bill"}`)
		return
	case in.get("apikey") != s.key && !s.is("ships-with-any-key") && !(s.is("ships-without-key") && in.get("apikey") == ""):
		if !s.is("ships-on-body") || in.get("apikey") != "" {
			answer(200, `{"code":"PARTNER_002"}`)
			return
		}
	}
	s.mu.Lock()
	o.callbacks++
	n, was := o.callbacks, o.state
	busy := o.busy
	s.mu.Unlock()
	forged := in.get("apikey") != s.key
	switch {
	case s.is("first-callback-only") && n > 1, s.is("done-before-work") && o.seen:
		ok()
		return
	case s.is("repetition-is-500") && n > 1 && was == "paid" && state == "F":
		answer(500, `{"code":"ERROR"}`)
		return
	case s.is("forgets-early-callbacks") && busy:
		ok()
		return
	case s.is("ignores-old-callbacks") && time.Since(o.made) > 2*time.Minute && n == 1:
		ok()
		return
	case s.is("payments-only") && state == "C":
		ok()
		return
	case s.is("ships-on-body") && state == "F", s.is("ships-with-any-key") && forged && in.get("apikey") != "",
		s.is("ships-without-key") && forged:
		s.take(o, "F", in.get("apprprice"))
		ok()
		return
	case s.is("ships-before-reading") && state == "F" && !forged:
		s.take(o, "F", o.amount)
	case s.is("takes-state-from-callback") && was == "refunded" && state == "F":
		s.set(func() { o.state = "paid" })
		ok()
		return
	case s.is("done-before-work"):
		s.set(func() { o.seen = true })
		if s.pauseOr(r.Context(), 200*time.Millisecond) {
			return
		}
	case s.is("does-not-read"):
		ok()
		return
	}
	var out outcome
	if s.is("takes-order-from-path") {
		// It reads the bill that the callback names, and ships the order of the path.
		other := *o
		other.bill = bill
		out = s.call("read", &other, nil)
		s.take(o, out.get("apprstate"), o.amount)
	} else {
		out = s.refresh(o)
	}
	read := out.get("apprstate")
	switch {
	case s.is("callback-wins-over-W") && read == "W" && state == "F" && n == 1 && in.get("apprnum") != "30009999",
		s.is("ships-if-read-fails") && read == "" && state == "F":
		s.take(o, "F", o.amount)
	case s.is("books-callback-amount") && read == "F":
		s.set(func() { o.booked = in.get("apprprice") })
	}
	if read == "" && !s.is("answers-0000-blind") {
		answer(200, `{"code":"ERROR","msg":"try again"}`)
		return
	}
	ok()
}

// pauseOr reports whether the caller went away during a pause.
func (s *shop) pauseOr(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}

func (s *shop) signed(o *sale) map[string]any {
	return map[string]any{"price": s.price(o, o.amount), "hash": sandbox.Hash(o.bill, "", o.amount)}
}

// refund cancels the bill of a sale, and reads it unless the outcome is known.
func (s *shop) refund(o *sale) {
	extra := s.signed(o)
	if s.is("hashes-cancel-with-phone") {
		extra["hash"] = sandbox.Hash(o.bill, o.phone, o.amount)
	}
	for n := range 3 {
		out := s.call("cancel", o, extra)
		switch {
		case out.code == "0000":
			s.set(func() { o.state = "refunded" })
			if s.is("cancels-thrice") {
				s.call("cancel", o, extra)
				s.call("cancel", o, extra)
			}
			return
		case out.code == "PAYMENT_002" && s.is("declined-is-refunded"):
			s.set(func() { o.state = "refunded" })
			return
		case out.code == "PAYMENT_002" && s.is("repeats-declined"):
			for range 9 {
				s.pause(s.retry)
				s.call("cancel", o, extra)
			}
			return
		case out.code == "" && s.is("lost-cancel-failed"):
			return
		case out.code == "" && s.is("lost-cancel-done"):
			s.set(func() { o.state = "refunded" })
			return
		case out.code == "" && s.is("lost-cancel-done-whatever-it-reads"):
			s.refresh(o)
			s.set(func() { o.state = "refunded" })
			return
		case out.code == "BILL_002" && s.is("refused-cancel-failed"):
			return
		}
		if out.code == "VALIDATION_002" && !s.is("hashes-cancel-with-phone") {
			return
		}
		if s.refresh(o); n == 2 {
			return
		}
		s.mu.Lock()
		paid := o.state == "paid"
		s.mu.Unlock()
		if !paid || s.is("hashes-cancel-with-phone") && n == 1 {
			return
		}
		s.pause(s.retry)
	}
}

// withdraw destroys the bill of a sale.
func (s *shop) withdraw(o *sale) {
	extra := s.signed(o)
	if s.is("hashes-destroy-with-phone") {
		extra["hash"] = sandbox.Hash(o.bill, o.phone, o.amount)
	}
	if s.is("destroys-without-price-digits") {
		extra["price"] = s.price(o, o.amount+"0")
		extra["hash"] = sandbox.Hash(o.bill, "", o.amount+"0")
	}
	for range 3 {
		out := s.call("destroy", o, extra)
		switch {
		case out.code == "0000":
			s.set(func() { o.state = "withdrawn" })
			return
		case out.code == "BILL_002" && s.is("refused-destroy-is-done"):
			s.set(func() { o.state = "withdrawn" })
			return
		case out.code == "BILL_002" && s.is("reissues-after-refused-destroy"):
			s.set(func() { s.newBill(o) })
			s.create(o, 0)
			return
		case out.code == "" && s.is("lost-destroy-failed"):
			return
		}
		s.refresh(o)
		s.mu.Lock()
		open := o.state == "waiting"
		s.mu.Unlock()
		if !open {
			return
		}
		s.pause(s.retry)
	}
}

// resend sends the message again, once.
func (s *shop) resend(o *sale) {
	out := s.call("resend", o, nil)
	switch {
	case out.code == "" && s.is("repeats-lost-resend"), s.is("resends-twice"):
		s.pause(s.retry)
		s.call("resend", o, nil)
	case out.code == "BILL_006" && s.is("reissues-after-refused-resend"):
		s.set(func() { s.newBill(o) })
		s.create(o, 0)
	case s.is("reissues-instead-of-resend"):
		s.set(func() { s.newBill(o) })
		s.create(o, 0)
	case out.code == "BILL_006":
		s.refresh(o)
	}
}
