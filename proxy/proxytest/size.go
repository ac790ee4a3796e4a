// Package proxytest has what the tests of several packages share: databases of their own to open a store on, and how
// much a test does.
//
//	proxytest.Each(t, func(t *testing.T, url string) {
//		s, err := store.Open(t.Context(), url)
//		…
//	})
//
// It is not for production: its PostgreSQL trusts everybody and forgets everything.
package proxytest

import (
	"os"
	"testing"
)

// Size returns how much a test does: few in `go test ./...`, many with BILLBRIDGE_LONG=1, which .ci/long sets. Both must
// prove the same promise; many only finds rarer orders of events.
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
