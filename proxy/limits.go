package proxy

import (
	"hash/maphash"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// limits are the values of the label limit of billbridge_requests_limited_total.
var limits = []string{"memory", "in_flight", "partner_in_flight", "partner_rate"}

// inFlight counts the requests in progress, and limits them: all of them (limits.in_flight), and those from one
// source ([config.Limits.Source]), which has the limit of its connections: over HTTP/2 one connection can have many
// requests. Safe for concurrent use.
type inFlight struct {
	limits  atomic.Pointer[config.Limits]
	refused prometheus.Counter
	memory  *memory

	mu     sync.Mutex
	now    int
	from   map[netip.Prefix]*source // without trusted ones
	unused []*source                // without requests, for the next ones
}

// A source is what calls of one source ([config.Limits.Source]) use at the same time.
type source struct {
	name     netip.Prefix
	requests int   // in progress; guarded by the mutex of inFlight
	held     int64 // bytes of bodies; guarded by the mutex of memory
}

// enter counts a request. If ok is true, the caller must call leave with the source at its end; it is nil without
// limits of its own. If there are too many requests, the one whose body has been arriving for the longest time is cut.
func (f *inFlight) enter(r *http.Request) (from *source, ok bool) {
	limits := f.limits.Load()
	name, limited := limits.Source(r.RemoteAddr, r.Header["X-Forwarded-For"])
	f.mu.Lock()
	defer f.mu.Unlock()
	if limited {
		from = f.from[name]
	}
	if from != nil && from.requests >= limits.AddressConnections ||
		f.now >= limits.InFlight && !f.memory.cutOldest() {
		f.refused.Inc()
		return nil, false
	}
	f.now++
	if !limited {
		return nil, true
	}
	if last := len(f.unused) - 1; from == nil && last >= 0 {
		from, f.unused = f.unused[last], f.unused[:last]
	} else if from == nil {
		from = new(source)
	}
	from.name = name
	f.from[name] = from
	from.requests++
	return from, true
}

func (f *inFlight) leave(from *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	if from == nil {
		return
	}
	if from.requests--; from.requests == 0 {
		delete(f.from, from.name)
		if len(f.unused) < maxUnused {
			f.unused = append(f.unused, from)
		}
	}
}

// partnerLimits limit the calls of each partner (limits.partner): those in progress, and their rate. Safe for
// concurrent use.
type partnerLimits struct {
	refused *prometheus.CounterVec

	mu       sync.Mutex
	partners map[uint64]*partnerCalls // by the hash of the key
	removeAt int                      // the number of entries at which unused ones are removed
}

type partnerCalls struct {
	id       uint64 // hash of the key
	inFlight int
	rate     *rate.Limiter // nil without a rate
}

// enter counts a call of a partner at a time. If the partner is over a limit, it returns the refusal; else the
// caller must call leave at the end of the call.
func (p *partnerLimits) enter(
	key string, limit config.PartnerLimit, now time.Time,
) (calls *partnerCalls, over *refusal) {
	if limit.InFlight == 0 && limit.Rate == 0 {
		return nil, nil
	}
	id := maphash.String(seed, key)
	p.mu.Lock()
	defer p.mu.Unlock()
	calls = p.partners[id]
	if calls == nil {
		p.removeUnused(now)
		calls = &partnerCalls{id: id}
		p.partners[id] = calls
	}
	if limit.InFlight > 0 && calls.inFlight >= limit.InFlight {
		return nil, p.refuse("partner_in_flight", time.Second, tooMany.with("in_flight", limit.InFlight))
	}
	if wait := calls.allow(limit, now); wait > 0 {
		return nil, p.refuse("partner_rate", wait, tooMany.with("rate", limit.Rate))
	}
	calls.inFlight++
	return calls, nil
}

// refuse counts and returns the refusal of a call over a limit. A further call is allowed after the time.
func (p *partnerLimits) refuse(limit string, after time.Duration, r *refusal) *refusal {
	p.refused.WithLabelValues(limit).Inc()
	r.after = wholeSeconds(after)
	return r
}

// leave ends a call that enter has counted.
func (p *partnerLimits) leave(calls *partnerCalls) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if calls.inFlight--; calls.unused(time.Now()) {
		delete(p.partners, calls.id)
	}
}

// allow counts a call for the rate of the partner, and returns 0. If the rate is exceeded, it returns the time until
// the next call is allowed.
func (c *partnerCalls) allow(limit config.PartnerLimit, now time.Time) (wait time.Duration) {
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
	return c.inFlight == 0 && (c.rate == nil || c.rate.TokensAt(now) >= float64(c.rate.Burst()))
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

// enterPartner counts the call for the limits of its partner, if requests of its operation name it.
func (x *exchange) enterPartner(key string) error {
	if x.route.anonymous {
		return nil
	}
	calls, over := x.gateway.partnerLimits.enter(key, x.state.config.Limits.Partner, time.Now())
	if over != nil {
		return over
	}
	x.in.partner = calls
	return nil
}

// wholeSeconds returns a time as a value of Retry-After: rounded up to seconds, at least 1.
func wholeSeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}

// hasTwoLengths reports whether a request has Content-Length twice. Over HTTP/2 net/http uses the first one; over
// HTTP/1.1 package framing refuses such a request.
func hasTwoLengths(r *http.Request) bool { return len(r.Header["Content-Length"]) > 1 }
