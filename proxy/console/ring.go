package console

import (
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"billbridge/proxy"
)

// The bounds of both parts of a ring together.
const (
	maxCalls = 2000
	maxBytes = 16 << 20
)

// A call is a finished exchange with its number in the ring.
type call struct {
	proxy.Finished
	number uint64
	buffer []byte // of the messages
}

// Key names the call in addresses of pages.
func (c *call) Key() string { return keyOf(c.number) }

func keyOf(number uint64) string { return strconv.FormatUint(number, 36) }

// A ring keeps the last calls, in a part for successes and one for other calls: no number of successes removes a
// failure. It is safe for concurrent use.
type ring struct {
	mu    sync.Mutex
	since time.Time
	parts [2]part // successes, other calls
	last  uint64  // the number of the newest call
}

// A part of a ring has half of its bounds.
type part struct {
	calls [maxCalls / 2]call // calls[next-1] is the newest
	next  int
	count int
	bytes int  // of all buffers
	full  bool // calls were removed
}

// at returns a call: the newest for 1, the one before it for 2.
func (p *part) at(back int) *call { return &p.calls[(p.next-back+len(p.calls))%len(p.calls)] }

// newRing returns an empty ring. Its first number depends on the time, so that an address of a page does not name
// another call after a restart.
func newRing(now time.Time) *ring {
	return &ring{since: now, last: uint64(now.UnixMicro())}
}

// add adds a copy of a call, and removes the oldest ones of its part that are over the bounds.
func (r *ring) add(f *proxy.Finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	p := &r.parts[partOf(outcomeOf(f))]
	c := &p.calls[p.next]
	p.bytes -= cap(c.buffer)
	c.set(f, r.last)
	p.bytes += cap(c.buffer)
	p.next = (p.next + 1) % len(p.calls)
	p.full = p.full || p.count == len(p.calls)
	p.count = min(p.count+1, len(p.calls))
	for p.bytes > maxBytes/len(r.parts) {
		oldest := p.at(p.count)
		p.bytes -= cap(oldest.buffer)
		*oldest = call{}
		p.full = true
		p.count--
	}
}

// partOf returns the part of a ring that has the calls of an outcome.
func partOf(o outcome) int {
	if o == succeeded {
		return 0
	}
	return 1
}

// set makes c a copy of a finished exchange. It uses the buffer of c again, so that a call needs no allocation.
func (c *call) set(f *proxy.Finished, number uint64) {
	c.Finished, c.number = *f, number
	c.Bill = strings.Clone(f.Bill)
	c.buffer = append(append(c.buffer[:0], f.Request...), f.Reply...)
	if f.Request != nil {
		c.Request = c.buffer[:len(f.Request):len(f.Request)]
	}
	if f.Reply != nil {
		c.Reply = c.buffer[len(f.Request):]
	}
}

// clone returns a copy that stays valid when c is used again.
func (c *call) clone() *call {
	copied := new(call)
	copied.set(&c.Finished, c.number)
	return copied
}

// row returns a copy for lists, without the messages. It stays valid when c is used again.
func (c *call) row() *call {
	copied := &call{Finished: c.Finished, number: c.number}
	copied.Request, copied.Reply = nil, nil
	return copied
}

// list returns the calls that match, the newest first: at most limit of those with a number below before, if before
// is not 0. more reports whether there are older ones.
func (r *ring) list(match func(*proxy.Finished) bool, before uint64, limit int) (found []*call, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	back := [len(r.parts)]int{1, 1} // the next call of each part
	for {
		var c *call
		of := 0
		for i := range r.parts {
			if p := &r.parts[i]; back[i] <= p.count && (c == nil || p.at(back[i]).number > c.number) {
				of, c = i, p.at(back[i])
			}
		}
		if c == nil {
			return found, false
		}
		back[of]++
		if before != 0 && c.number >= before || !match(&c.Finished) {
			continue
		}
		if len(found) == limit {
			return found, true
		}
		found = append(found, c.row())
	}
}

// find returns the call with a key, or nil.
func (r *ring) find(key string) *call {
	number, err := strconv.ParseUint(key, 36, 64)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.parts {
		p := &r.parts[i]
		// The first one that is not newer.
		back := 1 + sort.Search(p.count, func(i int) bool { return p.at(i+1).number <= number })
		if back <= p.count && p.at(back).number == number {
			return p.at(back).clone()
		}
	}
	return nil
}

// newest returns the number of the newest call.
func (r *ring) newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// A span says which calls of a part are kept.
type span struct {
	Name  string // ok, or other
	Count int
	Since time.Time // the end of the oldest call, or the start of the gateway
	Full  bool      // earlier ones are not kept any more
}

// spans returns the spans of the parts that have calls of an outcome, or of all for "".
func (r *ring) spans(o outcome) (all []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, name := range []string{"ok", "other"} {
		p := &r.parts[i]
		one := span{name, p.count, r.since, p.full}
		if p.full && p.count > 0 {
			one.Since = p.at(p.count).At
		}
		if o == "" || i == partOf(o) {
			all = append(all, one)
		}
	}
	return all
}
