package operate_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"billbridge/proxy/store"
)

// While one call counts bills, the next one waits for its turn or until its context ends.
func TestBillsAreCountedByOneCallAtATime(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.owns("k", "legacy", 1, 0, 0)
	release, err := d.Operator.BeginScan(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if bills, err := d.Operator.OpenBills(ctx, store.AllPartners); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another call counts: %+v, %v", bills, err)
	}
	release()
	if bills, err := d.Operator.OpenBills(t.Context(), store.AllPartners); err != nil || len(bills) != 1 {
		t.Errorf("%+v, %v", bills, err)
	}
}

// A change reaches another replica within seconds.
func TestChangeTakesEffectAtOtherReplicas(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, at string) {
		here, there := newTestOperator(t, proxytest.Open(t, at), separate), newTestOperator(t, proxytest.Open(t, at), separate)
		here.seen("k", time.Hour)
		here.proves("k")
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); there.Run(ctx) }()
		defer func() { stop(); <-over }()
		reaches := func(target, upstream string) {
			t.Helper()
			here.change(target)
			here.createsAt("k", upstream, map[string]string{"fresh": "legacy"}[upstream])
			proxytest.Eventually(t, func() bool {
				route, _ := there.creates("k")
				return route.Upstream == upstream
			}, func() string { return target + " has not reached the other replica" })
		}
		reaches("/rollout/stage?by=a&stage=new&partner=<k:12>", "fresh")
		reaches("/rollout/stop?by=a", "legacy")
		reaches("/rollout/resume?by=a", "fresh")
		reaches("/rollout/stage?by=a&stage=canary&percent=0&partner="+url.QueryEscape(hash("k")), "legacy")
	})
}

// A change survives a restart.
func TestChangeSurvivesARestart(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	s := proxytest.Open(t, at)
	d := newTestOperator(t, s, separate)
	d.seen("k", time.Hour)
	d.proves("k")
	for _, target := range []string{"stage?stage=new&partner=<k:12>", "stage?stage=new&force=<all>&partner=<young>", "stage?stage=old&partner=default", "restored", "stop?force=<all>"} {
		if path, query, cut := strings.Cut(target, "?"); cut {
			target = path + "?by=a&" + query
		} else {
			target += "?by=a"
		}
		d.change("/rollout/" + target)
	}
	was := d.ask("GET", "/rollout").Body.String() + d.ask("GET", "/audit").Body.String()
	must(t, s.Close())
	d = newTestOperator(t, proxytest.Open(t, at), separate)
	equal(t, d.ask("GET", "/rollout").Body.String()+d.ask("GET", "/audit").Body.String(), was)
	d.later.Add(int64(15 * time.Minute))
	if route, _ := d.creates("k"); route.Upstream != "legacy" || route.Reason != "stop" {
		t.Errorf("%+v", route)
	}
	d.change("/rollout/resume?by=a")
	d.createsAt("k", "fresh", "legacy")
	d.createsAt("young", "fresh", "legacy")
}
