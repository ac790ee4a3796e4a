package admission

import (
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
)

func newTestPartnerLimits(t *testing.T) *partnerLimits {
	t.Helper()
	return &New(nil, slog.New(slog.DiscardHandler), 1).partnerLimits
}

func TestPartnerRate(t *testing.T) {
	t.Parallel()
	p, now := newTestPartnerLimits(t), time.Now()
	limit := config.PartnerLimit{Rate: 0.5, Burst: 3}
	for range 3 {
		calls, over := p.EnterPartner("a", nil, limit, now)
		if over != nil {
			t.Fatal(over)
		}
		p.LeavePartner(calls)
	}
	_, over := p.EnterPartner("a", nil, limit, now)
	if over == nil || *over != (Over{Rate: 0.5, After: 2 * time.Second}) {
		t.Fatalf("%+v", over)
	}
	if _, over := p.EnterPartner("a", nil, limit, now.Add(1900*time.Millisecond)); over == nil || over.After != 100*time.Millisecond {
		t.Errorf("%+v", over)
	}
	if _, over := p.EnterPartner("b", nil, limit, now); over != nil {
		t.Errorf("another partner: %+v", over)
	}
	if _, over := p.EnterPartner("a", nil, limit, now.Add(2*time.Second)); over != nil {
		t.Errorf("after Retry-After: %+v", over)
	}
	if _, over := p.EnterPartner("a", nil, config.PartnerLimit{Rate: 100, Burst: 100}, now.Add(2*time.Second)); over != nil {
		t.Errorf("after a reload: %+v", over)
	}
}

// A call that is refused because of the calls in progress takes nothing of the rate.
func TestPartnerCallsInProgress(t *testing.T) {
	t.Parallel()
	p, now := newTestPartnerLimits(t), time.Now()
	limit := config.PartnerLimit{InFlight: 2, Rate: 1, Burst: 4}
	first, _ := p.EnterPartner("a", nil, limit, now)
	if _, over := p.EnterPartner("a", nil, limit, now); over != nil {
		t.Fatal(over)
	}
	for range 10 {
		if _, over := p.EnterPartner("a", nil, limit, now); over == nil || *over != (Over{InFlight: 2, After: time.Second}) {
			t.Fatalf("%+v", over)
		}
	}
	p.LeavePartner(first)
	if _, over := p.EnterPartner("a", nil, limit, now); over != nil {
		t.Error(over)
	}
}

// Callers can invent keys. A partner is forgotten when its calls are over.
func TestR15_InventedKeysAreForgotten(t *testing.T) {
	t.Parallel()
	p, now := newTestPartnerLimits(t), time.Now()
	for i := range 30_000 {
		calls, over := p.EnterPartner(partner.ID(strconv.Itoa(i)), nil, config.PartnerLimit{InFlight: 64}, now)
		if over != nil {
			t.Fatal(over)
		}
		p.LeavePartner(calls)
	}
	if n := len(p.partners); n != 0 {
		t.Errorf("%d partners without a rate", n)
	}
	limit := config.PartnerLimit{Rate: 0.1, Burst: 1}
	most := 0
	for i := range 100_000 { // 1,000 a second: each is over after 10 s
		if calls, over := p.EnterPartner(partner.ID(strconv.Itoa(i)), nil, limit, now.Add(time.Duration(i)*time.Millisecond)); over == nil {
			p.LeavePartner(calls)
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
