package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
)

// A Shadow compares the answers of both backends to the same calls, in the background: no call waits for it, and it changes nothing.
// It is safe for concurrent use.
type Shadow struct {
	counts  *Counts
	log     *slog.Logger
	done    *prometheus.CounterVec
	read    *prometheus.CounterVec
	dropped *prometheus.CounterVec

	mu       sync.Mutex
	config   config.Shadow
	inFlight int
	bytes    int64
	closed   bool
	waiting  []Checked // first in, first out
	unpaid   map[billKey]created
	oldest   []billKey // of unpaid, the oldest first; some of them may have been removed

	run    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// A Shadowed is a call that the first upstream has answered, to be compared.
type Shadowed struct {
	ID        string     // of the call
	At        time.Time  // when it arrived. ID and At decide whether it is sampled: a caller may give all its calls one id
	Partner   partner.ID // full
	Operation *translate.Operation
	First     Answer  // Shadow.Offer copies its bytes
	Backend   Backend // of First

	// Other calls the other upstream, Again the one that answered. Each must return when ctx ends, and must fail instead of reading
	// more than most bytes of the body. An error means no answer.
	Other, Again func(ctx context.Context, most int64) (Answer, error)
}

// NewShadow returns a Shadow that adds to counts. If to is nil, the metrics are not registered; if log is nil, nothing is logged.
func NewShadow(c config.Shadow, counts *Counts, to prometheus.Registerer, log *slog.Logger) (*Shadow, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Shadow{
		counts: counts, log: log, config: c,
		done: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billbridge_rollout_comparisons_total", Help: "Comparisons of the answers of both backends, by result.",
		}, []string{"class"}),
		read: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billbridge_rollout_read_backs_total", Help: "Reads of canary bills after their create, by result.",
		}, []string{"class"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billbridge_rollout_comparisons_dropped_total", Help: "Comparisons and reads that were skipped, by the limit that was reached.",
		}, []string{"bound"}),
	}
	for _, class := range classes {
		s.done.WithLabelValues(string(class))
		s.read.WithLabelValues(string(class))
	}
	for _, bound := range []string{"in_flight", "bytes", "waiting", "closed"} {
		s.dropped.WithLabelValues(bound)
	}
	s.run, s.cancel = context.WithCancel(context.Background())
	if to != nil {
		for _, c := range []prometheus.Collector{s.done, s.read, s.dropped} {
			if err := to.Register(c); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Use replaces the config. Comparisons under way keep the old one.
func (s *Shadow) Use(c config.Shadow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = c
}

// Offer compares a call in the background if it is sampled and there is a place for it. It does not wait. Calls of operations that
// write are never sent.
func (s *Shadow) Offer(c Shadowed) (taken bool) {
	if c.Operation.Effect != translate.Read {
		return false
	}
	if !s.sampled(c.ID + " " + c.At.Format(time.RFC3339Nano)) {
		return false
	}
	// The answer of the other backend is about as long as the first one. At most two more answers are held, those to Other and to
	// Again, and the request in the form of each backend.
	most := 4*int64(len(c.First.Body)) + 16<<10
	held := int64(len(c.First.Body)+2*len(c.First.Request)) + 2*most
	if !s.reserve(held) {
		return false
	}
	// The caller reuses its buffers after its call.
	c.First.Body, c.First.Request = bytes.Clone(c.First.Body), bytes.Clone(c.First.Request)
	s.begin(held, func(ignore []string) { s.compare(c, most, ignore) })
	return true
}

// reserve takes a place for held bytes, or counts that there is none.
func (s *Shadow) reserve(held int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bound := s.take(held); bound != "" {
		s.dropped.WithLabelValues(bound).Inc()
		return false
	}
	return true
}

// take takes a place, or returns the bound that would be exceeded. The lock is held.
func (s *Shadow) take(held int64) (bound string) {
	switch {
	case s.closed:
		return "closed"
	case s.inFlight >= s.config.InFlight:
		return "in_flight"
	case s.bytes+held > int64(s.config.Bytes):
		return "bytes"
	}
	s.inFlight++
	s.bytes += held
	s.wait.Add(1)
	return ""
}

// begin runs do in the background, in a place that was taken, and frees the place after it.
func (s *Shadow) begin(held int64, do func(ignore []string)) {
	go func() {
		defer s.wait.Done()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.inFlight--
			s.bytes -= held
			s.next()
		}()
		s.mu.Lock()
		ignore := slices.Clone(s.config.Ignore)
		s.mu.Unlock()
		do(ignore)
	}()
}

// A Checked is a bill that canary created.
type Checked struct {
	ID        string     // of the call
	At        time.Time  // when it arrived
	Partner   partner.ID // full
	Operation string     // that created it
	Read      *translate.Operation
	Asked     Created
	Show      func(ctx context.Context, most int64) (Answer, error) // as of Shadowed
}

const (
	mostShown  = 64 << 10 // bytes of the answer when a bill is read back
	maxWaiting = 4096     // bills that wait to be read back
)

// Check reads a bill of canary back, once, in the background, and does not wait. If there is no place, the bill is queued: every bill
// of canary is to be read.
func (s *Shadow) Check(c Checked) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bound := ""
	switch {
	case s.closed:
		bound = "closed"
	case len(s.waiting) >= maxWaiting:
		bound = "waiting"
	default:
		s.waiting = append(s.waiting, c)
		s.keepUnpaid(c)
		s.next()
		return true
	}
	s.dropped.WithLabelValues(bound).Inc()
	s.unread(c)
	return false
}

