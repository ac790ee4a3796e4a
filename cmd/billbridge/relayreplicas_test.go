package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/store"
	"billbridge/proxy/store/storetest"
)

// R30 with two replicas on one PostgreSQL. While both live, each callback is delivered once, whichever of them took it
// in. When one is killed, and does not come back, the other delivers what that one had.
func TestR30_ReplicasUnderKill(t *testing.T) {
	t.Parallel()
	const atOnce = 20
	url := storetest.Postgres(t)
	upstream, p, b := newBiller(t, "legacy"), newPartner(t), newBridge(t)
	config := relaying(upstream, url, atOnce, "3s")
	client := b.client(t)
	replicas := []*gateway{b.start(t, config), b.start(t, config)}
	send := func(bills []string, progress func(acknowledged int)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		acknowledged := make(chan error, len(bills))
		for _, bill := range bills {
			go func() {
				_, err := upstream.notify(ctx, client, bill)
				acknowledged <- err
			}()
		}
		for i := range bills {
			if err := <-acknowledged; err != nil {
				t.Fatal(err)
			}
			progress(i + 1)
		}
	}

	quiet := billIDs("QUIET", 300)
	b.issue(t, client, p, quiet)
	send(quiet, func(int) {})
	p.await(t, "all are delivered", func() bool { return len(p.taken) == len(quiet) })
	settled(t, replicas[0], len(quiet))
	var sums [2]map[string]int
	for i, g := range replicas {
		sums[i] = tallies(t, g)
	}
	// Only an attempt that timed out while the partner answered could explain a second one.
	all, again, missing := p.deliveries(quiet)
	timeouts := sums[0]["timeout"] + sums[1]["timeout"]
	if missing > 0 || again > timeouts {
		t.Errorf("without a kill: %d deliveries of %d callbacks, %d repeated, %d missing, %d timeouts", all, len(quiet), again, missing, timeouts)
	}
	for i, sum := range sums {
		if sum["accepted"] == 0 || sum["delivered"] == 0 {
			t.Errorf("replica %d of two has no part in it: %v", i+1, sum)
		}
	}
	t.Logf("without a kill: %d callbacks, %d deliveries, %d repeated; accepted %d + %d, delivered %d + %d", len(quiet), all, again,
		sums[0]["accepted"], sums[1]["accepted"], sums[0]["delivered"], sums[1]["delivered"])

	// The first is killed when some came in, some were delivered, and some of its own are under way: more are than the
	// other can have.
	killed := billIDs("KILLED", 700)
	b.issue(t, client, p, killed)
	in, out, held := 50+rand.IntN(300), 20+rand.IntN(200), 0
	p.reacts(func(string, int) reaction {
		if len(p.attempts) <= out {
			return takes
		}
		return holds
	})
	send(killed, func(acknowledged int) {
		if acknowledged != in {
			return
		}
		p.await(t, "both have attempts under way", func() bool { held = p.now; return len(p.attempts) > out && p.now > atOnce })
		sums[0] = tallies(t, replicas[0])
		b.kill(t, replicas[0])
		close(p.released)
	})
	p.await(t, "all are delivered", func() bool { return len(p.taken) == len(quiet)+len(killed) })
	settled(t, replicas[1], len(quiet)+len(killed))
	sums[1] = tallies(t, replicas[1])
	terminated(t, b, replicas[1])
	timeouts = sums[0]["timeout"] + sums[1]["timeout"]
	all, again, missing = p.deliveries(killed)
	if missing > 0 || again > atOnce+timeouts {
		t.Errorf("with a kill: %d deliveries of %d callbacks, %d missing, %d repeated where the killed one had at most %d under way and %d timed out",
			all, len(killed), missing, again, atOnce, timeouts)
	}
	if _, more, _ := p.deliveries(quiet); more > timeouts {
		t.Errorf("%d of those that were over are delivered again", more)
	}
	if counts := counted(t, url); counts[store.Delivered] != len(quiet)+len(killed) || len(counts) != 1 {
		t.Errorf("in the store are %v", counts)
	}
	t.Logf("one killed after %d of %d acknowledgements and %d deliveries, %d held by the partner: %d deliveries, %d repeated; "+
		"of all %d, delivered %d by the killed one + %d by the other; %d timeouts",
		in, len(killed), out, held, all, again, len(quiet)+len(killed), sums[0]["delivered"], sums[1]["delivered"], timeouts)
}

// tallies are counters of one gateway: accepted, and outcomes of attempts.
func tallies(t *testing.T, g *gateway) map[string]int {
	t.Helper()
	_, text := exchanged(t, http.MethodGet, "http://"+g.operator+"/metrics", "")
	all := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^billbridge_callbacks_(accepted|attempts)_total\{(?:outcome="(\w+)",)?upstream="backend"\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		name := found[1]
		if found[2] != "" {
			name = found[2]
		}
		all[name], _ = strconv.Atoi(found[3])
	}
	return all
}

// settled goes on when a gateway shows nothing that waits: what the partner took has been written down, too.
func settled(t *testing.T, g *gateway, n int) {
	t.Helper()
	for late := time.Now().Add(patience); ; {
		_, waiting := exchanged(t, http.MethodGet, "http://"+g.operator+"/callbacks?state=waiting&limit=1", "")
		if waiting == "[]" {
			return
		}
		if t.Failed() || time.Now().After(late) {
			t.Fatalf("of %d callbacks some still wait: %s", n, waiting)
		}
	}
}

// terminated ends a gateway by SIGTERM.
func terminated(t *testing.T, b *bridge, g *gateway) {
	t.Helper()
	b.leaves(g)
	if err := g.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := g.process.end(); err != nil || code != exitOK {
		t.Errorf("exit code %d, %v:\n%s", code, err, g.process.all("stdout"))
	}
}

// counted is how many callbacks a store has of each state, in which no gateway has it open.
func counted(t *testing.T, url string) map[store.State]int {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[store.State]int{}
	for _, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped} {
		n, counting := s.Count(t.Context(), store.Filter{State: state})
		if err = errors.Join(err, counting); n > 0 {
			counts[state] = n
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return counts
}
