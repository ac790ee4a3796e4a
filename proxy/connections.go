package proxy

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// connections limit the calls to an upstream that run at the same time: all of them, and those of each partner, so that the
// slow calls of one partner do not delay the others. Waiting calls run in order of arrival. Safe for concurrent use.
type connections struct {
	all        *semaphore.Weighted
	perPartner int64
	waiting    prometheus.Gauge
	waitTime   prometheus.Observer

	mu       sync.Mutex
	partners map[uint64]*partnerConnections // partners with calls, by the hash of the key
}

type partnerConnections struct {
	*semaphore.Weighted
	calls int // waiting or running
}

// seed is random, so that a caller cannot choose keys with equal hashes.
var seed = maphash.MakeSeed()

func newConnections(c *config.Upstream, m *metrics) *connections {
	return &connections{
		all: semaphore.NewWeighted(int64(c.Connections)), perPartner: int64(c.PartnerConnections),
		waiting: m.waiting.WithLabelValues(c.Name), waitTime: m.waitTime.WithLabelValues(c.Name),
		partners: map[uint64]*partnerConnections{},
	}
}

// acquire waits until the call may run: first for the limit of the partner, unless noPartnerLimit is set, then for that of
// the upstream. A call that waits for its partner's limit delays no other partner. All calls without a key count as one
// partner. The caller must call release after the call. The error is that of ctx.
func (c *connections) acquire(ctx context.Context, partner string, noPartnerLimit bool) (release func(), err error) {
	releasePartner := func() {}
	if !noPartnerLimit {
		if releasePartner, err = c.acquirePartner(ctx, maphash.String(seed, partner)); err != nil {
			return nil, err
		}
	}
	if err := c.all.Acquire(ctx, 1); err != nil {
		releasePartner()
		return nil, err
	}
	return func() {
		c.all.Release(1)
		releasePartner()
	}, nil
}

func (c *connections) acquirePartner(ctx context.Context, key uint64) (release func(), err error) {
	c.mu.Lock()
	partner := c.partners[key]
	if partner == nil {
		partner = &partnerConnections{Weighted: semaphore.NewWeighted(c.perPartner)}
		c.partners[key] = partner
	}
	partner.calls++
	c.mu.Unlock()
	end := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if partner.calls--; partner.calls == 0 {
			delete(c.partners, key)
		}
	}
	if err := partner.Acquire(ctx, 1); err != nil {
		end()
		return nil, err
	}
	return func() {
		partner.Release(1)
		end()
	}, nil
}

// A wait measures how long a call waits for its connection, a new one or an idle one.
type wait struct {
	connections *connections
	began       time.Time
	once        sync.Once
}

func (c *connections) startWait() *wait {
	c.waiting.Inc()
	return &wait{connections: c, began: time.Now()}
}

// end records the wait. Only the first call has an effect.
func (w *wait) end() {
	w.once.Do(func() {
		w.connections.waiting.Dec()
		w.connections.waitTime.Observe(time.Since(w.began).Seconds())
	})
}
