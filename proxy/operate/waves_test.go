package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
	"billbridge/translate"
)

// A testWave is an operator with a wave.
type testWave struct {
	*testOperator
	runs *operate.Waves
	open string // the upstream whose breaker is open
}

const waveOf = "/rollout/waves?by=anna&name=autumn&steps=canary:10,canary:50,new&stay=1h"

// newWave starts a wave of partners whose verdicts are PASS.
func newWave(t *testing.T, s *store.Store, more string, keys ...string) *testWave {
	t.Helper()
	return startWave(&testWave{testOperator: newTestOperator(t, s, separate)}, more, keys...)
}

func startWave(w *testWave, more string, keys ...string) *testWave {
	t := w.t
	t.Helper()
	w.Operator.Opened = func(upstream string) bool { return upstream == w.open }
	w.runs = operate.NewWaves(w.Operator, "one")
	if !strings.Contains(more, "each") {
		more += "&each=60/h"
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

func (w *testWave) info() operate.WaveInfo {
	w.t.Helper()
	return answers[operate.WaveInfo](w.testOperator, "GET", "/rollout/waves/autumn")
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

// hours counts more calls of a partner in this hour: at the old backend 100, of which 1 failed and each took a second,
// and so many at the new one, of which some failed and each took so many milliseconds.
func (w *testWave) hours(key string, calls, failed, ms int) {
	var all []store.Hour
	for backend, n := range [][3]int{{100, 1, 1000}, {calls, failed, ms}} {
		h := store.Hour{Partner: partner.Of(key), At: w.Now().Truncate(time.Hour), Backend: backend}
		for i := range n[0] {
			h.Observe(i < n[1], time.Duration(n[2])*time.Millisecond)
		}
		all = append(all, h)
	}
	works(w.t)(w.store.AddHours(w.t.Context(), all))
}

// The history counts steps by minutes, later by hours and by days, and tells steps back from those forward.
func TestHistoryOfAWave(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		w := newWave(t, proxytest.Open(t, url), "&each=60/m", "k", "l")
		history := func() string {
			steps := w.info().History
			text := fmt.Sprint(len(steps), " × ", steps[1].At.Sub(steps[0].At), ":")
			for i, one := range steps {
				if one.Forward+one.Back > 0 {
					text += fmt.Sprintf(" %d +%d -%d", i, one.Forward, one.Back)
				}
			}
			return text
		}
		w.after(0)
		w.after(time.Minute)
		w.change("/rollout/stage?by=bob&partner=" + hash("m") + "&stage=old") // no step of the wave
		w.after(time.Minute)
		equal(t, history(), "60 × 1m0s: 57 +1 -0 58 +1 -0")
		w.after(time.Hour)
		w.fails("l")
		w.after(time.Second)
		w.after(time.Hour)
		equal(t, history(), "60 × 1h0m0s: 57 +2 -0 58 +1 -1 59 +1 -0")
		w.later.Add(int64(72 * time.Hour))
		equal(t, history(), "60 × 24h0m0s: 56 +4 -1")
	})
}

// One gateway makes the steps. Another one takes over when it has ended, and the first one then makes none.
func TestOneGatewayMakesTheSteps(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		ctx := t.Context()
		w := newWave(t, proxytest.Open(t, url), "&each=60/m", "k", "l")
		other := operate.NewWaves(w.Operator, "two")
		w.after(0)
		must(t, other.Step(ctx))
		other.Waited(3 * time.Second)
		must(t, other.Step(ctx))
		must(t, w.runs.Step(ctx)) // a beat
		other.Waited(5 * time.Second)
		must(t, other.Step(ctx))
		if other.Leads() {
			t.Error("two took over from a gateway that was at work")
		}
		other.Waited(5 * time.Second)
		must(t, other.Step(ctx))
		if !other.Leads() {
			t.Error("two did not take over")
		}
		must(t, w.runs.Step(ctx))
		if w.runs.Leads() {
			t.Error("one still makes the steps")
		}
	})
}

// A gateway that needs long to look at a wave keeps the lead meanwhile.
func TestSlowLookKeepsTheLead(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	w := newWave(t, s, "&each=60/m", "k", "l")
	other := operate.NewWaves(w.Operator, "two")
	w.after(0)
	must(t, other.Step(t.Context()))
	beat := func() int64 {
		lead, err := s.Lead(t.Context(), "nobody", -1)
		must(t, err)
		return lead.Beat
	}
	before, looks := beat(), 0
	w.Operator.Opened = func(string) bool {
		if looks++; looks == 1 { // by the gateway that leads
			proxytest.Eventually(t, func() bool { return beat() > before+1 }, func() string { return "no beat of the gateway that looks" })
			other.Waited(5 * time.Second)
			must(t, other.Step(t.Context()))
		}
		return false
	}
	w.after(2 * time.Hour)
	if other.Leads() || !w.runs.Leads() {
		t.Error("two took over from a gateway that was at work")
	}
	w.stages("canary 50 %, old", "k", "l")
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
}

// What cannot be read of one partner holds up that partner: the others make their steps, and what is counted of them is
// stored. Only a count that may have an exact field that differs holds up the steps forward of all. The log has it once.
func TestUnreadableEvidenceOfOnePartner(t *testing.T) {
	t.Parallel()
	for marked, reached := range map[bool]string{false: "canary 50 %", true: "canary 10 %"} {
		t.Run(fmt.Sprint("marked ", marked), func(t *testing.T) {
			t.Parallel()
			w := newWave(t, proxytest.Open(t, "memory:"), "", "k", "l", "m")
			for range 3 {
				w.after(time.Minute)
			}
			w.stages("canary 10 %, canary 10 %, canary 10 %", "k", "l", "m")
			operations := w.Config().Table.Operations()
			create := operations[slices.IndexFunc(operations, func(o *translate.Operation) bool { return o.Name == "bill.create" })]
			broken := []store.Counts{{Partner: partner.Of("l"), Operation: create.Name, Data: []byte("no JSON"), Marked: marked}}
			works(t)(w.store.AddCounts(t.Context(), create.Version(), broken, noon, func(_, more []byte) ([]byte, error) { return more, nil }))
			w.proves("l") // is added to what cannot be read
			w.after(time.Hour)
			w.after(time.Minute)
			w.after(time.Minute)
			w.stages(reached+", canary 10 %, "+reached, "k", "l", "m")
			w.fails("m")
			w.after(time.Minute)
			w.stages(reached+", canary 10 %, old", "k", "l", "m")
			equal(t, strings.Count(w.logs.String(), "makes no step forward with them"), 1, w.logs.String())
		})
	}
}
