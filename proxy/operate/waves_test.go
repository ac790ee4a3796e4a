package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
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

// newWaveOf is newWave with a config.
func newWaveOf(t *testing.T, config, more string, keys ...string) *testWave {
	t.Helper()
	return startWave(&testWave{testOperator: newTestOperator(t, proxytest.Open(t, "memory:"), config)}, more, keys...)
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

// is expects the state of the wave, and a part of why.
func (w *testWave) is(state store.WaveState, why string) {
	w.t.Helper()
	if info := w.info(); info.State != state || !strings.Contains(info.Why.String(), why) || why == "" && info.Why.Kind != "" {
		w.t.Errorf("the wave is %s: %s, want %s: %s", info.State, info.Why.String(), state, why)
	}
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

// A look at a wave that is late by some milliseconds does not make the pace slower, and no step comes too early.
func TestWaveKeepsItsPace(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, proxytest.SQLite(t)), "&each=60/m", "k", "l", "m", "n", "o")
	w.after(0)
	w.after(1010 * time.Millisecond)
	w.after(980 * time.Millisecond)
	w.stages("canary 10 %, canary 10 %, old, old, old", "k", "l", "m", "n", "o")
	w.after(10 * time.Millisecond)
	w.stages("canary 10 %, canary 10 %, canary 10 %, old, old", "k", "l", "m", "n", "o")
	w.after(time.Minute) // missed steps are not made up for
	w.after(900 * time.Millisecond)
	w.stages("canary 10 %, canary 10 %, canary 10 %, canary 10 %, old", "k", "l", "m", "n", "o")
}

// A wave moves one partner at a time, at its pace, the one that is furthest first, and each stays in its stage.
func TestWaveMovesItsPartners(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		w := newWave(t, proxytest.Open(t, url), "", "k", "l")
		w.after(0)
		w.stages("canary 10 %, old", "k", "l")
		w.after(59 * time.Second)
		w.stages("canary 10 %, old", "k", "l")
		if info := w.info(); !strings.Contains(info.Hold.String(), "60/h") || info.Until == nil || info.At[0].String() != "old" || info.At[0].Number != 1 {
			t.Errorf("%+v", info)
		}
		w.after(time.Second)
		w.stages("canary 10 %, canary 10 %", "k", "l")
		w.after(58 * time.Minute)
		w.stages("canary 10 %, canary 10 %", "k", "l")
		w.after(time.Minute)
		w.after(time.Minute) // both could go on: k to new
		w.stages("canary 50 %, canary 50 %", "k", "l")
		w.after(time.Hour)
		w.stages("new, canary 50 %", "k", "l")
		w.after(time.Minute)
		w.after(0)
		w.stages("new, new", "k", "l")
		w.is(store.WaveEnded, "all steps were made")
		log := answers[[]operate.Change](w.testOperator, "GET", "/audit?partner="+hash("k"))
		if c := log[0]; len(log) != 3 || c.By != "wave autumn" || c.Old() != "canary 50 %" || c.New() != "new" || c.Forced ||
			!strings.Contains(c.Evidence, "bill.create by read back is PASS") {
			t.Errorf("%+v", log)
		}
		for author, want := range map[string]int{"wave+autumn": 7, "anna": 1, "bob": 0} { // 6 steps and the end
			if log := answers[[]operate.Change](w.testOperator, "GET", "/audit?author="+author); len(log) != want {
				t.Errorf("%s has %d entries: %+v", author, len(log), log)
			}
		}
	})
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

// A partner that something blocks waits, and no reason is overridden. The others go on.
func TestWaveNeverForces(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k", "l")
	for _, d := range []time.Duration{0, time.Minute, time.Hour, time.Minute} {
		w.after(d)
	}
	w.stages("canary 50 %, canary 50 %", "k", "l")
	w.change("/rollout/reset?by=anna&partner=" + hash("k"))
	for range 4 {
		w.after(time.Hour)
	}
	w.stages("canary 50 %, new", "k", "l")
	rows := w.info().Partners
	if len(rows) != 2 || rows[0].Partner != hash("k")[:12] || len(rows[0].Step.Reasons) == 0 || rows[0].Waits.Kind != "" {
		t.Errorf("%+v", rows)
	}
	w.is(store.WaveRunning, "")
}

