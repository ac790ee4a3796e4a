package main

import (
	"testing"

	"billbridge/proxy/sandbox"
)

// A sandbox is shared if others than this machine reach it: then it calls no private address without the flag.
func TestSandboxOffLoopbackIsShared(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		listen, control string
		shared          bool
	}{
		{"127.0.0.1:8081", "localhost:8082", false},
		{"0.0.0.0:8081", "127.0.0.1:8082", true},
		{":8081", "[::1]:8082", true},
		{"[::1]:8081", "192.0.2.1:8082", true},
	} {
		c := sandboxCommand{Listen: row.listen, Control: row.control, Options: sandbox.Options{ControlToken: "a-token-0123456789"}}
		o, err := c.options(system{})
		must(t, err)
		if o.Shared != row.shared || o.PrivateCallbacks {
			t.Errorf("%s and %s: shared %t", row.listen, row.control, o.Shared)
		}
	}
}
