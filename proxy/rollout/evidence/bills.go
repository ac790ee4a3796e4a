package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Bills count distinct bills in bounded space (a k-minimum-values sketch): they keep the smallest hashes of the
// bills. Below maxHashes bills the number is exact; above, it is estimated from the largest kept hash, with a
// standard error of about 6 %. Two of them can be merged, and are then the same as one that has seen all bills.
type Bills struct {
	Least []uint64 `json:"least"` // ascending
}

const maxHashes = 256

func (b *Bills) add(bill string) {
	sum := sha256.Sum256([]byte(bill))
	b.addHash(binary.BigEndian.Uint64(sum[:8]))
}

func (b *Bills) addHash(hash uint64) {
	at, known := slices.BinarySearch(b.Least, hash)
	if known || at == maxHashes {
		return
	}
	b.Least = slices.Insert(b.Least, at, hash)
	b.Least = b.Least[:min(len(b.Least), maxHashes)]
}

// number is the number of distinct bills.
func (b Bills) number() int {
	if len(b.Least) < maxHashes {
		return len(b.Least)
	}
	return int((maxHashes - 1) / (float64(b.Least[maxHashes-1]) / (1 << 64)))
}
