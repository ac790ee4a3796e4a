package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
)

var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// env is that of a store whose clock is the machine's.
var env = ledger.Env{
	Stamp:        func(at time.Time) time.Time { return at },
	EstimatedEnd: func(now time.Time) time.Time { return now.Add(365 * 24 * time.Hour) },
	Name:         func(name string) string { return name },
	Text:         func(text string) string { return text },
}

// moves are those of the interface (States).
var moves = ledger.Moves{
	"W": {"W", "F", "C", "D"}, "F": {"F", "C"}, "C": {"C"}, "D": {"D"},
}

// looks is what a bill has seen in the events of a row: "create 100", or "0s F 100 num=1 +a=1", with the time after the
// create, the state, the amount, exact values and further ones. "said C" is an acknowledgement, "reuse" another create with the id.
func looks(t *testing.T, row string) string {
	t.Helper()
	b, all := ledger.Bill{ID: "b"}, []string{}
	call := ledger.Call{At: noon, Operation: "bill.read", Upstream: "new", Merchant: "shop"}
	apply := func(what ledger.What) {
		t.Helper()
		next, found, err := ledger.Next(env, b, ledger.Event{Call: call, What: what})
		if err != nil {
			t.Fatal(row, err)
		}
		b = next
		for _, c := range found {
			text := fmt.Sprintf("%s %s %s>%s", c.Kind, c.Path, c.Before, c.Now)
			if c.Vanished {
				text += " vanished"
			}
			all = append(all, strings.Join(strings.Fields(text), " "))
		}
	}
	for _, event := range strings.Split(row, ", ") {
		words := strings.Fields(event)
		if words[0] == "begin" {
			apply(ledger.CreateBegun{Token: "u"})
			continue
		}
		if words[0] == "create" {
			apply(ledger.CreateBegun{Token: "t", Amount: words[1]})
			apply(ledger.CreateEnded{Token: "t", Outcome: ledger.Succeeded})
			continue
		}
		after, err := time.ParseDuration(words[0])
		if err != nil {
			t.Fatal(row, err)
		}
		call.At = noon.Add(after)
		look := ledger.Looked{Shows: ledger.Shows{Moves: moves, Whole: true}}
		if words = words[1:]; words[0] == "said" {
			words, look.Said = words[1:], true
		}
		if words[0] == "at" {
			call.Upstream, words = words[1], words[2:]
		}
		if words[0] == "of" {
			call.Merchant, words = words[1], words[2:]
		}
		look.Means, look.Read.State = words[0], words[0]
		look.Final = look.Means == "C" || look.Means == "D"
		for _, value := range words[1:] {
			path, text, named := strings.Cut(value, "=")
			switch further, is := strings.CutPrefix(path, "+"); {
			case is:
				look.Others = append(look.Others, ledger.Value{Path: further, Text: text})
			case named && text == "":
				look.Lacks = append(look.Lacks, path)
			case named:
				if look.Exact == nil {
					look.Exact = map[string]string{}
				}
				look.Exact[path] = text
			default:
				look.Amount = value
			}
		}
		apply(look)
		call.Upstream, call.Merchant = "new", "shop"
	}
	if b.Due.IsZero() {
		return strings.Join(all, ", ")
	}
	return strings.TrimSpace(strings.Join(append(all, "due "+b.Due.Sub(noon).String()), ", "))
}

// Each write without an answer has reads of its own times: one that is read no more ends those of no other.
func TestTimesOfReadsAreThoseOfEachWrite(t *testing.T) {
	t.Parallel()
	b := ledger.Bill{ID: "b"}
	apply := func(at time.Time, operation string, what ledger.What) {
		t.Helper()
		call := ledger.Call{At: at, Operation: operation, Upstream: "new", Merchant: "shop"}
		next, _, err := ledger.Next(env, b, ledger.Event{Call: call, What: what})
		if err != nil {
			t.Fatal(err)
		}
		b = next
	}
	later := noon.Add(30 * 24 * time.Hour)
	apply(noon, "bill.destroy", ledger.WriteUnknown{Next: noon})
	apply(later, "bill.cancel", ledger.WriteUnknown{Next: later})
	apply(later, "", ledger.Claimed{For: time.Minute})
	apply(later, "", ledger.ReadEnded{Claimed: b.Due, Next: func(since, now time.Time) time.Time {
		if now.Sub(since) > 7*24*time.Hour {
			return time.Time{}
		}
		return now.Add(5 * time.Minute)
	}})
	if want := later.Add(5 * time.Minute); !b.Due.Equal(want) || len(b.Awaits()) != 1 || len(b.Writes) != 2 {
		t.Errorf("read next at %s, want %s: %+v", b.Due, want, b)
	}
}

