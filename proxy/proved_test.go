package proxy

import (
	"net/netip"
	"testing"
)

// A key may be invented if others had an answer about a bill and it had none, and a source may send the key of another
// if only another has had one with it.
func TestRuleOfProvedKeys(t *testing.T) {
	t.Parallel()
	var k provedKeys
	here := &source{name: netip.MustParsePrefix("192.0.2.1/32")}
	is := func(id uint64, from *source, invented, foreign bool) {
		t.Helper()
		if p := k.of(id, from); p.invented() != invented || p.foreign() != foreign {
			t.Errorf("key %d from %v: %+v", id, from, p)
		}
	}
	is(1, here, false, false) // no key is proved
	k.prove(1, here)
	is(1, here, false, false)
	is(1, nil, false, true)
	is(2, here, true, false)
	k.prove(1, nil)
	is(1, nil, false, false)
	for id := range uint64(maxProved) {
		k.prove(id, nil)
	}
	if n := len(k.seen); n > maxProved+1 {
		t.Errorf("%d entries", n)
	}
}
