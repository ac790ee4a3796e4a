package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// refresh reads the bill of a sale and takes over what the read says.
func (s *shop) refresh(o *sale) outcome {
	if s.is("reads-twice") {
		s.call("read", o, nil)
		s.pause(time.Second)
	}
	out := s.call("read", o, nil)
	state := out.get("apprstate")
	if s.is("legacy-read-needs-code") && out.code != "0000" || out.err != nil || out.status != 200 || out.code != "" && out.code != "0000" ||
		out.get("billid") != o.bill && !s.is("takes-another-bill") ||
		state == "F" && out.get("apprprice") != o.amount && !s.is("takes-any-amount") && !s.is("takes-another-bill") ||
		s.is("strict-reads") && strings.Contains(out.raw, "ield") {
		state = ""
	}
	raw := strings.ToLower(out.raw)
	if state == "W" && map[string]bool{
		"legacy-time-is-paid": out.get("apprdt") != "" && s.form == "legacy",
		"null-is-paid":        strings.Contains(raw, `dt":null`),
		"text-zero-is-paid":   out.get("apprprice") == "0",
		"absent-is-paid":      !strings.Contains(raw, "price"),
		"zero-price-is-paid": s.form == "v2" && out.get("apprpaytype") == "0" && len(raw) < 200 &&
			out.get("apprprice") == "",
	}[s.habit] {
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
	reissue := map[string]bool{
		"reissues-after-closed-read":      out.err != nil && out.status == 0 && !errors.Is(out.err, context.DeadlineExceeded),
		"reissues-after-502-read":         out.status == 502,
		"reissues-after-504-read":         out.status == 504,
		"reissues-after-ERROR-read":       out.code == "ERROR" && out.status == 200,
		"reissues-after-maintenance-read": out.code == "MAINTAINED_METHOD" && out.status == 200,
		"reissues-after-empty-read":       out.raw == "{}",
		"reissues-after-404-read":         out.status == 404,
		"reissues-after-half-read":        out.err != nil && out.status == 200,
		"reissues-after-slow-read":        errors.Is(out.err, context.DeadlineExceeded),
		"reissues-after-failed-read":      out.code != "BILL_003",
		"reissues-after-not-found":        out.code == "BILL_003",
	}[s.habit]
	switch {
	case s.state(o) != "waiting":
	case reissue:
		s.reissue(o)
	case s.is("withdraws-after-failed-read"):
		s.call("destroy", o, s.signed(o))
	case s.is("not-found-closes") && out.code == "BILL_003":
		s.mark(o, "withdrawn")
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
		if slices.Contains(pending, o.state) {
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

// parse returns a JSON object, or nil.
func parse(body []byte) (v map[string]any) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	_ = dec.Decode(&v)
	return v
}
