package evidence

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A Shadow compares the answers of both backends to the same calls, in the background: no call waits for it, and it
// changes nothing. It is safe for concurrent use.
type Shadow struct {
	counts *Counts
	log    *slog.Logger
	done   *prometheus.CounterVec

	mu       sync.Mutex
	config   config.Shadow
	inFlight int

	run    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// A Shadowed is a call that the old backend has answered, to be compared.
type Shadowed struct {
	ID        string     // of the call
	At        time.Time  // when it arrived
	Partner   partner.ID // full
	Operation *translate.Operation
	First     Answer // Shadow.Offer copies its bytes

	// Other calls the new backend, Again the old one. Each must return when ctx ends, and must not read more than
	// MostBody bytes. The zero Answer means none.
	Other, Again func(ctx context.Context) Answer
}

// MostBody is the most bytes of an answer that is compared. That of a bill has less than a thousand.
const MostBody = 64 << 10

// NewShadow returns a Shadow that adds to counts. If to is nil, the metrics are not registered.
func NewShadow(c config.Shadow, counts *Counts, to prometheus.Registerer, log *slog.Logger) *Shadow {
	s := &Shadow{
		counts: counts, log: log, config: c,
		done: promauto.With(to).NewCounterVec(prometheus.CounterOpts{
			Name: "billbridge_rollout_comparisons_total",
			Help: "Comparisons of the answers of both backends, by result.",
		}, []string{"class"}),
	}
	for _, class := range classes {
		s.done.WithLabelValues(string(class))
	}
	s.run, s.cancel = context.WithCancel(context.Background())
	return s
}

// Use replaces the config. Comparisons under way keep the old one.
func (s *Shadow) Use(c config.Shadow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = c
}

// Offer compares a call in the background if there is a place for it. It does not wait. Calls of
// operations that write are never sent.
func (s *Shadow) Offer(c Shadowed) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Operation.Effect != translate.Read {
		return false
	}
	if s.inFlight >= s.config.InFlight || len(c.First.Body) > MostBody {
		s.done.WithLabelValues(string(skipped)).Inc()
		return false
	}
	s.inFlight++
	// The caller reuses its buffers after its call.
	c.First.Body, c.First.Request = bytes.Clone(c.First.Body), bytes.Clone(c.First.Request)
	s.wait.Go(func() {
		s.Compare(s.run, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
	})
	return true
}

// Compare compares the answers of both backends to a call, and counts the result. It returns when that is done, or ctx
// ends: then nothing is counted. One with an old table does not count for the new one.
func (s *Shadow) Compare(ctx context.Context, c Shadowed) (result Comparison) {
	s.mu.Lock()
	ignore := s.config.Ignore
	s.mu.Unlock()
	result.Class = NoAnswer
	defer func() {
		// A panic must not end the process. Its value is not logged: it may contain parts of an answer.
		if panicked := recover(); panicked != nil {
			s.log.Error("panic in a comparison", "id", c.ID, "type", fmt.Sprintf("%T", panicked), "stack",
				string(debug.Stack()))
		}
		if ctx.Err() != nil {
			return
		}
		s.done.WithLabelValues(string(result.Class)).Inc()
		if s.counts.Table() == c.Operation.Table().Version {
			result.Request, result.At = c.ID, c.At
			s.counts.Add(c.Partner, c.Operation.Name, result)
		}
	}()
	return s.compare(ctx, c, ignore)
}

// compare is one comparison from end to end. Differences count that remain after the first upstream was called again,
// in fields where its own answer has not changed: a bill that was paid between the two answers is no difference.
func (s *Shadow) compare(ctx context.Context, c Shadowed, ignore []string) Comparison {
	other := c.Other(ctx)
	found := compareAnswers(c.Operation, c.First, other, ignore)
	if found.Class != Differs {
		return found
	}
	again := c.Again(ctx)
	moved := compareAnswers(c.Operation, c.First, again, ignore)
	still := compareAnswers(c.Operation, again, other, ignore)
	for _, c := range []Comparison{moved, still} {
		if c.Class != Same && c.Class != Differs {
			found.Class, found.Differences = c.Class, nil
			return found
		}
	}
	found.Differences = slices.DeleteFunc(found.Differences, func(d Difference) bool {
		same := func(o Difference) bool { return o.Path == d.Path }
		return !slices.ContainsFunc(still.Differences, same) || slices.ContainsFunc(moved.Differences, same)
	})
	if len(found.Differences) == 0 {
		found.Class = Moved
	}
	return found
}

// Close waits for comparisons under way until ctx ends, and then cancels them. Later calls are not compared.
func (s *Shadow) Close(ctx context.Context) error {
	s.mu.Lock()
	s.config.InFlight = 0
	s.mu.Unlock()
	context.AfterFunc(ctx, s.cancel)
	s.wait.Wait() // each ends with its context
	s.cancel()
	return context.Cause(ctx)
}
