package evidence

import (
	"fmt"
	"testing"
	"time"
)

// A client that is not certified is not forgotten because of another one, and the last ones are kept.
func TestLastClientsAreKept(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var n, more Count
	n.addClient("a", at.Add(time.Hour))
	more.addClient("a", at)
	for i := range mostClients {
		more.addClient(fmt.Sprint("c", i), at.Add(time.Duration(i)*time.Minute))
	}
	n.merge(more)
	if len(n.Clients) != mostClients || !n.Clients["a"].Equal(at.Add(time.Hour)) || !n.Clients["c0"].IsZero() || n.Clients["c1"].IsZero() {
		t.Error(n.Clients)
	}
}
