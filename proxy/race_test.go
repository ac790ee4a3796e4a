//go:build race

package proxy_test

// raceDetector reports whether the race detector is on, which makes the tests many times slower.
const raceDetector = true
