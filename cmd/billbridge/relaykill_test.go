package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// attemptsAtOnce are lines for other processes, by the most attempts at the same time: see [proxytest.Tuned].
var attemptsAtOnce = map[int]string{20: mostAttempts(20), 50: mostAttempts(50), 1000: mostAttempts(1000)}

func mostAttempts(most int) string {
	return proxytest.Tuned(func(c *config.Config) { c.Callbacks.AtOnce, c.Callbacks.PerHost = most, most })
}

// relayConfig returns a config that relays callbacks from one upstream to partners on this machine.
func relayConfig(u *callbackUpstream, storeURL string, atOnce int, timeout string) string {
	return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {backend: {form: %s, url: %s, connections: 64}}
store: {url: %q}
callbacks:
  public_url: %s
  allow: [127.0.0.0/8]
  ports: []
  timeout: %s
  schedule: [0s%s]
%s`, u.form, u.url, storeURL, clusterURL, timeout, strings.Repeat(", 500ms", 99), attemptsAtOnce[atOnce]) // so many that no callback becomes dead
}

// expireClaims makes the claims of a killed gateway expire now. In the long form they expire by themselves, after up to 20 seconds.
func expireClaims(t *testing.T, driver, url string) {
	t.Helper()
	if proxytest.Long() {
		return
	}
	db, err := sql.Open(driver, url)
	if err == nil {
		_, err = db.ExecContext(t.Context(), "UPDATE billbridge_callbacks SET due = due - 60000 WHERE state = 'waiting' AND lease <> ''")
		err = errors.Join(err, db.Close())
	}
	must(t, err)
}

// A gateway is killed with kill -9 many times: while callbacks arrive, while a thousand are under way, and during their
// delivery. Every acknowledged callback is delivered at least once, under one id.
func TestR30_CallbacksUnderKill(t *testing.T) {
	t.Parallel()
	const (
		few        = 20 // concurrent attempts; a kill interrupts at most these
		whileTaken = 50
		comingIn   = 4 // the number of kills while callbacks arrive
	)
	bills, random := billIDs("KILL", 1000), proxytest.Random(t)
	upstream, p, b := newCallbackUpstream(t, "v2"), newPartner(t), newCluster(t)
	file := filepath.Join(b.folder, "bridge.db")
	config := func(atOnce int, timeout string) string {
		return relayConfig(upstream, "sqlite:bridge.db", atOnce, timeout)
	}
	client := b.client(t)

	// The partner accepts nothing yet: it refuses a few attempts, and the others hang.
	untaken := func(bill string, _ int) reaction {
		if bill[len(bill)-1] == '0' {
			return refuse
		}
		return hang
	}
	p.setReaction(untaken)
	g := b.start(t, config(few, "2s"))
	b.createBills(t, client, p, bills)

	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	acknowledged := make(chan error, len(bills))
	for _, bill := range bills {
		go func() {
			acknowledged <- upstream.notify(ctx, client, bill)
		}()
	}
	left, kills := len(bills), 0
	await := func(n int) {
		t.Helper()
		for ; n > 0; n, left = n-1, left-1 {
			must(t, <-acknowledged)
		}
	}
	for ; kills < comingIn; kills++ {
		await(20 + random(180))
		b.kill(t, g)
		expireClaims(t, "sqlite", file)
		if kills < comingIn-1 {
			g = b.start(t, config(few, "2s"))
		}
	}

	// All callbacks are stored and none is delivered. The next gateway attempts all that a killed one has not claimed,
	// and is killed too.
	p.setReaction(untaken)
	g = b.start(t, config(len(bills), "5s")) // long enough to start all attempts
	await(left)
	p.await(t, "every callback that is not claimed is attempted", func() bool { return len(p.attempts) >= len(bills)-comingIn*few })
	b.kill(t, g)
	expireClaims(t, "sqlite", file)
	kills++
	if all, _ := p.deliveries(bills); all != 0 {
		t.Fatalf("%d deliveries to a partner that accepts none", all)
	}

	// The partner accepts callbacks now, some at the second attempt. The last gateway delivers the rest.
	p.setReaction(func(bill string, attempt int) reaction {
		if bill[len(bill)-1] == '5' && attempt == 1 {
			return refuse
		}
		return accept
	})
	g = b.start(t, config(whileTaken, "2s"))
	some := 100 + random(500)
	p.await(t, "the first deliveries", func() bool { return len(p.accepted) >= some })
	b.kill(t, g)
	expireClaims(t, "sqlite", file)
	kills++
	restart := time.Now()
	g = b.start(t, config(whileTaken, "30s"))
	p.await(t, "a callback of every bill is delivered", func() bool { return len(p.accepted) == len(bills) })
	awaitNoneWaiting(t, g, len(bills))
	took := time.Since(restart)
	// The list has several pages, and each callback once. All are delivered.
	code, list, errs := runCommand(t, false, "callbacks", "list", "--limit", "0", "--admin", "http://"+g.operator)
	ids := regexp.MustCompile(`cb_[0-9a-f]{32}`).FindAllString(list, -1)
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); code != exitOK || len(ids) != len(bills) || n != len(bills) || strings.Count(list, "  delivered  ") != n {
		t.Errorf("exit code %d, %d callbacks listed, %d of them different, want %d: %s", code, len(ids), n, len(bills), errs)
	}
	terminate(t, b, g)

	all, missing := p.deliveries(bills)
	if missing > 0 {
		t.Errorf("%d of %d acknowledged callbacks were never delivered", missing, len(bills))
	}
	t.Logf("%d callbacks over %d kills: %d deliveries; the last restart finished all within %s", len(bills), kills, all, took.Round(100*time.Millisecond))
}
