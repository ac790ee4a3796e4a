package accesslog

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A writer collects lines and writes several at once. It has two buffers, so that lines can be added during a write.
// Nothing runs while they are empty.
type writer struct {
	out        io.Writer
	reportLoss func(count int, err error) []byte // the line about lost lines
	lost       prometheus.Counter
	panics     prometheus.Counter

	mu      sync.Mutex
	ended   sync.Cond // broadcasts the end of each write
	pending []byte    // whole lines
	spare   []byte    // the other buffer; nil during a write
	writing bool
	taken   uint64 // how many batches were taken from pending
	written uint64 // how many of them are written or lost

	after time.Duration // from the first pending line to its write; 0 for no buffer
	most  int           // the size of one buffer
	timer *time.Timer
	armed bool // timer will call flush

	// Only the goroutine that set writing uses the fields below.
	lostLines int
	lostError error
	cutLine   bool // a write failed within a line
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: out, most: 32 << 10}
	w.lost, w.panics = newCounters()
	w.ended.L = &w.mu
	w.timer = time.AfterFunc(time.Hour, w.flush)
	w.timer.Stop()
	return w
}

// configure sets how long a line can be pending, and the size of both buffers together. Without a time, lines are
// written at once.
func (w *writer) configure(after time.Duration, size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after, w.most, w.armed = after, size/2, false
	w.flushLocked()
}

// add adds a line, and waits for a write if there is no room for it. If now is set or there is no buffer, it returns
// when the line is written.
func (w *writer) add(line []byte, now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > 0 && len(w.pending)+len(line) > w.most {
		if w.writing {
			w.ended.Wait()
			continue
		}
		go func(batch []byte) { // the request need not wait for it
			w.write(batch)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.end(batch)
		}(w.take())
	}
	w.pending = append(w.pending, line...)
	switch {
	case now || w.after == 0:
		w.flushLocked()
	case !w.armed:
		w.armed = true
		w.timer.Reset(w.after)
	}
}

// flush returns when all lines that were added before are written. The timer calls it, too.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.flushLocked()
}

// flushLocked is flush. It releases mu during a write.
func (w *writer) flushLocked() {
	for last := w.taken + 1; w.written < last; {
		if w.writing {
			w.ended.Wait()
			continue
		}
		batch := w.take()
		w.mu.Unlock()
		w.write(batch)
		w.mu.Lock()
		w.end(batch)
	}
}

// take takes the pending lines for a write. The caller holds mu, and calls write without it and then end.
func (w *writer) take() (batch []byte) {
	batch, w.pending, w.spare = w.pending, w.spare[:0], nil
	w.writing = true
	w.taken++
	return batch
}

func (w *writer) end(batch []byte) {
	if cap(batch) <= max(2*w.most, 4<<10) { // not the buffer of a long line, or of a larger size before a reload
		w.spare = batch[:0]
	}
	w.writing = false
	w.written++
	w.ended.Broadcast()
}

// write writes lines, after a report if lines before them were lost.
func (w *writer) write(batch []byte) {
	if w.lostLines > 0 {
		report := w.reportLoss(w.lostLines, w.lostError)
		if w.cutLine {
			report = slices.Insert(report, 0, '\n')
		}
		if _, err := w.writeAll(report); err != nil {
			w.lose(batch, err)
			return
		}
		w.lostLines = 0
	}
	if rest, err := w.writeAll(batch); err != nil {
		w.lose(rest, err)
	}
}

// writeAll writes text, in several parts if a write is short. After an error it returns what was not written.
func (w *writer) writeAll(text []byte) (rest []byte, err error) {
	for len(text) > 0 {
		n, err := w.out.Write(text)
		if n > 0 {
			w.cutLine = text[n-1] != '\n'
			text = text[n:]
			continue
		}
		if err == nil {
			err = io.ErrShortWrite
		}
		return text, err
	}
	return nil, nil
}

func (w *writer) lose(lines []byte, err error) {
	count := bytes.Count(lines, []byte{'\n'})
	w.lostLines += count
	w.lostError = err
	w.lost.Add(float64(count))
}
