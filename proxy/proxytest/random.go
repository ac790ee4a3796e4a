package proxytest

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "the seed of random tests; 0 for another one in each test")

// Random returns a source of random numbers from 0 to below n, which goroutines can share. The test prints its seed,
// which -seed repeats.
func Random(t testing.TB) func(n int) int {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("random numbers of -seed %d", seed)
	numbers := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	return func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return numbers.IntN(n)
	}
}
