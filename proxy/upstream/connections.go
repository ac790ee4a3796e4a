package upstream

import (
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/admission"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// connections limit the calls to an upstream that run at the same time: all of them, and those of each partner, so
// that the slow calls of one partner do not delay the others. Keys that may be invented leave some free, however many
// there are. Waiting calls run in order of arrival. Safe for concurrent use.
type connections struct {
	all      *semaphore.Weighted
	invented *semaphore.Weighted
	waiting  prometheus.Gauge

	mu       sync.Mutex
	partners map[uint64]*partnerConnections // partners with calls, by the hash of the key
	unused   sync.Pool                      // of *partnerConnections
}

type partnerConnections struct {
	*semaphore.Weighted
	calls int // waiting or running
}

func newConnections(c *config.Upstream, m *Metrics) *connections {
	return &connections{
		all:      semaphore.NewWeighted(int64(c.Connections)),
		invented: semaphore.NewWeighted(int64(max(c.Connections-c.PartnerConnections, (c.Connections+1)/2))),
		waiting:  m.waiting.WithLabelValues(c.Name),
		partners: map[uint64]*partnerConnections{},
		unused: sync.Pool{New: func() any {
			return &partnerConnections{Weighted: semaphore.NewWeighted(int64(c.PartnerConnections))}
		}},
	}
}

// A slot is the right to make one call.
type slot struct {
	partner  *partnerConnections // nil if the call does not count for a partner
	key      uint64
	invented bool // it counts for the keys that may be invented, too
}

// acquire takes a slot: first of the partner, unless noPartnerLimit is set, and then of the upstream, so that a call
// that waits for its partner's limit delays no other partner. All calls without a key count as one partner. The
// error is that of take. The caller must call release after the call.
func (c *connections) acquire(
	key admission.Proof, noPartnerLimit bool, take func(*semaphore.Weighted) error,
) (slot, error) {
	s := c.enter(key.Partner, noPartnerLimit)
	if s.partner != nil {
		if err := take(s.partner.Weighted); err != nil {
			c.leave(s)
			return slot{}, err
		}
		if key.Invented {
			if err := take(c.invented); err != nil {
				c.releasePartner(s)
				return slot{}, err
			}
			s.invented = true
		}
	}
	if err := take(c.all); err != nil {
		c.releasePartner(s)
		return slot{}, err
	}
	return s, nil
}

// ifFree takes a slot that is free.
func ifFree(s *semaphore.Weighted) error {
	if s.TryAcquire(1) {
		return nil
	}
	return errNoConnection
}

func (c *connections) release(s slot) {
	c.all.Release(1)
	c.releasePartner(s)
}

func (c *connections) releasePartner(s slot) {
	if s.invented {
		c.invented.Release(1)
	}
	if s.partner != nil {
		s.partner.Release(1)
		c.leave(s)
	}
}

// enter counts a call of a partner.
func (c *connections) enter(partner uint64, noPartnerLimit bool) slot {
	if noPartnerLimit {
		return slot{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partners[partner]
	if p == nil {
		p = c.unused.Get().(*partnerConnections)
		c.partners[partner] = p
	}
	p.calls++
	return slot{partner: p, key: partner}
}

// leave ends what enter began.
func (c *connections) leave(s slot) {
	if s.partner == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.partner.calls--; s.partner.calls == 0 {
		delete(c.partners, s.key)
		c.unused.Put(s.partner)
	}
}

// A wait is a call that waits for its connection, a new one or an idle one.
type wait struct {
	connections *connections // nil after the end
	began       time.Time
}

func (c *connections) startWait(w *wait) {
	c.waiting.Inc()
	*w = wait{c, time.Now()}
}

// end ends the wait. Only the first call has an effect.
func (w *wait) end() {
	if w.connections != nil {
		w.connections.waiting.Dec()
		w.connections = nil
	}
}
