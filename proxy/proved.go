package proxy

import (
	"hash/maphash"
	"net/netip"
	"sync"

	"billbridge/proxy/partner"
	"billbridge/proxy/upstream"
)

// maxProved bounds a set of provedKeys.
const maxProved = 1 << 16

// provedKeys are the keys of partners that have had an answer about a bill since the start, and the sources that have
// sent them. Anybody can invent keys, and send the key of another. One rule holds for all that calls use of a gateway
// (connections, limits, breaker): see proof. Safe for concurrent use.
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

// A proof is what is known of a call's key.
type proof struct {
	key    bool // it has had such an answer
	source bool // it has had one from this source
	any    bool // some key has
}

// invented reports whether the key may be invented: others are proved, and it is not.
func (p proof) invented() bool { return p.any && !p.key }

// foreign reports whether the source may send the key of another: another source has proved it.
func (p proof) foreign() bool { return p.key && !p.source }

// of returns the proof of the hash of an ID. All sources without limits of their own, nil, are one.
func (k *provedKeys) of(id uint64, from *source) proof {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return proof{k.keys.has(id), k.sources.has(hashOfSource(id, from)), k.keys.now != nil}
}

// key returns what an upstream needs to know of the key of a partner.
func (k *provedKeys) key(who partner.ID) upstream.Key {
	id := maphash.String(seed, string(who))
	proof := k.of(id, nil)
	return upstream.Key{Partner: id, Proven: proof.key, Invented: proof.invented()}
}

// seed is random, so that a caller cannot choose keys with equal hashes.
var seed = maphash.MakeSeed()

// prove records an answer about a bill.
func (k *provedKeys) prove(id uint64, from *source) {
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
func hashOfSource(id uint64, from *source) uint64 {
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
