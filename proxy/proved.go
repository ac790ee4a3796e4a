package proxy

import (
	"hash/maphash"
	"net/netip"
	"sync"
)

// maxProved bounds provedKeys.
const maxProved = 1 << 16

// provedKeys are the keys of partners that have had an answer about a bill since the start, and the sources that have
// sent them. Anybody can invent keys, and send the key of another. One rule holds for all that calls use of a gateway
// (connections, limits, breaker): see proof. Safe for concurrent use.
type provedKeys struct {
	mu   sync.RWMutex
	seen map[uint64]bool // hashes of IDs, and of IDs with a source
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
	return proof{k.seen[id], k.seen[hashOfSource(id, from)], len(k.seen) > 0}
}

// prove records an answer about a bill.
func (k *provedKeys) prove(id uint64, from *source) {
	if p := k.of(id, from); p.key && p.source {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seen) >= maxProved || k.seen == nil {
		k.seen = map[uint64]bool{} // those in use are recorded again at once
	}
	k.seen[id], k.seen[hashOfSource(id, from)] = true, true
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
