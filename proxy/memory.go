package proxy

import (
	"bytes"
	"errors"
	"io"
	"runtime/debug"
	"sync/atomic"

	"billbridge/proxy/relay"

	"github.com/prometheus/client_golang/prometheus"
)

// chunk is the memory that a body takes at a time. Most bodies fit into one.
const chunk = 16 << 10

// memory is the budget of the bodies of requests that are held at the same time. A body takes what has arrived of
// it, whatever length it announces. It is safe for concurrent use.
type memory struct {
	most    atomic.Int64 // bytes
	used    atomic.Int64
	high    atomic.Bool // more than half was used since memory was last returned to the system
	held    prometheus.Gauge
	refused prometheus.Counter
}

var (
	errNoMemory = errors.New("the budget for bodies is used up")
	errTooLong  = errors.New("the body is longer than the limit")
)

// take takes n bytes of the budget. ok is false, and nothing is taken, if there are not so many.
func (m *memory) take(n int64) (ok bool) {
	used := m.used.Add(n)
	if used > m.most.Load() {
		m.used.Add(-n)
		m.refused.Inc()
		return false
	}
	m.held.Add(float64(n))
	if used > m.most.Load()/2 {
		m.high.Store(true)
	}
	return true
}

// giveBack gives n bytes of the budget back. When nearly all of a budget that was much used is free again, the
// memory is returned to the system: an idle process would keep it for minutes.
func (m *memory) giveBack(n int64) {
	m.held.Sub(float64(n))
	if left := m.used.Add(-n); left < m.most.Load()/8 && m.high.CompareAndSwap(true, false) {
		go debug.FreeOSMemory()
	}
}

// A heldBody is a body in memory, and its part of the budget.
type heldBody struct {
	*bytes.Buffer
	memory *memory
	taken  int64
}

// read reads a body of at most limit bytes. A body that fills more than a chunk is read into several, which are
// joined when all of it is there, so that its memory never grows by doubling. The error is errNoMemory, errTooLong
// or that of body; release must be called in any case, also if h is nil.
func (m *memory) read(body io.Reader, limit int64) (h *heldBody, err error) {
	if !m.take(chunk) {
		return nil, errNoMemory
	}
	h = &heldBody{bufferPool.Get().(*bytes.Buffer), m, chunk}
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
			if !m.take(chunk) {
				return h, errNoMemory
			}
			h.taken += chunk
			full, part = append(full, part), make([]byte, 0, chunk)
		}
	}
}

// join makes one buffer of the parts, and gives back what they took.
func (h *heldBody) join(parts [][]byte, length int64) error {
	if !h.memory.take(length) {
		return errNoMemory
	}
	whole := make([]byte, 0, length)
	for _, part := range parts {
		whole = append(whole, part...)
	}
	putBuffer(h.Buffer)
	h.Buffer = bytes.NewBuffer(whole)
	h.memory.giveBack(h.taken)
	h.taken = length
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
	h.memory.giveBack(h.taken)
	h.taken = 0
}

// A countedBody is the body of a callback. What the relay has read of it counts in the budget until release is called.
type countedBody struct {
	io.ReadCloser
	memory *memory
	taken  int64
}

// Read returns relay.ErrNoMemory if the budget is used up.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.memory.take(int64(n)) {
		return 0, relay.ErrNoMemory
	}
	b.taken += int64(n)
	return n, err
}

func (b *countedBody) release() { b.memory.giveBack(b.taken) }
