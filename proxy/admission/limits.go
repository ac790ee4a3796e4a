package admission

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// inFlight counts the requests in progress, and limits them: all of them (limits.InFlight), and those from one
// source ([config.Limits.Source]), which has the limit of its connections: over HTTP/2 one connection can have many
// requests. Safe for concurrent use.
type inFlight struct {
	limits  atomic.Pointer[config.Limits]
	refused prometheus.Counter
	memory  *memory
	log     *slog.Logger // for what every call can repeat

	mu   sync.Mutex
	now  int
	from map[netip.Prefix]*Source // without trusted ones
}

var sourcePool = sync.Pool{New: func() any { return new(Source) }}

// A Source counts the requests in progress, and the bytes of their bodies, of one source of calls
// ([config.Limits.Source]), such as an address.
type Source struct {
	name     netip.Prefix
	requests int   // in progress; guarded by the mutex of inFlight
	held     int64 // bytes of bodies; guarded by the mutex of memory
}

// Enter counts a request. If ok is true, the caller must call Leave with the source at its end; it is nil without
// limits of its own. If there are too many requests, the one whose body has been arriving for the longest time is cut.
func (f *inFlight) Enter(r *http.Request) (from *Source, ok bool) {
	limits := f.limits.Load()
	name, limited, err := limits.Source(r.RemoteAddr, r.Header["X-Forwarded-For"])
	if err != nil {
		f.log.Warn("the addresses of callers behind a trusted proxy cannot be read: they count as one source",
			"error", err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if limited {
		from = f.from[name]
	}
	if from != nil && from.requests >= limits.AddressConnections ||
		f.now >= limits.InFlight && !f.memory.CutOldest() {
		f.refused.Inc()
		return nil, false
	}
	f.now++
	if !limited {
		return nil, true
	}
	if from == nil {
		from = sourcePool.Get().(*Source)
		from.name = name // never while it is in use: it is read without the lock
		f.from[name] = from
	}
	from.requests++
	return from, true
}

// Leave ends what Enter has counted.
func (f *inFlight) Leave(from *Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	if from == nil {
		return
	}
	if from.requests--; from.requests == 0 {
		delete(f.from, from.name)
		sourcePool.Put(from)
	}
}

// partnerLimits limit the calls of each partner (limits.partner): those in progress, and their rate. When one source
// has had a success with the key of the partner, all others without one can use half of both: anybody can send a key.
// Safe for concurrent use.
type partnerLimits struct {
	refused *prometheus.CounterVec
	proved  *provedKeys

	mu       sync.Mutex
	partners map[uint64]*partnerCalls // by the hash of the ID
	removeAt int                      // the number of entries at which unused ones are removed
}

type partnerCalls struct {
	id    uint64 // hash of the partner's ID
	calls callCount
	other callCount // of them, those of other sources than the proved ones
}

// A callCount is what one limit counts.
type callCount struct {
	inFlight int
	rate     *rate.Limiter // nil without a rate
}

// A PartnerCall is a call that partnerLimits have counted. The zero value is one that they have not.
type PartnerCall struct {
	*partnerCalls
	foreign bool // see Proof
}

// An Over is a limit of a partner that a call would exceed: InFlight or Rate.
type Over struct {
	InFlight int
	Rate     float64
	After    time.Duration // when it can be sent again
}

// EnterPartner counts a call of a partner at a time. If the partner is over a limit, it says which; else the caller
// must call LeavePartner at the end of the call.
func (p *partnerLimits) EnterPartner(
	who partner.ID, from *Source, limit config.PartnerLimit, now time.Time,
) (call PartnerCall, over *Over) {
	if limit.InFlight == 0 && limit.Rate == 0 {
		return call, nil
	}
	id := hashOf(who)
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.partners[id]
	if calls == nil {
		p.removeUnused(now)
		calls = &partnerCalls{id: id}
		p.partners[id] = calls
	}
	call = PartnerCall{calls, from != nil && p.proved.of(id, from).Foreign}
	if call.foreign {
		if over = p.check(&calls.other, half(limit), now); over != nil {
			return PartnerCall{}, over
		}
	}
	if over = p.check(&calls.calls, limit, now); over != nil {
		return PartnerCall{}, over
	}
	call.count(1)
	return call, nil
}

// check returns the refusal of one more call over a limit.
func (p *partnerLimits) check(c *callCount, limit config.PartnerLimit, now time.Time) *Over {
	if limit.InFlight > 0 && c.inFlight >= limit.InFlight {
		p.refused.WithLabelValues("partner_in_flight").Inc()
		return &Over{InFlight: limit.InFlight, After: time.Second}
	}
	after := c.allow(limit, now)
	if after == 0 {
		return nil
	}
	p.refused.WithLabelValues("partner_rate").Inc()
	return &Over{Rate: limit.Rate, After: after}
}

func half(limit config.PartnerLimit) config.PartnerLimit {
	return config.PartnerLimit{InFlight: (limit.InFlight + 1) / 2, Rate: limit.Rate / 2, Burst: (limit.Burst + 1) / 2}
}

func (c PartnerCall) count(n int) {
	c.calls.inFlight += n
	if c.foreign {
		c.other.inFlight += n
	}
}

// LeavePartner ends what EnterPartner has counted. The zero call is none.
func (p *partnerLimits) LeavePartner(call PartnerCall) {
	if call.partnerCalls == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if call.count(-1); call.unused(time.Now()) {
		delete(p.partners, call.id)
	}
}

// allow counts a call for the rate of the partner, and returns 0. If the rate is exceeded, it returns the time until
// the next call is allowed.
func (c *callCount) allow(limit config.PartnerLimit, now time.Time) (wait time.Duration) {
	if limit.Rate == 0 {
		c.rate = nil
		return 0
	}
	if c.rate == nil || c.rate.Limit() != rate.Limit(limit.Rate) || c.rate.Burst() != limit.Burst {
		// The partner is new, or a reload has changed its limit.
		c.rate = rate.NewLimiter(rate.Limit(limit.Rate), limit.Burst)
	}
	if c.rate.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - c.rate.TokensAt(now)) / limit.Rate * float64(time.Second))
}

// unused reports whether the entry can be removed: no call is in progress, and the rate has all its tokens.
func (c *partnerCalls) unused(now time.Time) bool {
	full := func(r *rate.Limiter) bool { return r == nil || r.TokensAt(now) >= float64(r.Burst()) }
	return c.calls.inFlight == 0 && full(c.calls.rate) && full(c.other.rate)
}

// removeUnused removes unused entries each time that their number has doubled, so that its cost for each call does
// not grow with them.
func (p *partnerLimits) removeUnused(now time.Time) {
	if len(p.partners) < p.removeAt {
		return
	}
	for id, calls := range p.partners {
		if calls.unused(now) {
			delete(p.partners, id)
		}
	}
	p.removeAt = max(1024, 2*len(p.partners))
}
