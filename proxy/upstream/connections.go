package upstream

import (
	"container/list"
	"context"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/admission"

	"github.com/prometheus/client_golang/prometheus"
)

// connections limit the calls to an upstream that run at the same time, so that the slow calls of some partners leave
// connections to the others. A partner has at most its share, and at most as many as it leaves free: the more partners
// use many, the fewer each of them has. Keys that may be invented leave some free, however many there are. Of the calls
// that wait and are below these limits the one that came first is next. Safe for concurrent use.
type connections struct {
	share         int // the most of a partner
	mayBeInvented int // the most of all keys that may be invented
	waiting       prometheus.Gauge

	mu       sync.Mutex
	free     int
	invented int            // running calls with keys that may be invented
	partners map[uint64]int // running calls of partners, by the hash of the key
	proven   list.List      // of *turn: the calls that wait, in the order of their arrival
	others   list.List      // those with keys that may be invented
	arrived  uint64         // calls that have waited
}

func newConnections(c *config.Upstream, m *Metrics) *connections {
	return &connections{
		share:         c.PartnerConnections,
		mayBeInvented: max(c.Connections-c.PartnerConnections, (c.Connections+1)/2),
		waiting:       m.waiting.WithLabelValues(c.Name),
		free:          c.Connections,
		partners:      map[uint64]int{},
	}
}

// A slot is the right to make one call. All calls without a key are of one partner.
type slot struct {
	key       admission.Proof
	uncounted bool // the call counts for no partner
}

// A turn is a call that waits for its slot.
type turn struct {
	slot   slot
	number uint64        // by arrival
	taken  chan struct{} // closed when the call has it
}

// take takes a slot if it is free now. The caller must release it after the call.
func (c *connections) take(s slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeFree(s)
}

// acquire waits for a slot until ctx ends.
func (c *connections) acquire(ctx context.Context, s slot) error {
	c.mu.Lock()
	if c.takeFree(s) {
		c.mu.Unlock()
		return nil
	}
	c.arrived++
	t, queue := &turn{s, c.arrived, make(chan struct{})}, &c.proven
	if s.key.Invented && !s.uncounted {
		queue = &c.others
	}
	place := queue.PushBack(t)
	c.mu.Unlock()
	select {
	case <-t.taken:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-t.taken: // meanwhile
		c.giveBack(s)
	default:
		queue.Remove(place)
	}
	return ctx.Err()
}

// takeFree takes a slot if it is free now.
func (c *connections) takeFree(s slot) bool {
	if c.free == 0 {
		return false
	}
	if !s.uncounted {
		running := c.partners[s.key.Partner]
		if running >= c.share || running >= c.free || s.key.Invented && c.invented >= c.mayBeInvented {
			return false
		}
		c.count(s, 1)
	}
	c.free--
	return true
}

// release ends the use of a slot, and gives what is free to waiting calls.
func (c *connections) release(s slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack(s)
}

func (c *connections) giveBack(s slot) {
	if c.free++; !s.uncounted {
		c.count(s, -1)
	}
	proven, other := c.proven.Front(), c.others.Front()
	for c.free > 0 {
		if c.invented >= c.mayBeInvented {
			other = nil // however many wait, they delay nobody
		}
		queue, next := &c.proven, &proven
		if proven == nil || other != nil && other.Value.(*turn).number < proven.Value.(*turn).number {
			queue, next = &c.others, &other
		}
		at := *next
		if at == nil {
			return
		}
		t := at.Value.(*turn)
		if *next = at.Next(); c.takeFree(t.slot) {
			queue.Remove(at)
			close(t.taken)
		}
	}
}

// count counts a call of a partner.
func (c *connections) count(s slot, n int) {
	if s.key.Invented {
		c.invented += n
	}
	if c.partners[s.key.Partner] += n; c.partners[s.key.Partner] == 0 {
		delete(c.partners, s.key.Partner)
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