// unread counts a bill of canary that could not be read back, for the verdict.
func (s *Shadow) unread(c Checked) {
	s.counts.Add(c.Partner, c.Operation, Comparison{Class: NoAnswer, Why: "not read back", Succeeded: [2]bool{true, false}, ReadBack: true})
}

// next begins to read queued bills while there are places. The lock is held.
func (s *Shadow) next() {
	for len(s.waiting) > 0 && s.take(mostShown) == "" {
		c := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.begin(mostShown, func([]string) {
			s.finish(c.ID, c.At, c.Partner, c.Operation, s.read, func() Comparison {
				shown, err := ask(s.run, mostShown, c.Show)
				if err != nil {
					return Comparison{Class: NoAnswer, Why: err.Error(), Succeeded: [2]bool{true, false}, ReadBack: true}
				}
				return compareCreated(c.Read, c.Asked, shown)
			})
		})
	}
}

// finish makes a comparison and counts its result. A panic must not end the process. The value of the panic is not logged: it may
// contain parts of an answer.
func (s *Shadow) finish(id string, at time.Time, partner partner.ID, operation string, done *prometheus.CounterVec, compare func() Comparison) {
	result := Comparison{Class: NoAnswer, Why: "an internal error occurred"}
	table := s.counts.Table()
	defer func() {
		if panicked := recover(); panicked != nil {
			s.log.Error("panic in a comparison", "id", id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
		}
		done.WithLabelValues(string(result.Class)).Inc()
		if s.counts.Table() == table { // comparisons with an old table do not count for the new one
			result.Request, result.At = id, at
			s.counts.Add(partner, operation, result)
		}
	}()
	result = compare()
}

// sampled reports whether a call is sampled. For one id and rate the answer is the same on every replica, and a call that is sampled
// at a rate is sampled at every higher rate.
func (s *Shadow) sampled(id string) bool {
	s.mu.Lock()
	rate := float64(s.config.Rate)
	s.mu.Unlock()
	sum := sha256.Sum256([]byte(id))
	return float64(binary.BigEndian.Uint64(sum[:8]))/math.MaxUint64 < rate || rate >= 1
}

// compare is one comparison from end to end.
func (s *Shadow) compare(c Shadowed, most int64, ignore []string) {
	s.finish(c.ID, c.At, c.Partner, c.Operation.Name, s.done, func() (found Comparison) {
		if c.Backend == New { // Counts expect the old backend's answer first
			defer func() { found = found.exchanged() }()
		}
		other, err := ask(s.run, most, c.Other)
		if err != nil {
			// The first answer is still read: if it is a success, the partner exists.
			result := compareAnswers(c.Operation, c.First, Answer{Form: c.First.Form}, nil)
			result.Why = "second: " + err.Error()
			return result
		}
		found = compareAnswers(c.Operation, c.First, other, ignore)
		if found.Class != Differs {
			return found
		}
		again, err := ask(s.run, most, c.Again)
		if err != nil {
			found.Class, found.Differences, found.Why = NoAnswer, nil, "first, called again: "+err.Error()
			return found
		}
		return confirm(c.Operation, found, c.First, other, again, ignore)
	})
}

// errTooLong: an answer exceeds the bytes to be read.
var errTooLong = errors.New("its answer is too long")

// ask calls an upstream. It does not return the upstream's error, which may contain addresses.
func ask(ctx context.Context, most int64, upstream func(context.Context, int64) (Answer, error)) (Answer, error) {
	a, err := upstream(ctx, most)
	switch {
	case err != nil:
		return a, errors.New("no answer")
	case int64(len(a.Body)) > most:
		return a, errTooLong
	}
	return a, nil
}

// confirm keeps the differences that remain after the first upstream was called again, in fields where its own answer has
// not changed: a bill that was paid between the two answers is no difference.
func confirm(op *translate.Operation, found Comparison, first, other, again Answer, ignore []string) Comparison {
	moved, still := compareAnswers(op, first, again, ignore), compareAnswers(op, again, other, ignore)
	switch {
	case moved.Class == NoAnswer || still.Class == NoAnswer:
		found.Class, found.Differences, found.Why = NoAnswer, nil, "first, called again: no answer"
		return found
	case moved.Class == NotThere || still.Class == NotThere:
		found.Class, found.Differences = NotThere, nil
		return found
	}
	in := func(c Comparison, path string) bool {
		return slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Path == path })
	}
	found.Differences = slices.DeleteFunc(found.Differences, func(d Difference) bool {
		return !in(still, d.Path) || in(moved, d.Path)
	})
	if len(found.Differences) == 0 {
		found.Class = Moved
	}
	return found
}

// Close waits for comparisons under way until ctx ends, and then cancels them. Later calls are not compared.
func (s *Shadow) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.dropped.WithLabelValues("closed").Add(float64(len(s.waiting)))
	for _, c := range s.waiting {
		s.unread(c)
	}
	s.waiting = nil
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.wait.Wait()
		close(ended)
	}()
	defer s.cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.cancel()
		<-ended // each ends with its context
		return context.Cause(ctx)
	}
}
