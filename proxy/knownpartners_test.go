package proxy

import (
	"fmt"
	"sync"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
)

// The key of a partner that has just called is known, however many others have called.
func TestKeyOfALaterPartnerIsKnown(t *testing.T) {
	t.Parallel()
	g := Gateway{partners: knownPartners{byID: map[partner.ID]rollout.Credentials{}}}
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := range maxKnownPartners/4 + 50 {
				id := partner.Of(fmt.Sprint(part, " ", i))
				g.partners.add(rollout.Credentials{Partner: id, Key: "k"})
			}
		})
	}
	all.Wait()
	for i := range 100 {
		id := partner.Of(fmt.Sprint("later ", i))
		g.partners.add(rollout.Credentials{Partner: id, Key: "k"})
		if !g.Knows(id) {
			t.Errorf("partner %d, which has just called, is not known", i)
		}
	}
	if known := len(g.partners.byID); known != maxKnownPartners {
		t.Errorf("%d partners are known", known)
	}
}
