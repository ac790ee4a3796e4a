package desk

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A condition returns why it is not met, with the records that show it, or "".
type condition func(w *window) (wrong string, at []int)

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
func says(w *window) (string, []int) {
	for _, r := range w.recs {
		if r.Hook == nil || !strings.HasPrefix(r.Text, "says ") {
			continue
		}
		args, _ := words(r.Text)
		if !slices.Contains(strings.Split(args[1], "|"), r.Hook.State) {
			return fmt.Sprintf("the order is %q at the partner, expected %s", r.Hook.State, args[1]), []int{r.N}
		}
		if len(args) > 2 && strconv.Itoa(r.Hook.Fulfilled) != args[2] {
			return fmt.Sprintf("the order was fulfilled %d times, expected %s", r.Hook.Fulfilled, args[2]), []int{r.N}
		}
	}
	return "", nil
}

// oneBill: no second bill. It counts what was sent, not what was made. A new bill is allowed after the partner has read
// that the one before is destroyed.
func oneBill(w *window) (string, []int) {
	ids, at := []string{}, []int{}
	destroyed := map[string]bool{}
	for _, r := range w.recs {
		if r.Call == nil || r.Order != w.order {
			continue
		}
		if bill, state := r.shown(); state == "D" {
			destroyed[bill] = true
		}
		id := r.Call.Bill
		if r.Call.Operation != "bill.create" || slices.Contains(ids, id) {
			continue
		}
		at = append(at, r.N)
		if n := len(ids); n > 0 && !destroyed[ids[n-1]] {
			return fmt.Sprintf("a second bill was sent for one order: %s, then %s", ids[n-1], id), at
		}
		ids = append(ids, id)
	}
	return "", nil
}

// oneMade: exactly one bill is left for the order. It is for refusals that are known to have done nothing.
func oneMade(w *window) (string, []int) {
	open := slices.DeleteFunc(slices.Collect(maps.Values(w.book())), func(state string) bool { return state == "D" })
	if len(open) != 1 {
		creates := numbers(w.calls("bill.create"))
		return fmt.Sprintf("%d bills are left for the order, expected 1", len(open)), creates
	}
	return "", nil
}

// rightAmount: each create has the amount of the order.
func rightAmount(w *window) (string, []int) {
	for _, r := range w.recs {
		if r.Call != nil && r.Call.Operation == "bill.create" {
			if price, _ := field(r.Call.Request, "price"); price != r.Amount {
				return fmt.Sprintf("the price of the bill is %s, the order's is %s", price, r.Amount), []int{r.N}
			}
		}
	}
	return "", nil
}

// states are the states of an order at the partner that agree with the state of its bill.
var states = map[string]string{"W": "waiting", "F": "paid", "C": "refunded", "D": "withdrawn"}

// agrees: at the end the partner's state of each order is that of a bill of it; that of a destroyed one only if it has
// no other.
func agrees(w *window) (string, []int) {
	for _, w.order = range []string{"a", "b"} {
		last := w.last()
		if last.Hook == nil {
			continue
		}
		want := []string{"new", "unknown"}
		book := slices.Sorted(maps.Values(w.book()))
		if open := slices.DeleteFunc(slices.Clone(book), func(state string) bool { return state == "D" }); len(open) > 0 {
			book = open
		}
		if len(book) > 0 {
			want = nil
		}
		for _, state := range slices.Compact(book) {
			want = append(want, states[state])
		}
		if !slices.Contains(want, last.Hook.State) {
			return fmt.Sprintf("the order is %q at the partner, but %s by the service's book",
				last.Hook.State, strings.Join(want, " or ")), []int{last.N}
		}
	}
	return "", nil
}

// rightHash: the hash of an operation is right at the second attempt at the latest.
func rightHash(w *window) (string, []int) {
	wrong := slices.DeleteFunc(w.calls(w.args[0]), func(r Record) bool { return r.Call.Code != "VALIDATION_002" })
	if len(wrong) > 1 {
		return "the hash was wrong at the second attempt, too; expected the hash of " + wrong[1].Call.HashText, numbers(wrong)
	}
	return "", nil
}

// pace: the same write for the same bill is at most once per second. A second attempt at the hash may come at once.
func pace(w *window) (string, []int) {
	last := map[string]Record{}
	for _, r := range w.calls("write") {
		if r.Call.Code == "VALIDATION_002" {
			continue
		}
		key := r.Call.Operation + r.Call.Bill
		if before, ok := last[key]; ok && r.Call.Began.Sub(before.Call.Began) < time.Second {
			return "repeated after less than a second", []int{before.N, r.N}
		}
		last[key] = r
	}
	return "", nil
}

// retryAfter: a create is not repeated before the time that the reply asked for.
func retryAfter(w *window) (string, []int) {
	var before Record
	for _, r := range w.calls("bill.create") {
		if before.Call != nil {
			seconds := before.Call.Fault.RetryAfter
			if r.Call.Began.Sub(before.Call.Ended) < time.Duration(seconds)*time.Second {
				return fmt.Sprintf("repeated before the %d s of Retry-After", seconds), []int{before.N, r.N}
			}
		}
		before = r
	}
	return "", nil
}

