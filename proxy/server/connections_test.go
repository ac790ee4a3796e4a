package server

import (
	"net"
	"testing"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
)

// Beyond limits.Connections, a new connection takes the place of a slow transfer. A source that has too many connections is
// refused and takes nobody's place.
func TestR15_SourceOverItsLimitCutsNobody(t *testing.T) {
	t.Parallel()
	limits := config.Limits{Connections: 8, AddressConnections: 8}
	c := newConnections(func() *config.Limits { return &limits }, prometheus.NewRegistry())
	cut := 0
	c.cut = func() bool { cut++; return true }
	admitted := func(from string) bool {
		_, ok := c.admit(&net.TCPAddr{IP: net.ParseIP(from), Port: 1})
		return ok
	}
	for range 8 {
		if !admitted("192.0.2.1") {
			t.Fatal("a connection within the limits is refused")
		}
	}
	for range 3 {
		if admitted("192.0.2.1") || cut > 0 {
			t.Fatalf("a source over its limit is admitted, or %d transfers were cut for it", cut)
		}
	}
	if !admitted("192.0.2.2") || cut != 1 {
		t.Errorf("another source has no connection, or %d transfers were cut for it", cut)
	}
	if admitted("192.0.2.2") || cut != 1 { // an eighth more is the most
		t.Errorf("a connection over all limits is admitted, or %d transfers were cut", cut)
	}
}
