// Package proxytest has what the tests of several packages share.
//
// It is not for production.
package proxytest

import "os"

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
