package proxy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// unpairedCodes counts the codes of an upstream that clients of the other form do not know (see
// [translate.Table.Unpaired]): as long as there are some, such a client can take a duplicate for a refusal. Safe for
// concurrent use.
type unpairedCodes struct {
	counter  *prometheus.CounterVec // by upstream and code
	upstream string

	mu   sync.Mutex
	seen map[string]prometheus.Counter
}

// maxUnpaired is the maximum number of codes of an upstream with a series of their own (R37).
const maxUnpaired = 32

// plainCode matches what can be shown of a code: an upstream can write anything there, also a phone number.
var plainCode = regexp.MustCompile(`^[A-Za-z_]{0,14}[0-9]{0,6}$`)

func (u *unpairedCodes) count(code string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !plainCode.MatchString(code) || u.seen[code] == nil && len(u.seen) >= maxUnpaired {
		code = other
	}
	if u.seen[code] == nil {
		code = strings.Clone(code)
		u.seen[code] = u.counter.WithLabelValues(u.upstream, code)
	}
	u.seen[code].Inc()
}

// codes returns the codes that were seen, sorted.
func (u *unpairedCodes) codes() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.seen))
}
