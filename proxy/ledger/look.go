package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Moves are the states that a bill can be in after each state, which is among them.
type Moves map[string][]string

// reaches reports whether a bill can come from one state to another.
func (m Moves) reaches(from, to string) bool { return slices.Contains(m[from], to) }

// A Contradiction is what a look shows against what is known of a bill.
type Contradiction struct {
	Call   `json:"call,omitzero"` // of the look
	Kind   Kind                   `json:"kind"`
	Path   string                 `json:"path,omitzero"` // of an exact value
	Before string                 `json:"before"`        // a state or an amount
	Now    string                 `json:"now"`
	// Vanished: a second look has shown what was known before. A backend can answer from a copy that is behind.
	Vanished bool `json:"-"`
}

// A Kind is what a contradiction is about.
type Kind string

// The kinds.
const (
	State   Kind = "state"    // it moved back, or along no move of the table
	NotDone Kind = "not_done" // the write was acknowledged, and did nothing
	Money   Kind = "money"    // another one than that of the create
	Exact   Kind = "exact"    // a value that must not change
	Other   Kind = "other"    // a further value: a few may
)

const (
	// behind is how long a backend may show what a bill was before: its copies of the data follow each other.
	behind = 2 * time.Minute
	// secondLook is how long after a doubtful look another one decides.
	secondLook = time.Minute
)

// compared reports whether a call is certainly about this bill: with an open create it may be about the next one with
// the id.
func (b *Bill) compared(c Call, s Shows) bool {
	return s.Means != "" && c.Merchant != "" && c.Merchant == b.Merchant && b.AlsoAt == "" && b.State == Owned &&
		len(b.Creates) == 0
}

// look compares what a look shows with what is known. It is of the owner, and of the bill's merchant.
func (b *Bill) look(c Call, s Shows) (found []Contradiction) {
	if !b.compared(c, s) {
		return nil
	}
	against := func(kind Kind, path, before, now string) {
		found = append(found, Contradiction{Call: c, Kind: kind, Path: path, Before: before, Now: now})
	}
	was := b.Seen
	switch m := s.Moves; {
	case was.Means == s.Means:
	case was.Means == "" || m.reaches(was.Means, s.Means):
		b.Seen = Sight{s.Means, c}
	case c.At.Before(was.At): // it was sent before
		return nil
	case m.reaches(s.Means, was.Means) && c.At.Before(was.At.Add(behind)):
		found = b.doubt(Contradiction{Call: c, Kind: State, Before: was.Means, Now: s.Means})
	default:
		against(State, "", was.Means, s.Means)
		b.Seen, b.Said, b.Doubt = Sight{s.Means, c}, Sight{}, nil
	}
	switch said := b.Said; {
	case said.Means == "" && was.Means != "" && len(s.Moves[s.Means]) == 1 && b.Seen == (Sight{s.Means, c}):
		b.Said = b.Seen // it ended without a recorded write: another look must show it, too
		b.plan(c.At.Add(secondLook))
	case said.Means == "" || c.At.Before(said.At):
	case s.Moves.reaches(said.Means, s.Means):
		b.Said = Sight{}
	default:
		found = append(found, b.doubt(Contradiction{Call: c, Kind: NotDone, Before: said.Means, Now: s.Means})...)
		if b.Doubt == nil {
			b.Said = Sight{}
		}
	}
	if d := b.Doubt; d != nil && b.Said.Means == "" && b.Seen.Means == s.Means && !c.At.Before(d.At.Add(secondLook)) {
		vanished := *d // the bill before shares d
		vanished.Vanished, b.Doubt = true, nil
		found = append(found, vanished)
	}
	if b.Amount != "" && s.Amount != "" && s.Amount != b.Amount {
		against(Money, "", b.Amount, s.Amount)
	}
	return append(found, b.exact(c, s)...)
}