// What ends by itself holds a wave up, and does not pause it.
func TestWaveIsHeldUp(t *testing.T) {
	t.Parallel()
	for hold, how := range map[string]struct {
		more    string
		do, end func(*testWave)
	}{
		"Mon-Fri 09:00-12:30": { // it is Saturday, 12:34:56
			"&window=Mon-Fri+09:00-12:30+Asia/Seoul", func(*testWave) {}, func(w *testWave) { w.later.Add(int64(45 * time.Hour)) },
		},
		"breaker of fresh":  {"", func(w *testWave) { w.open = "fresh" }, func(w *testWave) { w.open = "" }},
		"breaker of legacy": {"", func(w *testWave) { w.open = "legacy" }, func(w *testWave) { w.open = "" }},
	} {
		t.Run(hold, func(t *testing.T) {
			t.Parallel()
			w := newWave(t, proxytest.Open(t, "memory:"), how.more, "k")
			how.do(w)
			w.after(0)
			w.stages("old", "k")
			has(t, w.info().Hold.String(), hold)
			w.is(store.WaveRunning, "")
			how.end(w)
			w.after(0)
			w.stages("canary 10 %", "k")
		})
	}
}

// hours counts more calls of a partner in this hour: at the old backend 100, of which 1 failed and each took a second,
// and so many at the new one, of which some failed and each took so many milliseconds.
func hours(key string, calls, failed, ms int) func(*testWave) {
	return func(w *testWave) {
		var all []store.Hour
		for backend, n := range [][3]int{{100, 1, 1000}, {calls, failed, ms}} {
			h := store.Hour{Partner: partner.Of(key), At: w.Now().Truncate(time.Hour), Backend: backend}
			for i := range n[0] {
				h.Observe(i < n[1], time.Duration(n[2])*time.Millisecond)
			}
			all = append(all, h)
		}
		_, err := w.store.AddHours(w.t.Context(), all)
		must(w.t, err)
	}
}

// A new backend that is not worse than the plan allows holds nothing up.
func TestWaveGoesOnWithinItsBounds(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		key   string
		calls func(*testWave)
	}{
		"as many failures":   {"f0", hours("f0", 100, 1, 1000)},
		"not twice the p99":  {"f0", hours("f0", 100, 1, 1500)},
		"too few to compare": {"young", hours("young", 49, 49, 60_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWave(t, proxytest.Open(t, "memory:"), "", of.key)
			w.after(0)
			of.calls(w)
			w.after(time.Hour)
			w.stages("canary 50 %", of.key)
		})
	}
}

