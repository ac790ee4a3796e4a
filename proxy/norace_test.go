//go:build !race

package proxy_test

// raceDetector reports whether the race detector is on.
const raceDetector = false
