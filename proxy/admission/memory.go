package admission

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
	transfers list.List // of *Held: bodies that are arriving and answers that are being read, the oldest first
}

// Why a body is not read.
var (
	ErrNoMemory = errors.New("the memory for bodies is used up")
	ErrTooLong  = errors.New("the body is longer than the limit")
)

// use sets the limits of a config. One body always has space in the share, also while its parts are joined, and so has
// one reply with its translation.
func (m *memory) use(c *config.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most, m.share = int64(c.Memory), int64(max(c.Memory/4, 2*c.Body+chunk, 4*c.Reply+chunk))
}

// A Held is the part of the budget that a body has taken.
type Held struct {
	memory *memory
	from   *Source     // nil without limits of its own
	cut    func() bool // ends its transfer; false if that has ended or must not end yet
	taken  int64
}

// Taken reports whether anything was taken.
func (h *Held) Taken() bool { return h.taken > 0 }

// transfer adds it to those that can be cut, until ended is called.
func (h *Held) transfer(cut func() bool) (ended func()) {
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

// Take takes n bytes of the budget. ok is false, and nothing is taken, if there are not so many even without the
// transfers that have lasted longer.
func (h *Held) Take(n int64) (ok bool) {
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		var over *Source
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

// Add takes n bytes, also if there are not so many: they are in use already.
func (h *Held) Add(n int64) {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.count(n)
}

// count adds n bytes, which can be negative.
func (h *Held) count(n int64) {
	h.taken += n
	h.memory.used += n
	h.memory.gauge.Set(float64(h.memory.used))
	if h.from != nil {
		h.from.held += n
	}
}

// Keep gives back all but n bytes. When nearly all of a budget that was much used is free again, the memory is returned
// to the system: an idle process would keep it for minutes.
func (h *Held) Keep(n int64) {
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

// Reach takes what is missing to n bytes.
func (h *Held) Reach(n int) (ok bool) { return h.Take(int64(n) - h.taken) }

// WriteWithin limits the time for reading an answer, until written is called: if its memory is needed, it ends earlier.
func (h *Held) WriteWithin(w http.ResponseWriter, within time.Duration) (written func()) {
	began, writer := time.Now(), http.NewResponseController(w)
	_ = writer.SetWriteDeadline(began.Add(within))
	return h.transfer(func() bool {
		return time.Since(began) > slowAfter && writer.SetWriteDeadline(began) == nil
	})
}

// cut ends the transfer that has lasted the longest, of a source or, with nil, of all, and gives its memory back. It
// returns false if there is none, or if it is the one that needs memory.
func (m *memory) cut(from *Source, needs *Held) bool {
	for e := m.transfers.Front(); e != nil; e = e.Next() {
		oldest := e.Value.(*Held)
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

// CutOldest ends the request whose body has been arriving for the longest time. It returns false if there is none.
func (m *memory) CutOldest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut(nil, nil)
}

// A Body is a body in memory, and its part of the budget.
type Body struct {
	*bytes.Buffer
	Held
}

// read reads a body of at most limit bytes. A body that fills more than a chunk is read into several, which are
// joined when all of it is there, so that its memory never grows by doubling. The error is ErrNoMemory, ErrTooLong
// or that of body; Release must be called in any case, also if h is nil.
func (m *memory) read(
	from *Source, body io.Reader, arriving *drainableBody, limit int64,
) (h *Body, err error) {
	h = &Body{Held: Held{memory: m, from: from}}
	if arriving != nil {
		defer h.transfer(arriving.cut)()
	}
	if !h.Take(chunk) {
		return nil, ErrNoMemory
	}
	h.Buffer = Buffer()
	h.Grow(chunk)
	var full [][]byte
	var length int64
	for part := h.AvailableBuffer()[:0:chunk]; ; {
		n, err := body.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		if length += int64(n); length > limit {
			return h, ErrTooLong
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
			if !h.Take(chunk) {
				return h, ErrNoMemory
			}
			full, part = append(full, part), make([]byte, 0, chunk)
		}
	}
}

// join makes one buffer of the parts, and gives back what they took.
func (h *Body) join(parts [][]byte, length int64) error {
	if !h.Take(length) {
		return ErrNoMemory
	}
	whole := make([]byte, 0, length)
	for _, part := range parts {
		whole = append(whole, part...)
	}
	PutBuffer(h.Buffer)
	h.Buffer = bytes.NewBuffer(whole)
	h.Keep(length)
	return nil
}

// Release gives the memory back. With reuse, nobody reads the body any more, and its buffer can serve another one.
func (h *Body) Release(reuse bool) {
	if h == nil {
		return
	}
	if reuse {
		PutBuffer(h.Buffer)
	}
	h.Keep(0)
}

// Buffer returns an empty buffer for a body. One of the usual size needs no allocation, see PutBuffer.
func Buffer() *bytes.Buffer { return bufferPool.Get().(*bytes.Buffer) }

var bufferPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// PutBuffer returns a buffer to the pool, unless it is nil or too large to keep.
func PutBuffer(b *bytes.Buffer) {
	if b != nil && b.Cap() <= 64<<10 {
		b.Reset()
		bufferPool.Put(b)
	}
}
