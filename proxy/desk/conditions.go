package desk

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A condition returns why it is not met, or nil.
type condition func(w *window) *Verdict

// wrong returns that a condition is not met, with the records that show it. The text names the last of their calls.
func wrong(at []Record, format string, args ...any) *Verdict {
	v := &Verdict{Text: fmt.Sprintf(format, args...)}
	for i, r := range at {
		v.Records = append(v.Records, r.N)
		if c := r.Call; c != nil && i >= len(at)-2 {
			code := cmp.Or(c.Code, field(c.Reply, "code"), "none")
			v.Text += fmt.Sprintf(" [%s %s: HTTP %d, code %s]", c.Operation, c.Bill, c.Status, code)
		}
	}
	return v
}

// conditions are the checks of cases by name. says is part of every case, as those of every.yaml. The
// parameters of others are kinds of calls, as window.calls takes them, and numbers.
var conditions = map[string]condition{
	"says": says, "one-bill": oneBill, "accepted": accepted, "as-ordered": asOrdered, "rate": rate,
	"sent": sent, "follows": follows, "never": never,
}

// says: the hook answers what was expected when it was asked, with the amount that was paid.
func says(w *window) *Verdict {
	for _, r := range w.recs {
		switch said := r.Hook; {
		case r.Want == nil:
		case !slices.Contains(r.Want, said.State):
			return wrong([]Record{r}, "order %s is %q at the partner, expected %s",
				r.Order, said.State, strings.Join(r.Want, " or "))
		case said.State == "paid" && said.Amount.String() != r.Amount:
			return wrong([]Record{r}, "the partner booked %q for order %s, the bill is %s",
				said.Amount, r.Order, r.Amount)
		case r.Times != "" && strconv.Itoa(said.Fulfilled) != r.Times:
			return wrong([]Record{r}, "order %s was fulfilled %d times, expected %s", r.Order, said.Fulfilled, r.Times)
		}
	}
	return nil
}

// oneBill: no second bill. It counts what was sent, not what was made. Another bill is allowed after the partner has
// read that the one before is destroyed, or if each create of that was refused.
func oneBill(w *window) *Verdict {
	var open []Record // creates of bills that may exist
	for _, r := range w.calls("") {
		bill := r.Call.Bill
		if r.destroyed() {
			open = slices.DeleteFunc(open, func(o Record) bool { return o.Call.Bill == bill })
		}
		if r.Call.Operation != "bill.create" {
			continue
		}
		if other, second := first(open, func(o Record) bool { return o.Call.Bill != bill }); second {
			return wrong([]Record{other, r}, "a second bill was sent for one order: %s, then %s",
				other.Call.Bill, bill)
		}
		if !r.refused() {
			open = append(open, r)
		}
	}
	return nil
}

// byState are the codes that can be right, as the state of the bill decides; callbacks have none.
var byState = []string{"", "0000", "BILL_002", "BILL_003", "BILL_006"}

// accepted: there is a create, and the service takes an operation at the second attempt at the latest. What a state or
// a fault refuses does not count, nor BILL_001 after a create of the order that had an effect.
func accepted(w *window) *Verdict {
	if w.calls("bill.create") == nil && w.order == "a" {
		return &Verdict{Text: errNoBill.Error()}
	}
	made := w.calls("bill.create/done|bill.create/lost")
	refused := slices.DeleteFunc(w.calls(""), func(r Record) bool {
		return r.lost() || slices.Contains(byState, r.Call.Code) || r.Call.Code == "BILL_001" && made != nil
	})
	for i, r := range refused {
		c := r.Call
		if i > 0 || w.calls(c.Operation+"/done") == nil {
			return wrong([]Record{r}, "%s was refused with %s. Wrong or missing: %s", c.Operation, c.Code,
				cmp.Or(c.Field, c.HashText, "see the code"))
		}
	}
	return nil
}

// asOrdered: each create has the amount of the order, and the name of the customer is not damaged.
func asOrdered(w *window) *Verdict {
	for _, r := range w.calls("bill.create") {
		body := r.Call.Request
		price := field(body, "price")
		name := cmp.Or(field(body, "membername"), field(body, "membernm"), customer)
		if price != r.Amount || name != customer {
			return wrong([]Record{r}, "the bill is of %s won for %q, the order of %s for %q",
				price, name, r.Amount, customer)
		}
	}
	return nil
}

// rate KIND N TIME: there are not more than N calls with the same operation and bill in a time, and none before the
// time that the reply asked for.
func rate(w *window) *Verdict {
	most, _ := strconv.Atoi(w.args[1])
	pause, _ := time.ParseDuration(w.args[2])
	list := w.calls(w.args[0])
	for i := most; i < len(list); i++ {
		before, now := list[i-most].Call, list[i].Call
		least := max(pause, time.Duration(before.Fault.RetryAfter)*time.Second)
		if before.Bill == now.Bill && before.Operation == now.Operation && now.Began.Sub(before.Began) < least {
			return wrong([]Record{list[i-most], list[i]}, "sent more than %d times within %s", most, least)
		}
	}
	return nil
}

// sent KIND MIN MAX: calls are sent at least MIN and at most MAX times.
func sent(w *window) *Verdict {
	list := w.calls(w.args[0])
	least, _ := strconv.Atoi(w.args[1])
	if most, _ := strconv.Atoi(w.args[2]); len(list) < least || len(list) > most {
		return wrong(list, "%s was sent %d times, expected %d to %d", w.args[0], len(list), least, most)
	}
	return nil
}

// follows KIND KIND TIME: the first of some calls is followed by another call about the bill in a time.
func follows(w *window) *Verdict {
	within := w.plan.limit(w.args[2])
	r, found := first(w.calls(w.args[0]), func(Record) bool { return true })
	if !found {
		return nil
	}
	next, ok := first(w.calls(w.args[1]), func(n Record) bool {
		return n.N != r.N && n.Call.Bill == r.Call.Bill && !n.Call.Began.Before(r.Call.Began)
	})
	if ok && next.Call.Began.Sub(r.Call.Ended) <= within {
		return nil
	}
	return wrong([]Record{r}, "no %s of the bill followed the %s within %s", w.args[1], w.args[0], within)
}

// never KIND KIND: after the first of some calls there is no other call until the faults are removed.
func never(w *window) *Verdict {
	end, _ := first(w.recs, func(r Record) bool { return r.Text == "clear" })
	for _, r := range w.calls(w.args[0]) {
		next, ok := first(w.calls(w.args[1]), func(n Record) bool {
			return n.after(r) && (end.N == 0 || end.after(n))
		})
		if ok {
			return wrong([]Record{r, next}, "%s was sent after %s", next.Call.Operation, w.args[0])
		}
	}
	return nil
}
