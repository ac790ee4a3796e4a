package admission

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"billbridge/proxy/partner"

	"golang.org/x/time/rate"
)

// maxProved bounds a set of provedKeys.
const maxProved = 1 << 16

// provedKeys are the keys of partners that have had an answer about a bill since the start, and the sources that have
// sent them. Safe for concurrent use.
type provedKeys struct {
	mu      sync.RWMutex
	keys    recentHashes // of IDs
	sources recentHashes // of IDs with a source: one ID can have many, so that they must not take the place of keys
}

// recentHashes are at most maxProved hashes, in two generations: when the new one is full, it becomes the old one.
// Those in use are added again in time, so that many others do not remove them.
type recentHashes struct{ now, before map[uint64]bool }

func (r *recentHashes) has(hash uint64) bool { return r.now[hash] || r.before[hash] }

func (r *recentHashes) add(hash uint64) {
	if !r.now[hash] && len(r.now) >= maxProved/2 || r.now == nil {
		r.before, r.now = r.now, map[uint64]bool{}
	}
	r.now[hash] = true
}

// A Proof is what is known of a call's key. Anybody can invent keys, and send the key of another. One rule holds for
// all that calls use of a gateway: a key is proven when a backend has answered a call with it about a bill. A refusal
// of the caller or of the format, or a failure, can be the answer to any invented key.
//
//   - Keys without a proof leave connections to others, see package upstream, and are one partner for the breaker.
//   - Sources without a proof of a key have half of the limits of its partner, once another source has one.
//   - Keys that never had a success, also before the start, add few rows to the store, see MayAddRows.
type Proof struct {
	Partner  uint64 // a hash of the partner
	Proven   bool   // the key has had such an answer
	Invented bool   // it may be invented: it had none, and others had
	Foreign  bool   // its source may send the key of another: only another source has proved it
}

// Proof returns what is known of the key of a partner, whichever source sends it.
func (k *provedKeys) Proof(who partner.ID) Proof { return k.of(hashOf(who), nil) }

// of returns the proof of the hash of an ID. All sources without limits of their own, nil, are one.
func (k *provedKeys) of(id uint64, from *Source) Proof {
	k.mu.RLock()
	defer k.mu.RUnlock()
	key := k.keys.has(id)
	return Proof{id, key, !key && k.keys.now != nil, key && !k.sources.has(hashOfSource(id, from))}
}

// hashOf returns the hash of a partner.
func hashOf(who partner.ID) uint64 { return maphash.String(seed, string(who)) }

// seed is random, so that a caller cannot choose keys with equal hashes.
var seed = maphash.MakeSeed()

// Prove records that a backend has answered about a bill of a partner, whose key a source has sent.
func (k *provedKeys) Prove(who partner.ID, from *Source) {
	id := hashOf(who)
	pair := hashOfSource(id, from)
	k.mu.RLock()
	known := k.keys.now[id] && k.sources.now[pair]
	k.mu.RUnlock()
	if known {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys.add(id)
	k.sources.add(pair)
}

// hashOfSource returns the hash of a key and a source.
func hashOfSource(id uint64, from *Source) uint64 {
	key := struct {
		id      uint64
		from    netip.Prefix
		limited bool // the zero Prefix of an address that cannot be read is not that of sources without limits
	}{id: id, limited: from != nil}
	if from != nil {
		key.from = from.name
	}
	return maphash.Comparable(seed, key)
}

// TrialAfter is the time between the calls of a partner that holds as many rows of the store as it can.
const TrialAfter = time.Minute

// newRows is how many calls a second that add rows the keys without a success can make from one source, after those at
// once.
const newRows = 0.1

// rowLimits limit the rows that keys without a success add to the store. Safe for concurrent use.
type rowLimits struct {
	trials  sync.Map          // of *rate.Limiter, by the partner.ID of a partner with as many rows as it can have
	sources [64]*rate.Limiter // by the hash of the source
}

// MayAddRows reports whether a call of a partner may add rows to the store. The store says whether a call has ever
// succeeded with its key, and whether it holds fewer rows than it can. A partner with too many rows gets a trial call
// in each TrialAfter: its success ends this.
func (l *rowLimits) MayAddRows(who partner.ID, from *Source, succeeded, room bool) bool {
	if succeeded {
		return true
	}
	if !room {
		trials, _ := l.trials.LoadOrStore(who, rate.NewLimiter(rate.Every(TrialAfter), 1))
		room = trials.(*rate.Limiter).Allow()
	}
	return room && l.sources[hashOfSource(0, from)%uint64(len(l.sources))].Allow()
}
