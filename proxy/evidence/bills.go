package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Bills count distinct bills, up to maxHashes, by their smallest hashes, ascending. Two of them can be merged, and are
// then the same as one that has seen all bills.
type Bills []uint64

const maxHashes = 256

// add adds a bill, if it has an id.
func (b *Bills) add(bill string) {
	if sum := sha256.Sum256([]byte(bill)); bill != "" {
		b.merge(binary.BigEndian.Uint64(sum[:8]))
	}
}

func (b *Bills) merge(hashes ...uint64) {
	all := append(slices.Clone(*b), hashes...)
	slices.Sort(all)
	all = slices.Compact(all)
	*b = all[:min(len(all), maxHashes)]
}
