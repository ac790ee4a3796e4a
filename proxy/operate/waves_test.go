package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A testWave is an operator with a wave.
type testWave struct {
	*testOperator
	runs *operate.Waves
	open string // the upstream whose breaker is open
}

const waveOf = "/rollout/waves?by=anna&name=autumn&stay=1h"

// newWave starts a wave of partners whose verdicts are PASS.
func newWave(t *testing.T, s *store.Store, more string, keys ...string) *testWave {
	t.Helper()
	return startWave(&testWave{testOperator: newTestOperator(t, s, separate)}, more, keys...)
}

func startWave(w *testWave, more string, keys ...string) *testWave {
	t := w.t
	t.Helper()
	w.Operator.Opened = func(upstream string) bool { return upstream == w.open }
	w.runs = operate.NewWaves(w.Operator)
	if !strings.Contains(more, "each") {
		more += "&each=60/h"
	}
	if !strings.Contains(more, "steps") {
		more += "&steps=canary:10,canary:50,new"
	}
	ids := ""
	for _, key := range keys {
		if w.seen(key, time.Hour); key != "young" {
			w.proves(key)
		}
		ids += "," + hash(key)
	}
	if info := answers[operate.WaveInfo](w.testOperator, "POST", waveOf+more+"&partners="+ids[1:]); info.Number != len(keys) {
		t.Fatalf("%+v", info)
	}
	return w
}

// after lets time pass and makes the steps of that moment.
func (w *testWave) after(d time.Duration) {
	w.t.Helper()
	w.later.Add(int64(d))
	must(w.t, w.runs.Step(w.t.Context()))
}

// stages expects the stages of partners, in the order of their keys.
func (w *testWave) stages(want string, keys ...string) {
	w.t.Helper()
	var got []string
	for _, key := range keys {
		got = append(got, answers[operate.Status](w.testOperator, "GET", "/rollout?partner="+hash(key)).Partners[0].String())
	}
	equal(w.t, strings.Join(got, ", "), want, "the stages")
}

// fails gives a partner a verdict FAIL that is not about an exact field.
func (w *testWave) fails(key string) {
	for i := range 100 {
		w.Router.Counts().Add(partner.Of(key), "bill.create", evidence.Comparison{
			Class: evidence.Differs, Bill: fmt.Sprint("f", i), Succeeded: [2]bool{true, true}, ReadBack: true, States: true,
			Differences: []evidence.Difference{{Path: "memo", Kind: evidence.InOther}},
		})
	}
}

// A person pauses the wave, or stops it, or sends it back, between what a gateway has read of it and its decision.
func TestWaveMakesNoStepAfterAPersonsDecision(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"pause", "stop", "rollback"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			w := newWave(t, proxytest.Open(t, "memory:"), "&each=60/m", "k", "l")
			w.after(0)
			w.later.Add(int64(time.Minute))
			now, decided := w.Operator.Now, false
			w.Operator.Now = func() time.Time {
				if !decided {
					decided = true
					answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/"+verb+"?by=bob")
				}
				return now()
			}
			must(t, w.runs.Step(t.Context()))
			w.stages("canary 10 %, old", "k", "l")
		})
	}
}

// Each of two gateways looks at a wave before the other one decides: each step is made once, at the pace, and none after
// a person's pause.
func TestTwoGatewaysMakeEachStepOnce(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		one := newWave(t, proxytest.Open(t, url), "&each=60/m", "k", "l", "m")
		two := newTestOperator(t, one.store, separate)
		runs := [2]*operate.Waves{one.runs, operate.NewWaves(two.Operator)}
		// meanwhile does something when the first gateway has looked at the wave and not decided yet.
		meanwhile := func(do func()) {
			t.Helper()
			one.later.Add(int64(time.Second))
			two.later.Store(one.later.Load())
			looked := false
			one.Operator.Opened = func(string) bool {
				if !looked {
					looked = true
					do()
				}
				return false
			}
			must(t, runs[0].Step(t.Context()))
			one.Operator.Opened = func(string) bool { return false }
		}
		two.Operator.Opened = func(string) bool { return false }
		steps := func() string {
			all := map[string]int{}
			for _, c := range answers[[]operate.Change](one.testOperator, "GET", "/audit?author=wave+autumn&limit=100") {
				if c.Action == string(store.Staged) {
					all[c.Partner]++
				}
			}
			return fmt.Sprint(all[hash("k")[:12]], all[hash("l")[:12]], all[hash("m")[:12]])
		}
		meanwhile(func() { must(t, runs[1].Step(t.Context())) })
		equal(t, steps(), "1 0 0", "both made the first step at once")
		meanwhile(func() { must(t, runs[1].Step(t.Context())) })
		equal(t, steps(), "1 1 0", "both made the second step at once")
		one.fails("l")
		must(t, one.Router.Counts().Flush(t.Context()))
		meanwhile(func() { must(t, runs[1].Step(t.Context())) })
		one.stages("canary 10 %, old, old", "k", "l", "m")
		equal(t, steps(), "1 2 0", "both took the partner back at once")
		one.change("/rollout/reset?by=anna&force=verdict&partner=" + hash("l"))
		answers[operate.WaveInfo](one.testOperator, "POST", "/rollout/waves/autumn/resume?by=bob")
		meanwhile(func() { answers[operate.WaveInfo](two, "POST", "/rollout/waves/autumn/pause?by=bob") })
		equal(t, steps(), "1 2 0", "a step was made after a pause")
		answers[operate.WaveInfo](two, "POST", "/rollout/waves/autumn/resume?by=bob")
		meanwhile(func() {})
		equal(t, steps(), "1 2 1", "the gateway makes no step any more")
	})
}

