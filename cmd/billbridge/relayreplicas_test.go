package main

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// awaitNoneWaiting waits until no callback is waiting: then all deliveries are recorded.
func awaitNoneWaiting(t *testing.T, g *gateway, n int) {
	t.Helper()
	waiting := ""
	proxytest.Eventually(t, func() bool {
		_, waiting = httpCall(t, http.MethodGet, "http://"+g.operator+"/callbacks?state=waiting&limit=1", "")
		return waiting == `{"callbacks":[]}` || t.Failed()
	}, func() string { return fmt.Sprintf("of %d callbacks some still wait: %s", n, waiting) })
	if t.Failed() {
		t.FailNow()
	}
}

// terminate ends a gateway with SIGTERM.
func terminate(t *testing.T, b *cluster, g *gateway) {
	t.Helper()
	b.remove(g)
	must(t, g.process.cmd.Process.Signal(syscall.SIGTERM))
	g.process.ends(t)
}

// countByState returns the number of callbacks by state. No gateway may have the store open.
func countByState(t *testing.T, url string) map[store.State]int {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	must(t, err)
	counts := map[store.State]int{}
	for _, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped, store.Superseded} {
		n, counting := s.Count(t.Context(), store.Filter{State: state})
		if err = errors.Join(err, counting); n > 0 {
			counts[state] = n
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return counts
}
