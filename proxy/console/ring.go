package console

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"billbridge/proxy"
)

// The bounds of a ring.
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

// A ring keeps the last calls. It is safe for concurrent use.
type ring struct {
	mu    sync.Mutex
	calls [maxCalls]call // calls[next-1] is the newest
	next  int
	count int
	bytes int    // of all buffers
	last  uint64 // the number of the newest call
}

// newRing returns an empty ring. Its first number depends on the time, so that an address of a page does not name
// another call after a restart.
func newRing(now time.Time) *ring {
	return &ring{last: uint64(now.UnixMicro())}
}

// add adds a copy of a call, and removes the oldest ones that are over the bounds.
func (r *ring) add(f *proxy.Finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	c := &r.calls[r.next]
	r.bytes -= cap(c.buffer)
	c.set(f, r.last)
	r.bytes += cap(c.buffer)
	r.next = (r.next + 1) % maxCalls
	r.count = min(r.count+1, maxCalls)
	for r.bytes > maxBytes {
		oldest := &r.calls[(r.next-r.count+maxCalls)%maxCalls]
		r.bytes -= cap(oldest.buffer)
		*oldest = call{}
		r.count--
	}
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
	for i := 1; i <= r.count; i++ {
		c := &r.calls[(r.next-i+maxCalls)%maxCalls]
		if before != 0 && c.number >= before || !match(&c.Finished) {
			continue
		}
		if len(found) == limit {
			return found, true
		}
		found = append(found, c.row())
	}
	return found, false
}

// find returns the call with a key, or nil.
func (r *ring) find(key string) *call {
	number, err := strconv.ParseUint(key, 36, 64)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if number > r.last || r.last-number >= uint64(r.count) {
		return nil
	}
	back := int(r.last-number) + 1 // 1 for the newest
	return r.calls[(r.next-back+maxCalls)%maxCalls].clone()
}

// newest returns the number of the newest call.
func (r *ring) newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// holds returns the number of calls.
func (r *ring) holds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}
