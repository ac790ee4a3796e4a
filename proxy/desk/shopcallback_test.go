package desk

import (
	"context"
	"io"
	"net/http"
	"time"

	"billbridge/proxy/sandbox"
)

// callback answers a callback. It is a hint to read the bill.
func (s *shop) callback(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	answer := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	ok := func() {
		status, text := 200, `{"code":"0000","msg":"성공하였습니다."}`
		if s.is("answers-201") {
			status = 201
		}
		if other, wrong := map[string]string{
			"answers-result-ok": `{"result":"OK"}`, "answers-empty": "", "answers-body": string(body),
		}[s.habit]; wrong {
			text = other
		}
		answer(status, text)
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
	case s.is("first-callback-only") && n > 1, s.is("done-before-work") && o.seen, s.is("does-not-read"),
		s.is("forgets-early-callbacks") && busy, s.is("payments-only") && state == "C",
		s.is("ignores-old-callbacks") && time.Since(o.made) > 2*time.Minute && n == 1:
		ok()
		return
	case s.is("repetition-is-500") && n > 1 && was == "paid" && state == "F":
		answer(500, `{"code":"ERROR"}`)
		return
	case s.is("ships-on-body") && state == "F", s.is("ships-with-any-key") && forged && in.get("apikey") != "",
		s.is("ships-without-key") && forged:
		s.take(o, "F", in.get("apprprice"))
		ok()
		return
	case s.is("ships-before-reading") && state == "F" && !forged:
		s.take(o, "F", o.amount)
	case s.is("takes-C-from-callback") && state == "C":
		s.mark(o, "refunded")
		ok()
		return
	case s.is("takes-state-from-callback") && was == "refunded" && state == "F":
		s.mark(o, "paid")
		ok()
		return
	case s.is("done-before-work"):
		s.set(func() { o.seen = true })
		if s.pauseOr(r.Context(), 200*time.Millisecond) {
			return
		}
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
	if s.state(o) == "refunded" && !s.is("refunds-twice") {
		return
	}
	extra := s.signed(o)
	if s.is("hashes-cancel-with-phone") {
		extra["hash"] = sandbox.Hash(o.bill, o.phone, o.amount)
	}
	for n := range 3 {
		out := s.call("cancel", o, extra)
		switch {
		case out.code == "0000":
			s.mark(o, "refunded")
			if s.is("cancels-thrice") {
				s.call("cancel", o, extra)
				s.call("cancel", o, extra)
			}
			return
		case out.code == "PAYMENT_002" && s.is("repeats-declined"):
			for range 9 {
				s.pause(s.retry)
				s.call("cancel", o, extra)
			}
			return
		case out.code == "BILL_002" && s.is("refused-cancel-is-refund"), out.code == "" && s.is("lost-cancel-done"), out.code == "PAYMENT_002" && s.is("declined-is-refunded"):
			s.mark(o, "refunded")
			return
		case out.code == "" && s.is("lost-cancel-done-whatever-it-reads"):
			s.refresh(o)
			s.mark(o, "refunded")
			return
		case out.code == "BILL_002" && s.is("refused-cancel-failed"), out.code == "" && s.is("lost-cancel-failed"),
			out.code == "VALIDATION_002" && !s.is("hashes-cancel-with-phone"):
			return
		}
		if s.refresh(o); n == 2 {
			return
		}
		if s.state(o) != "paid" || s.is("hashes-cancel-with-phone") && n == 1 {
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
		case out.code == "0000", out.code == "BILL_002" && s.is("refused-destroy-is-done"):
			s.mark(o, "withdrawn")
			return
		case out.code == "BILL_002" && s.is("reissues-after-refused-destroy"):
			s.reissue(o)
			return
		case out.code == "" && s.is("lost-destroy-failed"):
			return
		}
		if s.refresh(o); s.state(o) != "waiting" {
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
	case out.code == "BILL_006" && s.is("reissues-after-refused-resend"), s.is("reissues-instead-of-resend"):
		s.reissue(o)
	case out.code == "BILL_006":
		s.refresh(o)
	}
}
