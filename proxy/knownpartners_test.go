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
	var g Gateway
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
	known := 0
	g.partners.byHash.Range(func(_, _ any) bool { known++; return true })
	if known != maxKnownPartners || g.partners.count.Load() != maxKnownPartners {
		t.Errorf("%d partners are known, and %d are counted", known, g.partners.count.Load())
	}
}
