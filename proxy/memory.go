package proxy

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"

	"github.com/prometheus/client_golang/prometheus"
)

// chunk is the memory that a body takes at a time. Most bodies fit into one.
const chunk = 16 << 10

// memory is the budget of the bodies of requests and large replies that are held at the same time. A body takes what
// has arrived of it, whatever length it announces. A source has a share of the budget. When either is used up, the
// transfer that has lasted the longest is cut: its call is refused, or its answer breaks off. So who sends and reads
// at a normal pace is served, however many slow callers there are. It is safe for concurrent use.
type memory struct {
	gauge   prometheus.Gauge
	refused prometheus.Counter

	mu        sync.Mutex
	most      int64 // bytes
	share     int64 // of one source
	used      int64
	high      bool      // more than half was used since memory was last returned to the system
	transfers list.List // of *held: bodies that are arriving and answers that are being read, the oldest first
}

var (
	errNoMemory = relay.ErrNoMemory
	errTooLong  = errors.New("the body is longer than the limit")
)

// use sets the limits of a config. One body always has space in the share, also while its parts are joined, and so has
// one reply with its translation.
func (m *memory) use(c *config.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most, m.share = int64(c.Memory), int64(max(c.Memory/4, 2*c.Body+chunk, 4*c.Reply+chunk))
}

// A held is the part of the budget that a body has taken.
type held struct {
	memory *memory
	from   *source     // nil without limits of its own
	cut    func() bool // ends its transfer; false if that has ended or must not end yet
	taken  int64
}

// transfer adds it to those that can be cut, until ended is called.
func (h *held) transfer(cut func() bool) (ended func()) {
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	h.cut = cut
	added := m.transfers.PushBack(h)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.transfers.Remove(added)
	}
}

// take takes n bytes of the budget. ok is false, and nothing is taken, if there are not so many even without the
// transfers that have lasted longer.
func (h *held) take(n int64) (ok bool) {
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		var over *source
		switch {
		case h.from != nil && h.from.held+n > m.share:
			over = h.from
		case m.used+n <= m.most:
			h.count(n)
			m.high = m.high || m.used > m.most/2
			return true
		}
		if !m.cut(over, h) {
			m.refused.Inc()
			return false
		}
	}
}

// add takes n bytes, also if there are not so many: they are in use already.
func (h *held) add(n int64) {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.count(n)
}

// count adds n bytes, which can be negative.
func (h *held) count(n int64) {
	h.taken += n
	h.memory.used += n
	h.memory.gauge.Set(float64(h.memory.used))
	if h.from != nil {
		h.from.held += n
	}
}

// keep gives back all but n bytes. When nearly all of a budget that was much used is free again, the memory is returned
// to the system: an idle process would keep it for minutes.
func (h *held) keep(n int64) {
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	h.count(n - h.taken)
	if m.high && m.used < m.most/8 {
		m.high = false
		go debug.FreeOSMemory()
	}
}

// slowAfter is how long an answer is being read before it can be cut.
const slowAfter = time.Second

// reach takes what is missing to n bytes.
func (h *held) reach(n int) (ok bool) { return h.take(int64(n) - h.taken) }

// write limits the time for reading an answer, until written is called: if its memory is needed, it ends earlier.
func (h *held) write(w http.ResponseWriter, within time.Duration) (written func()) {
	began, writer := time.Now(), http.NewResponseController(w)
	_ = writer.SetWriteDeadline(began.Add(within))
	return h.transfer(func() bool {
		return time.Since(began) > slowAfter && writer.SetWriteDeadline(began) == nil
	})
}

// cut ends the transfer that has lasted the longest, of a source or, with nil, of all, and gives its memory back. It
// returns false if there is none, or if it is the one that needs memory.
func (m *memory) cut(from *source, needs *held) bool {
	for e := m.transfers.Front(); e != nil; e = e.Next() {
		oldest := e.Value.(*held)
		switch {
		case from != nil && oldest.from != from, needs != nil && oldest.taken == 0:
		case oldest == needs:
			return false
		case oldest.cut():
			m.transfers.Remove(e)
			m.refused.Inc()
			oldest.count(-oldest.taken)
			return true
		}
	}
	return false
}

// cutOldest is cut for a request that needs no memory.
func (m *memory) cutOldest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut(nil, nil)
}

// A heldBody is a body in memory, and its part of the budget.
type heldBody struct {
	*bytes.Buffer
	held
}

// read reads a body of at most limit bytes. A body that fills more than a chunk is read into several, which are
// joined when all of it is there, so that its memory never grows by doubling. The error is errNoMemory, errTooLong
// or that of body; release must be called in any case, also if h is nil.
func (m *memory) read(
	from *source, body io.Reader, arriving *drainableBody, limit int64,
) (h *heldBody, err error) {
	h = &heldBody{held: held{memory: m, from: from}}
	if arriving != nil {
		defer h.transfer(arriving.cut)()
	}
	if !h.take(chunk) {
		return nil, errNoMemory
	}
	h.Buffer = bufferPool.Get().(*bytes.Buffer)
	h.Grow(chunk)
	var full [][]byte
	var length int64
	for part := h.AvailableBuffer()[:0:chunk]; ; {
		n, err := body.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		if length += int64(n); length > limit {
			return h, errTooLong
		}
		switch {
		case err == io.EOF && full == nil:
			_, _ = h.Write(part)
			return h, nil
		case err == io.EOF:
			return h, h.join(append(full, part), length)
		case err != nil:
			return h, err
		case len(part) == cap(part):
			if !h.take(chunk) {
				return h, errNoMemory
			}
			full, part = append(full, part), make([]byte, 0, chunk)
		}
	}
}

// join makes one buffer of the parts, and gives back what they took.
func (h *heldBody) join(parts [][]byte, length int64) error {
	if !h.take(length) {
		return errNoMemory
	}
	whole := make([]byte, 0, length)
	for _, part := range parts {
		whole = append(whole, part...)
	}
	putBuffer(h.Buffer)
	h.Buffer = bytes.NewBuffer(whole)
	h.keep(length)
	return nil
}

// release gives the memory back. With reuse, nobody reads the body any more, and its buffer can serve another one.
func (h *heldBody) release(reuse bool) {
	if h == nil {
		return
	}
	if reuse {
		putBuffer(h.Buffer)
	}
	h.keep(0)
}

// A countedBody is the body of a callback. What the relay has read of it counts in the budget.
type countedBody struct {
	*drainableBody
	held
}

// Read returns relay.ErrNoMemory if the budget is used up.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.drainableBody.Read(p)
	if n > 0 && !b.take(int64(n)) {
		return 0, errNoMemory
	}
	return n, err
}

// bufferPool holds buffers for bodies, so that a body of the usual size needs no allocation.
var bufferPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// putBuffer returns a buffer to the pool, unless it is nil or too large to keep.
func putBuffer(b *bytes.Buffer) {
	if b != nil && b.Cap() <= 64<<10 {
		b.Reset()
		bufferPool.Put(b)
	}
}
