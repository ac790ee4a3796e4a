package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// patience is how long a call waits for a write of the log: a busy disk is no reason to refuse calls.
	patience = 2 * time.Second

	// urgentRoom are the bytes of further lines that are kept while nobody reads the log: of WARN and above, and of all
	// lines that are not about requests. Those about the unknown outcomes of the writes in progress must not be lost.
	urgentRoom = 1 << 20
)

// A writer collects lines and writes several at once. It has two buffers, so that lines can be added during a write.
// Nothing runs while they are empty.
type writer struct {
	sink // only the goroutine of run uses its other fields

	mu      sync.Mutex
	changed sync.Cond // broadcasts the end of each write, and that unread became true
	next    batch     // the pending lines
	spare   []byte    // the other buffer; nil during a write
	writing bool
	taken   uint64 // how many batches were taken
	written uint64 // how many of them are written or lost

	began  time.Time // the last write
	watch  *time.Timer
	unread bool // the current write takes longer than patience: nobody waits for it

	after time.Duration // from the first pending line to its write; 0 for no buffer
	most  int           // the size of one buffer
	timer *time.Timer
	armed bool // timer will call flush
}

// A batch is what one write writes.
type batch struct {
	lines   []byte // whole ones
	leftOut int    // how many more there were, without room
	why     error  // set at the end of the write during which they were left out
}

func newWriter(out io.Writer) *writer {
	w := &writer{sink: sink{out: out}, most: 32 << 10}
	w.lost, w.panics = newCounters()
	w.changed.L = &w.mu
	w.timer = time.AfterFunc(time.Hour, w.flush)
	w.timer.Stop()
	w.watch = time.AfterFunc(time.Hour, w.lookAtWrite)
	w.watch.Stop()
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

// log adds a line. If it is urgent or there is no buffer, log returns when it is written, or nobody reads the log.
func (w *writer) log(line []byte, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addLocked(line, urgent)
	switch {
	case urgent || w.after == 0:
		w.flushLocked()
	case !w.armed:
		w.armed = true
		w.timer.Reset(w.after)
	}
}

// add adds an urgent line, for which flush must be called.
func (w *writer) add(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addLocked(line, true)
}

// addLocked adds a line. Without room for it, it waits for a write. While nobody reads the log, the line is lost.
func (w *writer) addLocked(line []byte, urgent bool) {
	for len(w.next.lines) > 0 && len(w.next.lines)+len(line) > w.room(urgent) {
		if w.unread {
			w.next.leftOut++
			w.lost.Inc()
			return
		}
		if !w.start() {
			w.changed.Wait()
		}
	}
	w.next.lines = append(w.next.lines, line...)
}

// room returns how many bytes can be pending.
func (w *writer) room(urgent bool) int {
	if urgent && w.unread {
		return w.most + urgentRoom
	}
	return w.most
}

// flush returns when all lines that were added before are written, or nobody reads the log. The timer calls it, too.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.flushLocked()
}

// flushLocked is flush. It releases mu while it waits.
func (w *writer) flushLocked() {
	last := w.taken
	if len(w.next.lines) > 0 {
		last++
	}
	for w.written < last && !w.unread {
		if !w.start() {
			w.changed.Wait()
		}
	}
}

// isUnread reports whether nobody reads the log.
func (w *writer) isUnread() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread
}

// start starts the write of the pending lines. It returns false if there is a write already.
func (w *writer) start() bool {
	if w.writing {
		return false
	}
	w.writing = true
	go w.run(w.take())
	return true
}

// take takes the pending lines for a write.
func (w *writer) take() (b batch) {
	b, w.next = w.next, batch{lines: w.spare[:0], why: w.next.why}
	w.spare = nil
	w.taken++
	w.began = time.Now()
	w.watch.Reset(patience)
	return b
}

// run writes a batch, and what became due meanwhile: those who added it may have stopped to wait.
func (w *writer) run(b batch) {
	for {
		w.write(b)
		w.mu.Lock()
		w.end(b)
		if w.next.leftOut == 0 && (len(w.next.lines) == 0 || w.armed) {
			w.writing = false
			w.watch.Stop()
			w.mu.Unlock()
			return
		}
		b = w.take()
		w.mu.Unlock()
	}
}

func (w *writer) end(b batch) {
	if cap(b.lines) <= max(2*w.most, 4<<10) { // not the buffer of a long line, or of a larger size before a reload
		w.spare = b.lines[:0]
	}
	if w.unread {
		w.unread = false
		w.next.why = fmt.Errorf("nobody has read it for %s", time.Since(w.began).Round(time.Millisecond))
	}
	w.written++
	w.changed.Broadcast()
}

// lookAtWrite finds that a write takes too long. A timer calls it, perhaps after the end of its write.
func (w *writer) lookAtWrite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing && time.Since(w.began) >= patience {
		w.unread = true
		w.changed.Broadcast()
	}
}

// A sink is the destination of the lines.
type sink struct {
	out        io.Writer
	reportLoss func(count int, err error) []byte // the line about lost lines
	lost       prometheus.Counter
	panics     prometheus.Counter
	lostLines  int
	lostError  error
	cutLine    bool // a write failed within a line
}

// write writes lines, after a report if lines before them were lost. A report of lines without room follows them.
func (s *sink) write(b batch) {
	rest, err := b.lines, s.reportLost()
	if err == nil {
		rest, err = s.writeAll(rest)
	}
	if err != nil {
		count := bytes.Count(rest, []byte{'\n'})
		s.lostLines += count
		s.lostError = err
		s.lost.Add(float64(count))
	}
	if b.leftOut > 0 { // lost has them already
		s.lostLines += b.leftOut
		s.lostError = cmp.Or(err, b.why)
		if err == nil {
			_ = s.reportLost()
		}
	}
}

// reportLost writes how many lines were lost, if any were.
func (s *sink) reportLost() error {
	if s.lostLines == 0 {
		return nil
	}
	report := s.reportLoss(s.lostLines, s.lostError)
	if s.cutLine {
		report = slices.Insert(report, 0, '\n')
	}
	if _, err := s.writeAll(report); err != nil {
		return err
	}
	s.lostLines = 0
	return nil
}

// writeAll writes text, in several parts if a write is short. After an error it returns what was not written.
func (s *sink) writeAll(text []byte) (rest []byte, err error) {
	for len(text) > 0 {
		n, err := s.out.Write(text)
		if n > 0 {
			s.cutLine = text[n-1] != '\n'
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