// A wave resumed between what a gateway has read of it and its decision to pause it is not paused for the old reason.
func TestWaveIsNotPausedAfterItWasResumed(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k")
	w.open = "fresh"
	opened := w.Operator.Opened
	w.Operator.Opened = func(upstream string) bool {
		open := opened(upstream)
		if open && w.open != "" {
			w.open = ""
			for _, verb := range []string{"pause", "resume"} {
				answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/"+verb+"?by=bob")
			}
		}
		return open
	}
	w.after(time.Minute)
	equal(t, answers[operate.WaveInfo](w.testOperator, "GET", "/rollout/waves/autumn").State, store.WaveRunning)
	w.open = ""
	w.after(time.Minute)
	w.stages("canary 10 %", "k")
}

// After the bills have become separate, a wave that was created with shared bills moves no partner to shadow, neither
// forward nor back to where it was: the next start would be refused.
func TestWaveHasNoShadowWithSeparateBills(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("back ", back), func(t *testing.T) {
			t.Parallel()
			s := proxytest.Open(t, "memory:")
			w := &testWave{testOperator: newTestOperator(t, s, shared)}
			if back {
				w.change("/rollout/stage?by=anna&force=<all>&stage=shadow&partner=<k>")
			}
			startWave(w, "&steps=shadow,canary:10", "k")
			if back {
				revision, err := s.Revision(t.Context())
				must(t, err)
				_, err = s.StepWave(t.Context(), store.WaveStep{
					Wave: "autumn", Revision: revision, Forward: true, Stepped: w.Now(),
					Stage: store.Stage{Partner: partner.Of("k"), Stage: "canary", Percent: 10, By: "wave autumn", At: w.Now()},
				})
				must(t, err)
			}
			apart := &testWave{testOperator: newTestOperator(t, s, separate)}
			apart.later.Store(w.later.Load())
			apart.Operator.Opened = func(string) bool { return false }
			apart.runs = operate.NewWaves(apart.Operator)
			apart.proves("k")
			want := "canary 10 %"
			if back {
				want = "old"
				answers[operate.WaveInfo](apart.testOperator, "POST", "/rollout/waves/autumn/rollback?by=anna")
			}
			apart.after(2 * time.Hour)
			apart.after(0)
			apart.stages(want, "k")
			equal(t, len(answers[[]operate.WaveInfo](apart.testOperator, "GET", "/rollout/waves?active=true")), 0, "waves at work")
		})
	}
}

// A wave whose plan cannot be read stops no other wave.
func TestWaveThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "&each=60/m", "k")
	must(t, w.store.CreateWave(t.Context(), store.Wave{
		Name: "aaa", Plan: "{", State: store.WaveRunning, By: "anna", Since: w.Now(), Created: w.Now(),
	}, []store.WavePartner{{Partner: partner.Of("l")}}))
	for range 2 {
		w.later.Add(int64(time.Minute))
		fails(t, "wave aaa: ")(0, w.runs.Step(t.Context()))
	}
	w.stages("canary 10 %", "k")
	all := answers[[]operate.WaveInfo](w.testOperator, "GET", "/rollout/waves?active=true")
	if len(all) != 2 || all[0].Number+all[1].Number != 2 {
		t.Errorf("%+v", all)
	}
	for _, info := range append(all, answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/aaa/pause?by=anna")) {
		if info.Name == "aaa" && (info.Done != 0 || !strings.Contains(info.Why.String(), "unexpected end of JSON input")) {
			t.Errorf("%+v", info)
		}
	}
	equal(t, answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/aaa/stop?by=anna").State, store.WaveEnded)
}

// A partner with a FAIL that the wave has not moved yet waits for a person: in the list of waves, and in a page with
// other partners.
func TestWaveCountsPartnersWithAFailAsWaiting(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "&each=60/m", "k", "l")
	w.fails("l")
	must(t, w.Router.SetGauges(t.Context()))
	equal(t, answers[[]operate.WaveInfo](w.testOperator, "GET", "/rollout/waves")[0].Waits, 1, "in the list")
	for _, limit := range []string{"1", "2"} {
		page := answers[operate.WaveInfo](w.testOperator, "GET", "/rollout/waves/autumn?limit="+limit)
		equal(t, page.Waits, 1, "in a page of", limit, page.Partners)
	}
}
