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
	"billbridge/proxy/partner"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// An Admission has what calls use of a gateway at the same time, and limits it. It is safe for concurrent use.
type Admission struct {
	memory   memory // of the bodies of requests
	inFlight inFlight
	proved   provedKeys
	partners partnerLimits

	draining context.Context // ends when the drain begins
	drain    context.CancelFunc
}

// New returns an admission without limits, see Use. It panics if r has its metrics.
func New(r prometheus.Registerer, log *slog.Logger) *Admission {
	refused := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "billbridge_requests_limited_total",
		Help: "Requests that were refused because a limit of the config was reached.",
	}, []string{"limit"})
	for _, limit := range limits {
		refused.WithLabelValues(limit)
	}
	a := new(Admission)
	a.draining, a.drain = context.WithCancel(context.Background())
	a.memory.refused = refused.WithLabelValues("memory")
	a.memory.gauge = promauto.With(r).NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_body_bytes", Help: "Bytes of limits.memory that bodies of requests and large replies use.",
	})
	a.inFlight.from, a.inFlight.memory = map[netip.Prefix]*Source{}, &a.memory
	a.inFlight.refused, a.inFlight.log = refused.WithLabelValues("in_flight"), accesslog.Limited(log, time.Minute)
	a.partners = partnerLimits{refused: refused, proved: &a.proved, partners: map[uint64]*partnerCalls{}}
	return a
}

// Use sets the limits.
func (a *Admission) Use(l *config.Limits) {
	a.memory.use(l)
	a.inFlight.limits.Store(l)
}

// Drain gives bodies that are still being read PartialRequestTimeout to arrive.
func (a *Admission) Drain() { a.drain() }

// CutOldest ends the request whose body has been arriving for the longest time. It returns false if there is none.
func (a *Admission) CutOldest() bool { return a.memory.cutOldest() }

// Enter counts a request. If ok is true, the caller must call Leave with the source at its end; it is nil without
// limits of its own. If there are too many requests, the one whose body has been arriving for the longest time is cut.
func (a *Admission) Enter(r *http.Request) (from *Source, ok bool) { return a.inFlight.enter(r) }

// Leave ends what Enter has counted.
func (a *Admission) Leave(from *Source) { a.inFlight.leave(from) }

// EnterPartner counts a call of a partner. If the partner is over a limit, it says which; else the caller must call
// LeavePartner at the end of the call.
func (a *Admission) EnterPartner(who partner.ID, from *Source, limit config.PartnerLimit) (PartnerCall, *Over) {
	return a.partners.enter(who, from, limit, time.Now())
}

// LeavePartner ends what EnterPartner has counted. The zero call is none.
func (a *Admission) LeavePartner(call PartnerCall) {
	if call.Counted() {
		a.partners.leave(call)
	}
}

// Prove records that a backend has answered about a bill of a partner, whose key a source has sent.
func (a *Admission) Prove(who partner.ID, from *Source) { a.proved.prove(hashOf(who), from) }

// Proof returns what is known of the key of a partner, whichever source sends it.
func (a *Admission) Proof(who partner.ID) Proof { return a.proved.of(hashOf(who), nil) }

// SourceHash returns a hash of a source.
func SourceHash(from *Source) uint64 { return hashOfSource(0, from) }

// Hold returns an empty part of the memory, of a source.
func (a *Admission) Hold(from *Source) Held { return Held{memory: &a.memory, from: from} }

// Read reads the body of a request, of at most limit bytes and within a time. The error is ErrNoMemory, ErrTooLong or that
// of the connection; Release must be called in any case, also if the body is nil.
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
