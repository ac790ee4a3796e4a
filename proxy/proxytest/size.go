// Package proxytest has what the tests of several packages share: databases of their own to open a store on, configs,
// logs, certificates, servers that tests break, and how much a test does.
//
//	proxytest.Each(t, func(t *testing.T, url string) {
//		s := proxytest.Open(t, url)
//		…
//	})
//
// It is not for production: its PostgreSQL trusts everybody and forgets everything.
package proxytest

import (
	"iter"
	"math/rand/v2"
	"os"
	"testing"
)

// Size returns how much a test does: few in `go test ./...`, many with BILLBRIDGE_LONG=1, which .ci/long sets. Both
// must prove the same promise; many only finds rarer orders of events.
func Size(few, many int) int {
	if Long() {
		return many
	}
	return few
}

// Long reports whether tests do what takes minutes, too: BILLBRIDGE_LONG=1.
func Long() bool { return os.Getenv("BILLBRIDGE_LONG") == "1" }

// OnlyLong skips the test unless BILLBRIDGE_LONG=1.
func OnlyLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("only in the long form, with BILLBRIDGE_LONG=1: it takes long, and what it finds is rare")
	}
}

// Places returns the numbers from 0 to below n at which a test tries the same, such as the bytes at which a request is
// cut. In the long form it returns all of them; otherwise the first, the last, and every fifth from a random one, so
// that each run tries others.
func Places(n int) iter.Seq[int] {
	step := Size(5, 1)
	from := rand.IntN(step)
	return func(yield func(int) bool) {
		for i := range n {
			if (i%step == from || i == 0 || i == n-1) && !yield(i) {
				return
			}
		}
	}
}
