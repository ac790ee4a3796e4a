package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Bills count distinct bills, up to maxHashes, by their smallest hashes. Two of them can be merged, and are then the
// same as one that has seen all bills.
type Bills struct {
	Least []uint64 `json:"least"` // ascending
}

const maxHashes = 256

func (b *Bills) add(bill string) {
	sum := sha256.Sum256([]byte(bill))
	b.addHash(binary.BigEndian.Uint64(sum[:8]))
}

func (b *Bills) addHash(hash uint64) {
	if at, known := slices.BinarySearch(b.Least, hash); !known && at < maxHashes {
		b.Least = slices.Insert(b.Least, at, hash)
		b.Least = b.Least[:min(len(b.Least), maxHashes)]
	}
}

// number is the number of distinct bills; maxHashes stands for any larger one.
func (b Bills) number() int { return len(b.Least) }
