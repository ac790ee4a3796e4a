package operate_test

import (
	"cmp"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
)

// Somebody else changes the stage while a decision looks for reasons against it: it is decided again, from where the partner is
// now. A partner that was taken back is not moved on by reasons that were looked for before.
func TestStageThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, at string) {
		fifty := 50
		for _, row := range []struct {
			meanwhile string
			do        operate.Move
			want      string // the error, or the change
		}{
			{"", operate.Move{Do: operate.Next}, "canary 5 % to canary 10 %"},
			{"/rollout/stage?partner=<k>&stage=canary&percent=1&by=kim", operate.Move{Do: operate.Next, Stage: routing.StageCanary, Percent: new(10)}, "canary 1 % to canary 10 %"},
			{"/rollout/stage?partner=<k>&stage=canary&percent=10&by=kim", operate.Move{Do: operate.Next, Stage: routing.StageCanary, Percent: new(10)}, "the stage is canary 10 %, so the next one is"},
			{"/rollout/stage?partner=<k>&stage=old&by=kim", operate.Move{Stage: routing.StageCanary, Percent: &fifty}, "old to canary 50 %"},
			{"/rollout/stage?stage=default&partner=<k>&by=kim", operate.Move{Stage: routing.StageCanary, Percent: &fifty}, "old to canary 50 %"},
			{"/rollout/stage?stage=default&partner=<k>&by=kim", operate.Move{Stage: operate.Unset}, "no stage of its own"},
			// Meant for the stage before: a second request for the same step, and reasons against that step.
			{"/rollout/stage?partner=<k>&stage=canary&percent=10&by=kim", operate.Move{Do: operate.Next}, "others change the stage"},
			{"/rollout/stage?partner=<k>&stage=old&by=kim", forcedMove(&fifty), "others change the stage"},
			{"/rollout/stage?partner=default&stage=old&by=kim", operate.Move{Stage: routing.StageCanary, Percent: &fifty}, "canary 5 % to canary 50 %"},
			{"/rollout/stage?partner=<k>&stage=canary&percent=5&by=kim", operate.Move{Stage: routing.StageCanary, Percent: &fifty}, "canary 5 % to canary 50 %"},
		} {
			opened := proxytest.Open(t, at)
			other := newTestOperator(t, opened, separate)
			other.seen("k", 48*time.Hour)
			other.proves("k")
			other.change("/rollout/stage?partner=<k>&stage=canary&percent=5&by=anna")
			answers[operate.Report](other, "GET", "/rollout/report")
			var armed atomic.Bool
			c := parse(t, separate)
			var reads atomic.Int32
			config := func() *config.Config { // it is read for the partner, then for its name, after the stage
				if armed.Load() && reads.Add(1) == 2 {
					armed.Store(false)
					other.change(row.meanwhile)
				}
				return c
			}
			now := func() time.Time { return noon }
			router, err := routing.New(t.Context(), c, routing.Options{Store: opened, Now: now})
			must(t, err)
			o := operate.New(operate.Options{
				Config: config, Store: opened, Rollout: router, Now: now,
			})
			armed.Store(row.meanwhile != "")
			m := row.do
			m.Partner, m.By = hash("k"), "anna"
			change, err := o.Move(t.Context(), m)
			if armed.Load() {
				t.Errorf("%+v: nothing was changed meanwhile", row)
			}
			got := change.Old() + " to " + change.New()
			if refused := (*operate.Error)(nil); errors.As(err, &refused) {
				got = refused.Error()
			} else {
				must(t, err)
				log := answers[[]operate.Change](other, "GET", "/audit?limit=1")[0]
				equal(t, cmp.Or(log.Old(), change.Old())+" to "+log.New(), got, row.meanwhile)
			}
			if !strings.Contains(got, row.want) {
				t.Errorf("%s, %+v: %s, want %s", row.meanwhile, row.do, got, row.want)
			}
		}
	})
}

func forcedMove(percent *int) operate.Move {
	m := operate.Move{Stage: routing.StageCanary, Percent: percent}
	m.Force = operate.Force{moves.Unproven}
	return m
}
