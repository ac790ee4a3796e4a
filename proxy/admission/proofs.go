package admission

import (
	"hash/maphash"
	"net/netip"
	"sync"

	"billbridge/proxy/partner"
)

// maxProved bounds a set of provedKeys.
const maxProved = 1 << 16

// provedKeys are the keys of partners that have had an answer about a bill since the start, and the sources that have
// sent them. Anybody can invent keys, and send the key of another. One rule holds for all that calls use of a gateway
// (connections, limits, breaker): see [Proof]. Safe for concurrent use.
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

// A Proof is what is known of a call's key.
type Proof struct {
	Partner  uint64 // a hash of the partner
	Proven   bool   // the key has had such an answer
	Invented bool   // it may be invented: it had none, and others had
	Foreign  bool   // its source may send the key of another: only another source has proved it
}

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

// prove records an answer about a bill.
func (k *provedKeys) prove(id uint64, from *Source) {
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
