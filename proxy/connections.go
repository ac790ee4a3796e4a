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

// connections share out the connections to an upstream, first come, first served. A partner has a limit of its own, so that
// its slow calls do not hold the calls of others. They are safe for concurrent use.
type connections struct {
	all        *semaphore.Weighted
	ofAPartner int64
	waiting    prometheus.Gauge
	waited     prometheus.Observer

	mu       sync.Mutex
	partners map[uint64]*partnerConnections // of those with a call that waits or is under way, by the hash of the key
}

type partnerConnections struct {
	*semaphore.Weighted
	calls int // that wait or are under way
}

// seed keeps callers from choosing keys that share a hash.
var seed = maphash.MakeSeed()

func newConnections(c *config.Upstream, m *metrics) *connections {
	return &connections{
		all: semaphore.NewWeighted(int64(c.Connections)), ofAPartner: int64(c.PartnerConnections),
		waiting: m.waiting.WithLabelValues(c.Name), waited: m.waited.WithLabelValues(c.Name),
		partners: map[uint64]*partnerConnections{},
	}
}

// acquire waits for a place, and before that for one of the partner's share, which holds up nobody else. Calls without a key
// share one share. Calls of the gateway's own need none. release gives the place back. The error is that of the context.
func (c *connections) acquire(ctx context.Context, partner string, own bool) (release func(), err error) {
	leave := func() {}
	if !own {
		if leave, err = c.acquireOwn(ctx, maphash.String(seed, partner)); err != nil {
			return nil, err
		}
	}
	if err := c.all.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err
	}
	return func() {
		c.all.Release(1)
		leave()
	}, nil
}

func (c *connections) acquireOwn(ctx context.Context, key uint64) (release func(), err error) {
	c.mu.Lock()
	own := c.partners[key]
	if own == nil {
		own = &partnerConnections{Weighted: semaphore.NewWeighted(c.ofAPartner)}
		c.partners[key] = own
	}
	own.calls++
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if own.calls--; own.calls == 0 {
			delete(c.partners, key)
		}
	}
	if err := own.Acquire(ctx, 1); err != nil {
		forget()
		return nil, err
	}
	return func() {
		own.Release(1)
		forget()
	}, nil
}

// A wait is that of one call for its connection, until it is opened or taken from the idle ones.
type wait struct {
	connections *connections
	began       time.Time
	once        sync.Once
}

func (c *connections) wait() *wait {
	c.waiting.Inc()
	return &wait{connections: c, began: time.Now()}
}

// end counts the wait. Every call but the first does nothing.
func (w *wait) end() {
	w.once.Do(func() {
		w.connections.waiting.Dec()
		w.connections.waited.Observe(time.Since(w.began).Seconds())
	})
}
