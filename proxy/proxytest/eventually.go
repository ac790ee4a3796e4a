package proxytest

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen. It is long, since the machine may be busy.
const Patience = 2 * time.Minute

// Eventually waits until is returns true, and fails the test after Patience, with otherwise() if there is one. It
// checks often at first, and then less often, so that tests that wait leave the processor to the others.
func Eventually(t testing.TB, is func() bool, otherwise func() string) {
	t.Helper()
	late := time.Now().Add(Patience)
	for pause := time.Millisecond; !is(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(late) {
			if otherwise == nil {
				t.Fatalf("not within %s", Patience)
			}
			t.Fatalf("not within %s: %s", Patience, otherwise())
		}
		<-time.After(pause)
	}
}
