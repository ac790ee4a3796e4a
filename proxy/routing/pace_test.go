package routing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Work that takes long is done less often: at most a part of the time.
func TestLongWorkIsDoneLessOften(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{0: 100, 500 * time.Millisecond: 100, 2 * time.Second: 34, 10 * time.Second: 8} {
		synctest.Test(t, func(t *testing.T) {
			done, failed := 0, errors.New("failed")
			work := atMost(0.05, func(context.Context) error {
				done++
				time.Sleep(took)
				return failed
			})
			for begin := time.Now(); time.Since(begin) < 100*15*time.Second; {
				before, slot := done, time.Now()
				if err := work(t.Context()); (err != nil) != (done > before) {
					t.Errorf("%v, and it was done %d times", err, done-before)
				}
				time.Sleep(15*time.Second - time.Since(slot))
			}
			if done != want {
				t.Errorf("work of %s was done %d times, want %d", took, done, want)
			}
		})
	}
}