// What a person must look at pauses a wave. It cannot be resumed while the cause is there.
func TestWavePauses(t *testing.T) {
	t.Parallel()
	failing := func(n int) func(*testWave) {
		return func(w *testWave) {
			for i := range n {
				w.fails(fmt.Sprint("f", i))
			}
		}
	}
	for why, how := range map[string]struct {
		more    string
		do, end func(*testWave)
	}{
		"the kill switch is on": {
			"", func(w *testWave) { w.change("/rollout/stop?by=b") }, func(w *testWave) { w.change("/rollout/resume?by=b") },
		},
		"restored from a backup": {"", func(w *testWave) { w.change("/rollout/restored?by=b") }, nil},
		"after a fail-over": {"", func(w *testWave) {
			must(w.t, w.store.Restored(w.t.Context(), store.ByFailOver, w.Now()))
		}, nil},
		"an exact field differs": {"", func(w *testWave) {
			w.Router.Counts().Add(partner.Of("elsewhere"), "bill.read", evidence.Comparison{
				Class: evidence.Differs, Bill: "b", Succeeded: [2]bool{true, true},
				Differences: []evidence.Difference{{Path: "price", Kind: evidence.InMoney}},
			})
		}, func(w *testWave) {
			w.change("/rollout/reset?by=b&force=verdict&partner=" + hash("elsewhere"))
		}},
		"partners that were taken back: 2": {"&held=1", failing(2), nil},
		"with an unknown outcome: 2": {"&unknown=1", func(w *testWave) {
			for i := range 2 {
				must(w.t, w.store.RecordUnknown(w.t.Context(), store.UnknownWrite{
					Partner: partner.Of("f0"), Bill: fmt.Sprint(i), Operation: "bill.create", Upstream: "fresh", At: w.Now(),
					Read: store.Reading{Finding: rollout.NotAsked},
				}))
			}
		}, func(w *testWave) {
			_, err := w.store.DismissUnknown(w.t.Context(), partner.Of("f0"), "0", "b", w.Now())
			must(w.t, err)
		}},
		"failed at the new backend": {"", hours("f0", 100, 6, 1100), nil},
		"took up to 4s at the new":  {"", hours("f0", 100, 1, 4000), nil},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			w := newWave(t, proxytest.Open(t, "memory:"), how.more, "f0", "f1", "k")
			w.after(0)
			w.after(time.Minute)
			w.stages("canary 10 %, canary 10 %, old", "f0", "f1", "k")
			w.later.Add(int64(time.Minute))
			how.do(w)
			w.after(0) // partners are taken back
			w.after(0)
			w.is(store.WavePaused, why)
			w.after(10 * time.Minute)
			w.stages("old", "k")
			if how.end != nil {
				w.denies(409, "POST", "/rollout/waves/autumn/resume?by=b", "Not resumed: ")
				how.end(w)
			}
			_ = answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/resume?by=b")
			w.is(store.WaveRunning, "")
			w.after(0)
			w.after(time.Minute)
			w.after(time.Minute)
			w.stages("canary 10 %", "k")
		})
	}
}

// A difference in money pauses every wave, and not only the one of the partner.
func TestMoneyPausesAllWaves(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k")
	w.seen("l", time.Hour)
	_ = answers[operate.WaveInfo](w.testOperator, "POST", strings.Replace(waveOf, "autumn", "winter", 1)+"&partners="+hash("l"))
	w.Router.Counts().Add(partner.Of("k"), "bill.read", evidence.Comparison{
		Class: evidence.Differs, Bill: "b", Succeeded: [2]bool{true, true}, Differences: []evidence.Difference{{Path: "price", Kind: evidence.InMoney}},
	})
	w.after(0)
	for _, info := range answers[[]operate.WaveInfo](w.testOperator, "GET", "/rollout/waves") {
		if info.State != store.WavePaused || !strings.Contains(info.Why.String(), "price") {
			t.Errorf("%+v", info)
		}
	}
}

// A partner with a FAIL goes back, also while the wave is paused, and stays there until a person lets it go on.
func TestWaveTakesAPartnerBack(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k", "l")
	w.after(0)
	w.after(time.Minute)
	_ = answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/pause?by=anna")
	w.fails("k")
	w.after(0)
	w.stages("old, canary 10 %", "k", "l")
	w.createsAt("k", "legacy", "")
	_ = answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/resume?by=anna")
	w.change("/rollout/reset?by=b&force=verdict&partner=" + hash("k"))
	w.proves("k")
	w.after(3 * time.Hour)
	w.after(3 * time.Hour)
	w.stages("old, new", "k", "l")
	if rows := w.info().Partners; !strings.Contains(rows[0].Waits.String(), "took the partner back: a verdict is FAIL: bill.create by read back is FAIL") {
		t.Errorf("%+v", rows[0])
	}
	w.change("/rollout/waves/autumn/release?by=anna&partner=" + hash("k"))
	w.after(time.Minute)
	w.stages("canary 10 %", "k")
}

