package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
)

// The key of a partner that has just called is known, however many others have called.
func TestKeyOfALaterPartnerIsKnown(t *testing.T) {
	t.Parallel()
	g := Gateway{partners: knownPartners{byID: map[partner.ID]routing.Credentials{}}}
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := range maxKnownPartners/4 + 50 {
				id := partner.Of(fmt.Sprint(part, " ", i))
				g.partners.add(routing.Credentials{Partner: id, Key: "k"})
			}
		})
	}
	all.Wait()
	for i := range 100 {
		id := partner.Of(fmt.Sprint("later ", i))
		g.partners.add(routing.Credentials{Partner: id, Key: "k"})
		if !g.Knows(id) {
			t.Errorf("partner %d, which has just called, is not known", i)
		}
	}
	if known := len(g.partners.byID); known != maxKnownPartners {
		t.Errorf("%d partners are known", known)
	}
}

// A Retry-After that is not a number of seconds up to a day, or a date, is not passed on.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"0", "1", "86400", "Sun, 22 Nov 2026 16:00:30 GMT"} {
		if got := retryAfter(good); got != good {
			t.Errorf("%s becomes %q", good, got)
		}
	}
	for _, bad := range strings.Split("86401;-1;+1;1.5;1e3;99999999999999999999;soon;;tomorrow 01000000000;1, 2;0x10", ";") {
		if got := retryAfter(bad); got != "" {
			t.Errorf("%s is passed on", bad)
		}
	}
}
