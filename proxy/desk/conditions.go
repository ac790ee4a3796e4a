package desk

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A condition returns why it is not met, or nil.
type condition func(w *window) *Finding

// wrong returns a finding with the records that show it.
func wrong(at []Record, format string, args ...any) *Finding {
	f := &Finding{Text: fmt.Sprintf(format, args...)}
	for _, r := range at {
		f.Records = append(f.Records, r.N)
	}
	return f
}

func one(r Record) []Record { return []Record{r} }

// conditions are the checks of cases by name. says, one-bill, amount and agrees are part of every case.
var conditions = map[string]condition{
	"says":                 says,
	"one-bill":             oneBill,
	"one-made":             oneMade,
	"amount":               rightAmount,
	"agrees":               agrees,
	"hash":                 rightHash,
	"pace":                 pace,
	"retry-after":          retryAfter,
	"sent":                 sent,
	"read-after":           readAfter,
	"read-after-callback":  readAfterCallback,
	"read-before-shipping": readBeforeShipping,
	"no-write-blind":       noWriteBlind,
	"answers":              answers,
	"booked":               booked,
}

// says: the hook answers as the steps "says STATE|STATE [FULFILLED]" say.
func says(w *window) *Finding {
	for _, r := range w.recs {
		args, _ := words(r.Text)
		switch {
		case r.Hook == nil || !strings.HasPrefix(r.Text, "says "):
		case !slices.Contains(strings.Split(args[1], "|"), r.Hook.State):
			return wrong(one(r), "the order is %q at the partner, expected %s", r.Hook.State, args[1])
		case len(args) > 2 && strconv.Itoa(r.Hook.Fulfilled) != args[2]:
			return wrong(one(r), "the order was fulfilled %d times, expected %s", r.Hook.Fulfilled, args[2])
		}
	}
	return nil
}

// oneBill: no second bill. It counts what was sent, not what was made. A new bill is allowed after the partner has read
// that the one before is destroyed.
func oneBill(w *window) *Finding {
	var made []Record // the first create of each bill
	destroyed := map[string]bool{}
	for _, r := range w.calls("") {
		if bill, state := r.shown(); state == "D" {
			destroyed[bill] = true
		}
		id, n := r.Call.Bill, len(made)
		if r.Call.Operation != "bill.create" || slices.ContainsFunc(made, func(m Record) bool { return m.Call.Bill == id }) {
			continue
		}
		made = append(made, r)
		if n > 0 && !destroyed[made[n-1].Call.Bill] {
			return wrong(made, "a second bill was sent for one order: %s, then %s", made[n-1].Call.Bill, id)
		}
	}
	return nil
}

// oneMade: exactly one bill is left for the order. It is for refusals that are known to have done nothing.
func oneMade(w *window) *Finding {
	if open := w.open(); len(open) != 1 {
		return wrong(w.calls("bill.create"), "%d bills are left for the order, expected 1", len(open))
	}
	return nil
}

// rightAmount: each create has the amount of the order.
func rightAmount(w *window) *Finding {
	for _, r := range w.recs {
		if r.Call == nil || r.Call.Operation != "bill.create" {
			continue
		}
		if price := field(r.Call.Request, "price"); price != r.Amount {
			return wrong(one(r), "the price of the bill is %s, the order's is %s", price, r.Amount)
		}
	}
	return nil
}

// states are the states of an order at the partner that agree with the state of its bill.
var states = map[string]string{"W": "waiting", "F": "paid", "C": "refunded", "D": "withdrawn"}

// open returns the states at the partner that agree with the bills of the order that are not destroyed.
func (w *window) open() (list []string) {
	for _, state := range slices.Sorted(maps.Values(w.book())) {
		if state != "D" {
			list = append(list, states[state])
		}
	}
	return list
}

// agrees: at the end the partner's state of each order is that of a bill of it; that of a destroyed one only if it has
// no other.
func agrees(w *window) *Finding {
	for _, w.order = range []string{"a", "b"} {
		last, want := w.last(), w.open()
		switch {
		case last.Hook == nil:
			continue
		case len(w.book()) == 0:
			want = []string{"new", "unknown"}
		case len(want) == 0:
			want = []string{states["D"]}
		}
		if !slices.Contains(want, last.Hook.State) {
			return wrong(one(last), "the order is %q at the partner, but %s by the service's book",
				last.Hook.State, strings.Join(slices.Compact(want), " or "))
		}
	}
	return nil
}

// rightHash: the hash of an operation is right at the second attempt at the latest.
func rightHash(w *window) *Finding {
	refused := slices.DeleteFunc(w.calls(w.args[0]), func(r Record) bool { return r.Call.Code != "VALIDATION_002" })
	if len(refused) < 2 {
		return nil
	}
	return wrong(refused, "the hash was wrong at the second attempt, too; expected the hash of %s", refused[1].Call.HashText)
}

// pace: the same write for the same bill is at most once per second. A second attempt at the hash may come at once.
func pace(w *window) *Finding {
	last := map[string]Record{}
	for _, r := range w.calls("write") {
		key := r.Call.Operation + r.Call.Bill
		before, again := last[key]
		switch {
		case r.Call.Code == "VALIDATION_002":
			continue
		case again && r.Call.Began.Sub(before.Call.Began) < time.Second:
			return wrong([]Record{before, r}, "repeated after less than a second")
		}
		last[key] = r
	}
	return nil
}