// A partner that a person has moved is left alone, whatever its verdicts.
func TestWaveLeavesAPartnerOfAPersonAlone(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k", "l")
	w.after(0)
	w.after(time.Minute)
	w.later.Add(int64(time.Minute))
	w.change("/rollout/stage?by=bob&partner=" + hash("k") + "&stage=canary&percent=5")
	w.change("/rollout/unset?by=bob&partner=" + hash("l"))
	w.fails("k")
	w.after(3 * time.Hour)
	w.stages("canary 5 %, old", "k", "l")
	rows := w.info().Partners
	if !strings.Contains(rows[0].Waits.String(), "bob has moved the partner") || !strings.Contains(rows[1].Waits.String(), "own stage was removed") {
		t.Errorf("%+v", rows)
	}
	_ = answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/rollback?by=anna")
	w.after(0)
	w.after(0)
	w.stages("canary 5 %, old", "k", "l")
	w.is(store.WaveEnded, "all steps were made")
}

// A rollback takes each partner to where it was, outside of the window and at once.
func TestWaveRollsBack(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k", "l", "m")
	w.change("/rollout/stage?by=bob&partner=" + hash("l") + "&stage=old")
	w.change("/rollout/waves/autumn/release?by=anna&partner=" + hash("l"))
	for range 3 {
		w.after(2 * time.Hour)
	}
	w.stages("new, old, old", "k", "l", "m")
	_ = answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/rollback?by=anna")
	w.after(0)
	w.after(0)
	w.stages("old, old, old", "k", "l", "m")
	w.is(store.WaveEnded, "all steps were made")
	if s := answers[operate.Status](w.testOperator, "GET", "/rollout?partner="+hash("k")).Partners[0]; !s.Default {
		t.Errorf("%+v", s)
	}
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
		w := newWave(t, proxytest.Open(t, url), "&each=60/m", "k", "l")
		other := operate.NewWaves(w.Operator, "two")
		w.after(0)
		must(t, other.Step(t.Context()))
		other.Waited(3 * time.Second)
		must(t, other.Step(t.Context()))
		must(t, w.runs.Step(t.Context())) // a beat
		other.Waited(5 * time.Second)
		must(t, other.Step(t.Context()))
		if other.Leads() {
			t.Error("two took over from a gateway that was at work")
		}
		other.Waited(5 * time.Second)
		must(t, other.Step(t.Context()))
		if !other.Leads() {
			t.Error("two did not take over")
		}
		must(t, w.runs.Step(t.Context()))
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

// The partners that need a person are on the first pages, also if a page has not all partners. Each page has the reasons of its own.
func TestWavePagesBeginWithThoseThatNeedAPerson(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k", "l", "m", "n")
	w.after(0)
	w.after(time.Minute)
	w.later.Add(int64(time.Minute))
	w.change("/rollout/stage?by=bob&force=verdict&stage=new&partner=" + hash("k")) // it is done
	w.change("/rollout/stage?by=bob&stage=canary&percent=20&partner=" + hash("n"))
	w.change("/rollout/reset?by=anna&partner=" + hash("m"))
	w.fails("m") // it cannot go back: it has not begun
	for page, want := range []string{"n: bob has moved the partner", "l: ", "m: a verdict is FAIL", "k: "} {
		info := answers[operate.WaveInfo](w.testOperator, "GET", fmt.Sprint("/rollout/waves/autumn?limit=1&after=", page))
		next := (page + 1) % 4
		key, waits, _ := strings.Cut(want, ": ")
		if len(info.Partners) != 1 || info.Partners[0].Partner != hash(key)[:12] || !strings.HasPrefix(info.Partners[0].Waits.String(), waits) || info.Next != next || info.Number != 4 || info.Done != 1 {
			t.Errorf("page %d: %+v, want %s", page, info, want)
		}
	}
	_ = w.change("/rollout/reset?by=anna&force=verdict&partner=" + hash("m"))
	if step := w.info().Partners[1].Step; len(step.Reasons) > 0 {
		t.Errorf("%+v", step)
	}
	if list := answers[[]operate.WaveInfo](w.testOperator, "GET", "/rollout/waves?active=true"); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	_ = answers[operate.WaveInfo](w.testOperator, "POST", "/rollout/waves/autumn/stop?by=anna")
	if list := answers[[]operate.WaveInfo](w.testOperator, "GET", "/rollout/waves?active=true"); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// Nothing is stored by a preview, and it shows what would hold each partner.
func TestWavePreview(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	for _, key := range []string{"k", "l"} {
		d.seen(key, time.Minute)
	}
	d.proves("k")
	info := answers[operate.WaveInfo](d, "POST", "/rollout/waves?name=autumn&stage=old&to=drained&preview=true")
	// 2 partners, 4 steps (10 %, 50 %, new, drained), a day between them
	if !info.Preview || len(info.Partners) != 2 || info.Steps.String() != "canary:10,canary:50,new,drained" || len(info.Partners[0].Step.Reasons) == 0 ||
		!info.Ends.Equal(noon.Add(3*24*time.Hour+3*time.Minute).Truncate(time.Millisecond)) {
		t.Errorf("%+v", info)
	}
	if all := answers[[]operate.WaveInfo](d, "GET", "/rollout/waves"); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestWaveOrdersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWave(t, proxytest.Open(t, "memory:"), "", "k")
	w.seen("l", time.Hour)
	of := func(more string) string { return "/rollout/waves?by=anna&name=winter&partners=" + hash("l") + more }
	for target, says := range map[string]string{
		"/rollout/waves?by=anna&name=winter":                         "name the partners",
		"/rollout/waves?by=anna&name=winter&stage=shadow":            "No partner outside of other waves is in stage shadow",
		"/rollout/waves?by=anna&name=new&partners=" + hash("l"):      "and not be new",
		"/rollout/waves?by=anna&name=Win+ter&partners=" + hash("l"):  "the name of a wave",
		"/rollout/waves?name=winter&partners=" + hash("l"):           "by must be your name",
		"/rollout/waves?by=anna&name=winter&partners=default":        "cannot move the default",
		"/rollout/waves?by=anna&name=winter&partners=" + hash("k"):   "is in wave autumn already",
		"/rollout/waves?by=anna&name=autumn&partners=" + hash("l"):   "there is a wave",
		"/rollout/waves?by=anna&name=winter&partners=<l>,<l>":        "is given twice",
		of("&steps=new,canary:10"):                                   "in the order of the stages",
		of("&steps=shadow,new"):                                      "shadow compares nothing",
		of("&steps=canary,new"):                                      "canary with a percentage",
		of("&each=20"):                                               "such as 20/h",
		of("&stay=0s"):                                               "must be a duration above 0s",
		of("&window=Mo-Fr+9-17+Seoul"):                               "Mon-Fri 09:00-17:00 Asia/Seoul",
		of("&held=-1"):                                               "must not be below 0",
		of("&to=shadow"):                                             "to must be new or drained",
		of("&stage=old"):                                             "name the partners of the wave, or give a stage",
		"/rollout/waves/winter/pause?by=anna":                        "there is no wave",
		"/rollout/waves/autumn/resume?by=anna":                       "is not paused",
		"/rollout/waves/autumn/pause":                                "by must be your name",
		"/rollout/waves/autumn/release?by=anna&partner=" + hash("l"): "not in wave autumn",
	} {
		if r := w.ask("POST", target); r.Code < 400 || r.Code > 409 || !strings.Contains(r.Body.String(), says) {
			t.Errorf("%s: %d %s", target, r.Code, r.Body)
		}
	}
}
