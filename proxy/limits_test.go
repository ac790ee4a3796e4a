package proxy

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
)

func newTestPartnerLimits(t *testing.T) *partnerLimits {
	t.Helper()
	m := newMetrics(nil)
	return &partnerLimits{refused: m.limited, proved: new(provedKeys), partners: map[uint64]*partnerCalls{}}
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

func TestPartnerRate(t *testing.T) {
	t.Parallel()
	p, now := newTestPartnerLimits(t), time.Now()
	limit := config.PartnerLimit{Rate: 0.5, Burst: 3}
	for range 3 {
		calls, over := p.enter("a", nil, limit, now)
		if over != nil {
			t.Fatal(over.text)
		}
		p.leave(calls)
	}
	_, over := p.enter("a", nil, limit, now)
	if over == nil || over.after != "2" || over.text.in(config.English, billingTable) != "Nothing was sent: more than 0.5 calls per second. Send again later." {
		t.Fatalf("%+v", over)
	}
	if _, over := p.enter("a", nil, limit, now.Add(1900*time.Millisecond)); over == nil || over.after != "1" {
		t.Errorf("%+v", over)
	}
	if _, over := p.enter("b", nil, limit, now); over != nil {
		t.Errorf("another partner: %s", over.text)
	}
	if _, over := p.enter("a", nil, limit, now.Add(2*time.Second)); over != nil {
		t.Errorf("after Retry-After: %s", over.text)
	}
	if _, over := p.enter("a", nil, config.PartnerLimit{Rate: 100, Burst: 100}, now.Add(2*time.Second)); over != nil {
		t.Errorf("after a reload: %s", over.text)
	}
}

// A call that is refused because of the calls in progress takes nothing of the rate.
func TestPartnerCallsInProgress(t *testing.T) {
	t.Parallel()
	p, now := newTestPartnerLimits(t), time.Now()
	limit := config.PartnerLimit{InFlight: 2, Rate: 1, Burst: 4}
	first, _ := p.enter("a", nil, limit, now)
	if _, over := p.enter("a", nil, limit, now); over != nil {
		t.Fatal(over.text)
	}
	for range 10 {
		if _, over := p.enter("a", nil, limit, now); over == nil || over.after != "1" {
			t.Fatalf("%+v", over)
		}
	}
	p.leave(first)
	if _, over := p.enter("a", nil, limit, now); over != nil {
		t.Error(over.text)
	}
}

// Callers can invent keys. A partner is forgotten when its calls are over.
func TestR15_InventedKeysAreForgotten(t *testing.T) {
	t.Parallel()
	p, now := newTestPartnerLimits(t), time.Now()
	for i := range 30_000 {
		calls, over := p.enter(partner.ID(strconv.Itoa(i)), nil, config.PartnerLimit{InFlight: 64}, now)
		if over != nil {
			t.Fatal(over.text)
		}
		p.leave(calls)
	}
	if n := len(p.partners); n != 0 {
		t.Errorf("%d partners without a rate", n)
	}
	limit := config.PartnerLimit{Rate: 0.1, Burst: 1}
	most := 0
	for i := range 100_000 { // 1,000 a second: each is over after 10 s
		if calls, over := p.enter(partner.ID(strconv.Itoa(i)), nil, limit, now.Add(time.Duration(i)*time.Millisecond)); over == nil {
			p.leave(calls)
		}
		most = max(most, len(p.partners))
	}
	if most > 2*10_000+1024 {
		t.Errorf("up to %d partners with a rate", most)
	}
}

// A readConn is a connection whose request has been read.
type readConn struct {
	net.Conn
	asked int
}

func (c *readConn) RequestRead() bool { c.asked++; return true }

// Only a body of a known length in HTTP/1 can have arrived whole. For any other request the connection is not asked:
// net/http may be reading it in another goroutine.
func TestHasArrived(t *testing.T) {
	t.Parallel()
	c := new(readConn)
	for _, row := range []struct {
		version int
		length  int64
		want    bool
	}{{1, 5, true}, {1, 0, false}, {1, -1, false}, {2, 5, false}} {
		c.asked = 0
		r := (&http.Request{ProtoMajor: row.version, ContentLength: row.length}).WithContext(WithConn(t.Context(), c))
		if got := hasArrived(r); got != row.want || row.want != (c.asked > 0) {
			t.Errorf("HTTP/%d with length %d: %t, asked %d times", row.version, row.length, got, c.asked)
		}
	}
	if hasArrived(&http.Request{ProtoMajor: 1, ContentLength: 5}) {
		t.Error("a connection that cannot be asked has the body")
	}
}

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
