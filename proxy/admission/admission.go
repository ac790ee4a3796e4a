// Package admission decides who may come in: sources, partners, the memory for bodies, and what is known of a key.
package admission

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// An Admission has what calls use of a gateway at the same time, and limits it. It is safe for concurrent use.
type Admission struct {
	memory // of the bodies of requests
	inFlight
	provedKeys
	partnerLimits
	rowLimits

	draining context.Context // ends when the drain begins
	drain    context.CancelFunc
}

// New returns an admission without limits, see Use. It panics if r has its metrics. rows is how many rows the keys of
// one source without a success can add to the store at once.
func New(r prometheus.Registerer, log *slog.Logger, rows int) *Admission {
	refused := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "billbridge_requests_limited_total",
		Help: "Requests that were refused because a limit of the config was reached.",
	}, []string{"limit"})
	for _, limit := range []string{"memory", "in_flight", "partner_in_flight", "partner_rate"} {
		refused.WithLabelValues(limit)
	}
	a := new(Admission)
	a.draining, a.drain = context.WithCancel(context.Background())
	a.memory.refused = refused.WithLabelValues("memory")
	a.gauge = promauto.With(r).NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_body_bytes", Help: "Bytes of limits.memory that bodies of requests and large replies use.",
	})
	a.inFlight = inFlight{
		from: map[netip.Prefix]*Source{}, memory: &a.memory,
		refused: refused.WithLabelValues("in_flight"), log: accesslog.Limited(log, time.Minute),
	}
	a.partnerLimits = partnerLimits{refused: refused, proved: &a.provedKeys, partners: map[uint64]*partnerCalls{}}
	for i := range a.rowLimits.sources {
		a.rowLimits.sources[i] = rate.NewLimiter(newRows, rows)
	}
	return a
}

// Use sets the limits.
func (a *Admission) Use(l *config.Limits) {
	a.use(l)
	a.limits.Store(l)
}

// Drain gives bodies that are still being read PartialRequestTimeout to arrive.
func (a *Admission) Drain() { a.drain() }

// Hold returns an empty part of the memory, of a source.
func (a *Admission) Hold(from *Source) Held { return Held{memory: &a.memory, from: from} }

// Read reads the body of a request, of at most limit bytes and within a time. The error is ErrNoMemory, ErrTooLong or
// that of the connection; Release must be called in any case, also if the body is nil.
func (a *Admission) Read(
	w http.ResponseWriter, r *http.Request, from *Source, limit int64, within time.Duration,
) (*Body, error) {
	switch {
	case r.ContentLength > limit:
		return nil, ErrTooLong
	case hasArrived(r):
		return a.memory.read(from, r.Body, nil, limit)
	}
	body := a.drainable(w, r.Body, within)
	defer body.end()
	return a.memory.read(from, body, body, limit)
}

// Count counts what is read of the body of a request as memory, and limits the time for it. Reading fails with full if
// the memory is used up. The caller must call end after it.
func (a *Admission) Count(
	w http.ResponseWriter, r *http.Request, from *Source, within time.Duration, full error,
) (body io.ReadCloser, end func()) {
	b := &countedBody{a.drainable(w, r.Body, within), a.Hold(from), full}
	ended := b.transfer(b.drainableBody.cut)
	return b, func() {
		ended()
		b.Keep(0)
		b.end()
	}
}

// A countedBody is a body that somebody else reads.
type countedBody struct {
	*drainableBody
	Held
	full error
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.drainableBody.Read(p)
	if n > 0 && !b.Take(int64(n)) || err == ErrNoMemory {
		return 0, b.full
	}
	return n, err
}