// sent: an operation is sent at least MIN and at most MAX times.
func sent(w *window) (string, []int) {
	list := w.calls(w.args[0])
	least, _ := strconv.Atoi(w.args[1])
	if most, _ := strconv.Atoi(w.args[2]); len(list) < least || len(list) > most {
		return fmt.Sprintf("%s was sent %d times, expected %d to %d", w.args[0], len(list), least, most), numbers(list)
	}
	return "", nil
}

// readAfter: after the first call of an operation whose reply was lost, the partner reads that bill, or repeats the
// call with the same bill, in a time.
func readAfter(w *window) (string, []int) {
	lost, ok := first(w.calls(w.args[0]), Record.lost)
	if !ok {
		return "", nil // the partner sent nothing: other conditions say so
	}
	_, within := w.plan.duration(w.args[1])
	next, ok := first(w.recs, func(r Record) bool {
		return r.Call != nil && r.Call.Bill == lost.Call.Bill && r.after(lost) &&
			(r.Call.Operation == "bill.read" || r.Call.Operation == w.args[0])
	})
	if !ok || next.Call.Began.Sub(lost.Call.Ended) > within {
		return fmt.Sprintf("%s got no usable reply, and no read of %s followed within %s", w.args[0], lost.Call.Bill, w.args[1]),
			[]int{lost.N}
	}
	return "", nil
}

// readAfterCallback: a callback is followed by a read of the bill in a time; with or-refused, or refused by the partner.
func readAfterCallback(w *window) (string, []int) {
	got := w.calls(opCallback)
	switch {
	case len(got) == 0:
		return "no callback reached the partner", nil
	case len(w.args) > 1 && !accepted(got[0]):
		return "", nil
	}
	_, within := w.plan.duration(w.args[0])
	_, ok := first(w.calls("bill.read"), func(r Record) bool {
		after := r.Call.Began.Sub(got[0].Call.Began)
		return after >= 0 && after <= within
	})
	if !ok {
		return "no read of the bill followed the callback within " + w.args[0], []int{got[0].N}
	}
	return "", nil
}

// readBeforeShipping: the partner says that it fulfilled the order only after it read that the bill is paid.
func readBeforeShipping(w *window) (string, []int) {
	read, ok := first(w.calls("bill.read"), func(r Record) bool {
		_, state := r.shown()
		return state == "F"
	})
	r, said := first(w.recs, func(r Record) bool {
		return r.Hook != nil && r.Order == w.order && r.Hook.Fulfilled > 0
	})
	if said && (!ok || read.Call.Began.After(r.At)) {
		return "the order was fulfilled before any read showed that the bill is paid", []int{r.N}
	}
	return "", nil
}

// noWriteBlind: while reads of a bill fail, the partner writes nothing.
func noWriteBlind(w *window) (string, []int) {
	failed, ok := first(w.calls("bill.read"), Record.lost)
	if !ok {
		return "the partner did not read the bill", nil
	}
	end, _ := first(w.recs, func(r Record) bool { return r.Text == "clear" })
	wrote, ok := first(w.calls("write"), func(r Record) bool {
		return r.after(failed) && (end.N == 0 || r.Call.Began.Before(end.At))
	})
	if ok {
		return wrote.Call.Operation + " was sent although the read had failed", []int{failed.N, wrote.N}
	}
	return "", nil
}

// accepted reports whether the partner answered a callback with HTTP 200 and the code 0000.
func accepted(r Record) bool {
	code, _ := field(r.Call.Reply, "code")
	return r.Call.Status == 200 && code == "0000"
}

// answers: how callbacks are answered. 0000: each with HTTP 200 and that code; not-5xx: none with a server error.
func answers(w *window) (string, []int) {
	list := w.calls(opCallback)
	if len(list) == 0 {
		return "no callback reached the partner", nil
	}
	for _, r := range list {
		code, _ := field(r.Call.Reply, "code")
		wrong := r.Call.Status >= 500
		if w.args[0] == "0000" {
			wrong = !accepted(r) && !r.Call.Fault.Drop
		}
		if wrong {
			return fmt.Sprintf("a callback was answered with HTTP %d and the code %q", r.Call.Status, code), []int{r.N}
		}
	}
	return "", nil
}

// booked: the amount that the partner booked is that of the bill. It may not say the amount, unless "told" is given.
func booked(w *window) (string, []int) {
	last := w.last()
	switch {
	case last.Hook == nil:
		return "", nil
	case last.Hook.Amount == "":
		if len(w.args) > 0 {
			return "the order hook does not say which amount was booked", []int{last.N}
		}
	case last.Hook.Amount.String() != last.Amount:
		return fmt.Sprintf("the partner booked %s, the bill is %s", last.Hook.Amount, last.Amount), []int{last.N}
	}
	return "", nil
}