// A create is read back once, also if something else is planned meanwhile; another create with the id is read back, too.
func TestCreateIsReadBackOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		meanwhile []ledger.Event
		due       time.Time
		created   string
	}{
		{nil, time.Time{}, ""},
		{[]ledger.Event{{Call: ledger.Call{At: noon, Operation: "bill.cancel"}, What: ledger.WriteUnknown{Next: noon}}}, noon, ""},
		{[]ledger.Event{{Call: ledger.Call{At: noon, Request: "second"}, What: ledger.Created{Next: noon}}}, noon, "second"},
	} {
		b := ledger.Bill{ID: "b"}
		apply := func(e ledger.Event) {
			t.Helper()
			next, _, err := ledger.Next(env, b, e)
			if err != nil {
				t.Fatal(err)
			}
			b = next
		}
		call := ledger.Call{At: noon, Operation: "bill.create", Request: "first", Upstream: "new", Merchant: "shop"}
		apply(ledger.Event{Call: call, What: ledger.Created{Amount: "100", Next: noon.Add(time.Second)}})
		if calls := b.Awaits(); !b.Due.Equal(noon.Add(time.Second)) || b.Amount != "100" || len(calls) != 1 || calls[0] != call {
			t.Errorf("%+v", b)
		}
		apply(ledger.Event{Call: ledger.Call{At: noon}, What: ledger.Claimed{For: time.Minute}})
		end := ledger.ReadEnded{Created: "first", Claimed: b.Due, Next: func(time.Time, time.Time) time.Time { return noon }}
		for _, e := range row.meanwhile {
			apply(e)
		}
		apply(ledger.Event{Call: ledger.Call{At: noon}, What: end})
		created := ""
		if b.Created != nil {
			created = b.Created.Request
		}
		if !b.Due.Equal(row.due) || created != row.created {
			t.Errorf("due %s, %q is to be read back; want %s, %q", b.Due, created, row.due, row.created)
		}
	}
}

// What looks show against what is known: the table of every kind, and of what is none.
func TestContradictions(t *testing.T) {
	t.Parallel()
	for row := range strings.SplitSeq(strings.TrimSpace(`
# an honest bill
create 100, 1s W, 2s W, 3s F 100 num=1, 4s F 100 num=1, 5s C 100 num=2, 6s C 100 num=2 |
create 100, 1s W, 2s D | due 1m2s
create 100, 1s W, 2s D, 1m2s D |
create 100, 1s F 100, 2m F 100 |
# paid, then unpaid: a copy may be behind, for two minutes after the first look, until a second look
create 100, 1s F, 2s W | due 1m2s
create 100, 1s F, 2s W, 3s F, 1m2s F | state F>W vanished
create 100, 1s F, 2s W, 61s W | due 1m2s
create 100, 1s F, 2s W, 62s W | state F>W
create 100, 1s F, 2s W, 62s W, 70s W | state F>W
create 100, 1s F, 3m W | state F>W
create 100, 1s F, 3m W, 4m F | state F>W
create 100, 1s C, 2s F | due 1m2s
# an end that nobody asked for needs another look
create 100, 1s F, 2s C, 1m2s F, 2m2s F, 4m F | state C>F
# no move of the interface
create 100, 1s F, 2s D | state F>D, due 1m2s
create 100, 1s D, 2s F | state D>F
create 100, 1s D, 2s C | state D>C, due 1m2s
# a look that was sent before the state was seen says nothing
create 100, 10s F, 5s W |
# an acknowledged cancel or destroy
create 100, 1s F, 2s said C | due 2s
create 100, 1s F, 2s said C, 3s C |
create 100, 1s F, 2s said C, 3s F, 1m3s F | not_done C>F
create 100, 1s F, 2s said C, 3s F, 1m3s C | not_done C>F vanished
create 100, 1s W, 2s said D, 3s W, 4s W, 2m W, 3m F | not_done D>W
create 100, 1s W, 2s said D, 3s D |
# the amount, and what must not change
create 100, 1s F 100, 2s F 101 | money 100>101
create 100, 1s W, 2s W 90 | money 100>90
create 100, 1s F 100 num=1 at=7, 2s F 100 num=2 at=7 | exact num (another)>(now)
create 100, 1s F 100 num=1, 2s F 100 num=1 at=7, 3s F 100 num=1 at=8 | exact at (another)>(now)
create 100, 1s F 100 num=1, 2s F 100 num= | exact num (there)>(missing)
create 100, 1s F num=1, 2s C num=2 | due 1m2s
# a cancel says a value by another name than a read
create 100, 1s F num=1, 2s said C num=2 undo=9, 3s C num=2 at=9 |
create 100, 1s F num=1, 2s said C num=2 undo=9, 3s C num=2 at=8 | exact undo (acknowledged)>(now)
create 100, 1s F num=1, 2s said C num=2, 3s C num=3 | exact num (acknowledged)>(now)
# further values
create 100, 1s F +a=1 +b=, 2s F +a=1 +b=2, 3s F +a=2 +b=, 4s F +a=2 +b=3 | other a (another)>(now), other b (another)>(now)
create 100, 1s F +a=1 +b=1, 2s F +a=2 |
# another merchant, and another backend, have other bills
create 100, 1s F, 2s of other W |
create 100, 1s F, 2s at old W |
# the id is used again
create 100, 1s W, 2s D, begin, 3m W | due 1m2s
create 100, 1s W, 2s D, create 200, 3s W, 4s F 200 |
`), "\n") {
		steps, want, is := strings.Cut(row, " |")
		if !is {
			continue
		}
		if got := looks(t, steps); got != strings.TrimSpace(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", steps, got, strings.TrimSpace(want))
		}
	}
}
