package config_test

import (
	"testing"
	"time"

	"billbridge/config"
)

// A duration has no zeros at its end.
func TestDurationIsWrittenShort(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "500ms": 500 * time.Millisecond, "10s": 10 * time.Second, "1.5s": 1500 * time.Millisecond, "1m": time.Minute,
		"10m": 10 * time.Minute, "1m10s": 70 * time.Second, "1h": time.Hour, "20h": 20 * time.Hour, "1h10m": 70 * time.Minute, "1h0m1s": time.Hour + time.Second,
	} {
		equal(t, config.Duration(d).String(), want)
		equal(t, config.DurationOrZero(d).String(), want)
	}
}
