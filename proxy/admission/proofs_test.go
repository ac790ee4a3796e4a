package admission

import (
	"net/netip"
	"strconv"
	"testing"

	"billbridge/proxy/partner"
)

// A key may be invented if others had an answer about a bill and it had none, and a source may send the key of another
// if only another has had one with it.
func TestRuleOfProvedKeys(t *testing.T) {
	t.Parallel()
	var k provedKeys
	here := &Source{name: netip.MustParsePrefix("192.0.2.1/32")}
	is := func(id partner.ID, from *Source, invented, foreign bool) {
		t.Helper()
		if p := k.of(hashOf(id), from); p.Invented != invented || p.Foreign != foreign {
			t.Errorf("key %s from %v: %+v", id, from, p)
		}
	}
	is("1", here, false, false) // no key is proved
	k.Prove("1", here)
	is("1", here, false, false)
	is("1", nil, false, true)
	is("2", here, true, false)
	k.Prove("1", nil)
	is("1", nil, false, false)
}

// However many keys and sources are proved, a partner that goes on calling stays proved, and the memory is bounded.
func TestFloodKeepsProvedKeys(t *testing.T) {
	t.Parallel()
	address := func(n uint64) *Source {
		return &Source{name: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)}
	}
	for name, prove := range map[string]func(k *provedKeys, n uint64){
		"one key from many sources": func(k *provedKeys, n uint64) { k.Prove("2", address(n)) },
		"many keys":                 func(k *provedKeys, n uint64) { k.Prove(partner.ID(strconv.FormatUint(2+n, 10)), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var k provedKeys
			k.Prove("1", nil)
			for n := range uint64(3 * maxProved) {
				if prove(&k, n); n%(maxProved/4) == 0 {
					if p := k.of(hashOf("1"), nil); p.Invented || p.Foreign {
						t.Fatalf("after %d: %+v", n, p)
					}
					k.Prove("1", nil)
				}
			}
			for _, set := range []recentHashes{k.keys, k.sources} {
				if n := len(set.now) + len(set.before); n > maxProved {
					t.Errorf("%d entries", n)
				}
			}
		})
	}
}