// doubt keeps a contradiction until another look, not before secondLook, shows the same; then it is returned.
func (b *Bill) doubt(d Contradiction) []Contradiction {
	switch {
	case b.Doubt == nil || b.Doubt.Kind != d.Kind || b.Doubt.Before != d.Before:
		b.Doubt = &d
		b.plan(d.At.Add(secondLook))
		return nil
	case d.At.Before(b.Doubt.At.Add(secondLook)):
		return nil
	}
	b.Doubt = nil
	if d.Kind == State {
		b.Seen = Sight{d.Now, d.Call}
	}
	return []Contradiction{d}
}

// exact compares the values that must not change while a bill is in a state. What an acknowledged write said counts for
// the state that it made. Of the others one text has all digests.
func (b *Bill) exact(c Call, s Shows) (found []Contradiction) {
	if b.Exact == nil && len(s.Exact)+len(s.Others) > 0 {
		b.Exact = map[string]string{}
	}
	against := func(kind Kind, path, before, now string) {
		found = append(found, Contradiction{Call: c, Kind: kind, Path: path, Before: before, Now: now})
	}
	all, shown := s.Means+" ", map[string]bool{}
	for path, text := range s.Exact {
		of, now := all+path, digest(text)
		shown[now] = true
		switch before, ok := b.Exact[of]; {
		case !ok:
			b.Exact[of] = now
		case before != now:
			against(Exact, path, "(another)", "(now)")
		}
	}
	for of, said := range b.Exact { // no rule says by which name a read repeats a value of a cancel
		if path, ok := strings.CutPrefix(of, "said "+all); ok && s.Whole && !shown[said] {
			against(Exact, path, "(acknowledged)", "(now)")
		}
	}
	for _, path := range s.Lacks {
		if b.Exact[all+path] != "" {
			against(Exact, path, "(there)", "(missing)")
		}
	}
	const none = "----"
	before, now := b.Exact[all], ""
	for i, v := range s.Others {
		was, is := none, none
		if len(before) == len(none)*len(s.Others) {
			was = before[i*len(none):][:len(none)]
		}
		if v.Text != "" {
			is = digest(v.Text)[:len(none)]
		}
		switch {
		case is == none:
			is = was
		case was != none && was != is:
			against(Other, v.Path, "(another)", "(now)")
		}
		now += is
	}
	if now != "" {
		b.Exact[all] = now
	}
	slices.SortFunc(found, func(a, b Contradiction) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// digest is a value as it is kept.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:4])
}

// said keeps what an acknowledged write says, and plans the look that shows it.
func (b *Bill) said(c Call, s Shows) {
	if !b.compared(c, s) {
		return
	}
	b.Said = Sight{s.Means, c}
	b.plan(c.At)
	for path, text := range s.Exact {
		if b.Exact == nil {
			b.Exact = map[string]string{}
		}
		b.Exact["said "+s.Means+" "+path] = digest(text)
	}
}

// Awaited are the calls after which the gateway looks at the bill: writes without an answer, an acknowledged one that
// no look has shown, a doubtful look, and a create that is read back.
func (b *Bill) Awaited() (all []Call) {
	for _, w := range b.Writes {
		if w.Resolved.IsZero() {
			all = append(all, w.Call)
		}
	}
	if b.Said.Means != "" {
		all = append(all, b.Said.Call)
	}
	if b.Doubt != nil {
		all = append(all, b.Doubt.Call)
	}
	if b.Created != nil {
		all = append(all, *b.Created)
	}
	return all
}

// Awaits are the calls after which the gateway looks at the bill, and others, of each upstream and merchant one.
func (b *Bill) Awaits(others ...Call) (calls []Call) {
	for _, c := range append(b.Awaited(), others...) {
		isThere := func(o Call) bool { return o.Upstream == c.Upstream && o.Merchant == c.Merchant }
		if !slices.ContainsFunc(calls, isThere) {
			calls = append(calls, c)
		}
	}
	return calls
}

// another forgets what looks have shown: the bill may be another one with the same id.
func (b *Bill) another(amount string) {
	b.Amount, b.Seen, b.Said, b.Exact, b.Doubt = amount, Sight{}, Sight{}, nil, nil
}
