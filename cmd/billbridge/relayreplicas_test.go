package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Two replicas on one PostgreSQL: while both run, each callback is delivered once. When one is killed, the other delivers
// its callbacks.
func TestR30_ReplicasUnderKill(t *testing.T) {
	t.Parallel()
	const atOnce = 20
	url := proxytest.Postgres(t)
	upstream, p, b := newCallbackUpstream(t, "legacy"), newPartner(t), newCluster(t)
	config := relayConfig(upstream, url, atOnce, "3s")
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
			must(t, <-acknowledged)
			progress(i + 1)
		}
	}

	quiet := billIDs("QUIET", 300)
	b.createBills(t, client, p, quiet)
	send(quiet, func(int) {})
	p.await(t, "all are delivered", func() bool { return len(p.accepted) == len(quiet) })
	awaitNoneWaiting(t, replicas[0], len(quiet))
	var sums [2]map[string]int
	for i, g := range replicas {
		sums[i] = callbackCounters(t, g)
	}
	// Only a timeout while the partner answers can cause a second delivery.
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

	// The first is killed after some callbacks were acknowledged and delivered, while some of its attempts are under way:
	// there are more attempts than the other replica can have.
	killed := billIDs("KILLED", 700)
	b.createBills(t, client, p, killed)
	in, out, held := 50+rand.IntN(300), 20+rand.IntN(200), 0
	p.setReaction(func(string, int) reaction {
		if len(p.attempts) <= out {
			return accept
		}
		return hang
	})
	send(killed, func(acknowledged int) {
		if acknowledged != in {
			return
		}
		p.await(t, "both have attempts under way", func() bool { held = p.underWay; return len(p.attempts) > out && p.underWay > atOnce })
		sums[0] = callbackCounters(t, replicas[0])
		b.kill(t, replicas[0])
		close(p.released)
	})
	p.await(t, "all that the killed one has not claimed are delivered", func() bool {
		return len(p.accepted) >= len(quiet)+len(killed)-atOnce && p.underWay == 0
	})
	// The other one stores a result after the partner has answered: until then its claim must not expire, too.
	proxytest.Eventually(t, func() bool { return countByState(t, url)[store.Waiting] <= atOnce },
		func() string { return "the results of the other replica are not stored" })
	expireClaims(t, "pgx", url)
	p.await(t, "all are delivered", func() bool { return len(p.accepted) == len(quiet)+len(killed) })
	awaitNoneWaiting(t, replicas[1], len(quiet)+len(killed))
	sums[1] = callbackCounters(t, replicas[1])
	terminate(t, b, replicas[1])
	timeouts = sums[0]["timeout"] + sums[1]["timeout"]
	all, again, missing = p.deliveries(killed)
	if missing > 0 || again > atOnce+timeouts {
		t.Errorf("with a kill: %d deliveries of %d callbacks, %d missing, %d repeated where the killed one had at most %d under way and %d timed out",
			all, len(killed), missing, again, atOnce, timeouts)
	}
	if _, more, _ := p.deliveries(quiet); more > timeouts {
		t.Errorf("%d of those that were over are delivered again", more)
	}
	if counts := countByState(t, url); counts[store.Delivered] != len(quiet)+len(killed) || len(counts) != 1 {
		t.Errorf("in the store are %v", counts)
	}
	t.Logf("one killed after %d of %d acknowledgements and %d deliveries, %d held by the partner: %d deliveries, %d repeated; "+
		"of all %d, delivered %d by the killed one + %d by the other; %d timeouts",
		in, len(killed), out, held, all, again, len(quiet)+len(killed), sums[0]["delivered"], sums[1]["delivered"], timeouts)
}

// callbackCounters returns the metrics of a gateway: accepted callbacks, and attempts by outcome.
func callbackCounters(t *testing.T, g *gateway) map[string]int {
	t.Helper()
	_, text := httpCall(t, http.MethodGet, "http://"+g.operator+"/metrics", "")
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

// awaitNoneWaiting waits until no callback is waiting: then all deliveries are recorded.
func awaitNoneWaiting(t *testing.T, g *gateway, n int) {
	t.Helper()
	waiting := ""
	proxytest.Eventually(t, func() bool {
		_, waiting = httpCall(t, http.MethodGet, "http://"+g.operator+"/callbacks?state=waiting&limit=1", "")
		return waiting == `{"callbacks":[]}` || t.Failed()
	}, func() string { return fmt.Sprintf("of %d callbacks some still wait: %s", n, waiting) })
	if t.Failed() {
		t.FailNow()
	}
}

// terminate ends a gateway with SIGTERM.
func terminate(t *testing.T, b *cluster, g *gateway) {
	t.Helper()
	b.remove(g)
	must(t, g.process.cmd.Process.Signal(syscall.SIGTERM))
	if code, err := g.process.end(); err != nil || code != exitOK {
		t.Errorf("exit code %d, %v:\n%s", code, err, g.process.all("stdout"))
	}
}

// countByState returns the number of callbacks by state. No gateway may have the store open.
func countByState(t *testing.T, url string) map[store.State]int {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	must(t, err)
	counts := map[store.State]int{}
	for _, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped, store.Superseded} {
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