// retryAfter: a create is not repeated before the time that the reply asked for.
func retryAfter(w *window) *Finding {
	creates := w.calls("bill.create")
	for i := 1; i < len(creates); i++ {
		before, r := creates[i-1], creates[i]
		seconds := before.Call.Fault.RetryAfter
		if r.Call.Began.Sub(before.Call.Ended) < time.Duration(seconds)*time.Second {
			return wrong([]Record{before, r}, "repeated before the %d s of Retry-After", seconds)
		}
	}
	return nil
}

// sent: an operation is sent at least MIN and at most MAX times.
func sent(w *window) *Finding {
	list := w.calls(w.args[0])
	least, _ := strconv.Atoi(w.args[1])
	if most, _ := strconv.Atoi(w.args[2]); len(list) < least || len(list) > most {
		return wrong(list, "%s was sent %d times, expected %d to %d", w.args[0], len(list), least, most)
	}
	return nil
}

// readAfter: after the first call of an operation whose reply was lost, the partner reads that bill, or repeats the
// call with the same bill, in a time.
func readAfter(w *window) *Finding {
	lost, ok := first(w.calls(w.args[0]), Record.lost)
	if !ok {
		return nil // the partner sent nothing: other conditions say so
	}
	_, within := w.plan.duration(w.args[1])
	next, ok := first(w.recs, func(r Record) bool {
		return r.Call != nil && r.Call.Bill == lost.Call.Bill && r.after(lost) &&
			(r.Call.Operation == "bill.read" || r.Call.Operation == w.args[0])
	})
	if ok && next.Call.Began.Sub(lost.Call.Ended) <= within {
		return nil
	}
	return wrong(one(lost), "%s got no usable reply, and no read of %s followed within %s",
		w.args[0], lost.Call.Bill, w.args[1])
}

var noCallback = &Finding{Text: "no callback reached the partner"}

// readAfterCallback: a callback is followed by a read of the bill in a time; with or-refused, or refused by the partner.
func readAfterCallback(w *window) *Finding {
	got, ok := first(w.calls(opCallback), func(Record) bool { return true })
	switch {
	case !ok:
		return noCallback
	case len(w.args) > 1 && !accepted(got):
		return nil
	}
	_, within := w.plan.duration(w.args[0])
	_, ok = first(w.calls("bill.read"), func(r Record) bool {
		after := r.Call.Began.Sub(got.Call.Began)
		return after >= 0 && after <= within
	})
	if ok {
		return nil
	}
	return wrong(one(got), "no read of the bill followed the callback within %s", w.args[0])
}

// readBeforeShipping: the partner says that it fulfilled the order only after it read that the bill is paid.
func readBeforeShipping(w *window) *Finding {
	read, ok := first(w.calls("bill.read"), func(r Record) bool {
		_, state := r.shown()
		return state == "F"
	})
	r, said := first(w.recs, func(r Record) bool {
		return r.Hook != nil && r.Order == w.order && r.Hook.Fulfilled > 0
	})
	if said && (!ok || read.Call.Began.After(r.At)) {
		return wrong(one(r), "the order was fulfilled before any read showed that the bill is paid")
	}
	return nil
}

// noWriteBlind: while reads of a bill fail, the partner writes nothing.
func noWriteBlind(w *window) *Finding {
	failed, ok := first(w.calls("bill.read"), Record.lost)
	if !ok {
		return wrong(nil, "the partner did not read the bill")
	}
	end, _ := first(w.recs, func(r Record) bool { return r.Text == "clear" })
	wrote, ok := first(w.calls("write"), func(r Record) bool {
		return r.after(failed) && (end.N == 0 || r.Call.Began.Before(end.At))
	})
	if ok {
		return wrong([]Record{failed, wrote}, "%s was sent although the read had failed", wrote.Call.Operation)
	}
	return nil
}

// accepted reports whether the partner answered a callback with HTTP 200 and the code 0000.
func accepted(r Record) bool { return r.Call.Status == 200 && field(r.Call.Reply, "code") == "0000" }

// answers: how callbacks are answered. 0000: each with HTTP 200 and that code; not-5xx: none with a server error.
func answers(w *window) *Finding {
	list := w.calls(opCallback)
	if len(list) == 0 {
		return noCallback
	}
	for _, r := range list {
		bad := r.Call.Status >= 500
		if w.args[0] == "0000" {
			bad = !accepted(r) && !r.Call.Fault.Drop
		}
		if bad {
			return wrong(one(r), "a callback was answered with HTTP %d and the code %q",
				r.Call.Status, field(r.Call.Reply, "code"))
		}
	}
	return nil
}

// booked: the amount that the partner booked is that of the bill. It may not say the amount, unless "told" is given.
func booked(w *window) *Finding {
	last := w.last()
	switch said := last.Hook; {
	case said == nil, said.Amount == "" && len(w.args) == 0:
		return nil
	case said.Amount == "":
		return wrong(one(last), "the order hook does not say which amount was booked")
	case said.Amount.String() != last.Amount:
		return wrong(one(last), "the partner booked %s, the bill is %s", said.Amount, last.Amount)
	}
	return nil
}
