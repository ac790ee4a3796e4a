package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Bills count distinct bills in a place of fixed size: the least hashes of those seen. Up to maxHashes of them the
// number is exact; beyond, how close together they lie tells about how many there are, to some six in a hundred. Merged,
// two of them are what one would be that had seen all.
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

// Number is how many there are.
func (b Bills) number() int {
	if len(b.Least) < maxHashes {
		return len(b.Least)
	}
	return int((maxHashes - 1) / (float64(b.Least[maxHashes-1]) / (1 << 64)))
}
