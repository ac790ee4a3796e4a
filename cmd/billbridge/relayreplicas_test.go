package main

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"billbridge/proxy/proxytest"
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
