package relay_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/relay"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// The states of a merchant are news each: none is superseded.
func TestStatesOfAMerchantAreNotSuperseded(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{})
	s.Carry(always(200, `{"result":"OK"}`))
	path := s.registered("s")
	for _, status := range []string{"PENDING", "COMPLETED"} {
		s.accept(path, fmt.Sprintf(`{"apiKey":%q,"merchant":"s","status":%q}`, key, status))
	}
	for range 5 {
		s.round()
		clock.add(3 * time.Hour)
	}
	if all := s.stored(); all[0].State != store.Waiting || all[0].Attempts != 5 || all[1].Attempts != 0 {
		t.Errorf("%s after %d attempts, and %d at the second", all[0].State, all[0].Attempts, all[1].Attempts)
	}
}

// Whatever partners answer, and whenever states come: once the handler of the partner has run for a state, no older one comes, and when
// the partner answers again, the newest one comes within a minute for each state. Nothing but superseded callbacks is missing.
func TestOrderOfStatesModel(t *testing.T) {
	t.Parallel()
	superseded := 0
	rapid.Check(t, func(rt *rapid.T) {
		s, clock := clocked(t, setup{})
		defer func() { _ = s.store.Close() }()
		// Not drawn in the attempt: rapid ends a run by a panic, which would be one more failed attempt.
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "answers"), 0))
		answers := []string{"refused", "201", "500", "done"}
		newest, sent, restored := int64(-1), int64(0), false
		s.carry(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			state := gjson.GetBytes(body, "apprNum").Int()
			does := answers[random.IntN(len(answers))]
			if restored {
				does = answers[1+random.IntN(len(answers)-1)]
			}
			if does == "refused" {
				return nil, errors.New("connection refused")
			}
			if state < newest {
				rt.Errorf("state %d comes after %d", state, newest)
			}
			newest = max(newest, state)
			return map[string]*http.Response{"201": reply(201, ""), "500": reply(500, ""), "done": reply(200, documented["v2"])}[does], nil
		})
		path := s.path("v2")
		pass := func(most time.Duration) { // to the next attempt, if it is within most
			end := clock.now().Add(most)
			for s.round() > 0 {
			}
			for {
				next, any, err := s.store.NextDue(t.Context(), clock.now())
				must(rt, err)
				if !any || next.After(end) {
					break
				}
				clock.set(next)
				for s.round() > 0 {
				}
			}
			clock.set(end)
		}
		for range rapid.IntRange(2, 6).Draw(rt, "states") {
			s.accept(path, notice("v2", key, bill, fmt.Sprintf(`,"apprNum":"%d"`, sent)))
			sent++
			pass(rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second, time.Hour, 4 * time.Hour}).Draw(rt, "until the next"))
		}
		restored = true
		s.accept(path, notice("v2", key, bill, fmt.Sprintf(`,"apprNum":"%d"`, sent)))
		// An older state without an answer keeps its schedule.
		var due time.Duration
		if first := slices.IndexFunc(s.stored(), func(c store.Callback) bool { return c.State == store.Waiting }); first >= 0 {
			due = max(0, s.stored()[first].Next.Sub(clock.now()))
		}
		pass(due + time.Duration(sent+1)*time.Minute)
		equal(rt, newest, sent)
		for _, c := range s.stored() {
			if c.State == store.Superseded {
				superseded++
			} else if c.State != store.Delivered && c.State != store.Waiting && c.State != store.Dead {
				rt.Errorf("%+v", c)
			}
		}
	})
	if superseded == 0 {
		t.Error("no run has superseded a callback")
	}
}

// A replay of many leaves out a callback that a newer one of its bill follows, and says so. It does not touch other bills.
func TestReplayOfManyKeepsTheOrderOfStates(t *testing.T) {
	t.Parallel()
	s, _ := clocked(t, setup{callbacks: ", schedule: [0s]"})
	fails := true
	var got []string
	s.carry(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		if fails {
			return nil, errors.New("connection refused")
		}
		got = append(got, gjson.GetBytes(body, "billId").Str+gjson.GetBytes(body, "apprState").Str)
		return reply(200, documented["v2"]), nil
	})
	path := s.path("v2")
	other := asked("v2", "https://partner.example.com/")
	other.Bill = "OTHER"
	s.reports(path, "F")
	s.accept(s.bind(other), notice("v2", key, "OTHER", `,"apprState":"F"`))
	s.round()
	fails = false
	s.reports(path, "C")
	s.round()
	for _, query := range []string{"?dry_run=true", ""} {
		has(t, s.ask("POST", "/callbacks/replay"+query).Body.String(), `"of":1,"left_out":1`, query)
	}
	s.round()
	equal(t, got, []string{bill + "C", "OTHERF"}, "the partner has")
}

// supersedes accepts two states of a bill, and makes three attempts.
func (s *testRelay) supersedes(clock *clock) {
	s.t.Helper()
	s.reports(s.path("v2"), "F", "C")
	for range 3 {
		s.round()
		clock.add(10 * time.Second)
	}
}

// An answer of before a replay does not end it: without an answer it keeps its place.
func TestReplayCountsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{})
	answers := 3
	s.carry(func(*http.Request) (*http.Response, error) {
		if answers--; answers < 0 {
			return nil, errors.New("connection refused")
		}
		return reply(201, ""), nil
	})
	s.supersedes(clock)
	if w := s.ask("POST", "/callbacks/"+s.stored()[0].ID+"/replay?force=newer"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s.round()
	if got := s.stored()[0]; got.State != store.Waiting || got.Attempts != 1 {
		t.Errorf("%s after %d attempts", got.State, got.Attempts)
	}
}

// A replay of a superseded callback is refused with the reason, until it is forced. It reaches the partner then, and is not repeated for days:
// three answers end it again.
func TestReplayOfASupersededCallback(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{})
	tries := 0
	confirms := false
	s.carry(func(*http.Request) (*http.Response, error) {
		if tries++; confirms {
			return reply(200, documented["v2"]), nil
		}
		return reply(201, ""), nil
	})
	s.supersedes(clock)
	older := s.stored()[0].ID
	s.counts("billbridge_callbacks_superseded_total", `{upstream="up"} 1`)
	_, line, found := strings.Cut(s.logs.String(), "a callback was superseded")
	if !found || !strings.Contains(line, older) || !strings.Contains(line, `"reason":"HTTP 201 `) {
		t.Errorf("the log does not say that %s was superseded, and why:\n%s", older, s.logs)
	}
	replay := func(query string) (int, string) {
		w := s.ask("POST", "/callbacks/"+older+"/replay"+query)
		return w.Code, w.Body.String()
	}
	for _, row := range []struct{ newer, why string }{
		{"waits", "a newer callback of the bill waits"}, {"was delivered", "a newer callback of the bill was delivered: the partner would get an older state after a newer one [newer]"},
	} {
		if got := s.stored()[0].State; got != store.Superseded {
			t.Fatalf("it is %s", got)
		}
		for _, query := range []string{"", "?dry_run=true"} {
			if code, body := replay(query); code != 409 || !strings.Contains(body, "Not changed. To change it anyway, give force=newer. Reasons:\n  "+row.why) {
				t.Errorf("%s%s: %d %s", row.newer, query, code, body)
			}
		}
		confirms = true
		s.round()
	}
	has(t, s.ask("GET", "/callbacks?state=superseded").Body.String(), older)
	confirms, tries = false, 0
	if code, body := replay("?force=newer"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	for range 10 {
		s.round()
		clock.add(24 * time.Hour)
	}
	if got := s.stored()[0]; tries != 3 || got.State != store.Superseded {
		t.Errorf("%d attempts, %s", tries, got.State)
	}
}

// Two merchants of a partner can have a bill with the same id each. A callback of one ends none of the other's, also if the bills have
// the addresses of their registrations: the partner gets both.
func TestCallbackOfAnotherMerchantSupersedesNone(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(merchant string) relay.Binding{
		"of the bill": func(merchant string) relay.Binding {
			a := asked("v2", "https://partner.example.com/"+merchant)
			a.Merchant = merchant
			return a
		},
		"of the registration": func(merchant string) relay.Binding {
			return registration("v2", merchant, "https://partner.example.com/"+merchant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := clocked(t, setup{callbacks: ", schedule: [0s, 1m, 1m, 1m, 1m, 1m, 1m]"})
			s.Carry(always(201, ""))
			one, two := s.bind(address("one")), s.bind(address("two"))
			s.reports(one, "F")
			s.reports(two, "C", "C") // a repetition
			for range 4 {
				s.round()
				clock.add(2 * time.Minute)
			}
			all := s.stored()
			if len(all) != 2 || all[0].State != store.Waiting || all[1].Repeats != 1 {
				t.Errorf("%+v", all)
			}
			s.reports(one, "C") // of the same merchant
			s.Carry(success)
			for range 3 {
				s.round()
				clock.add(2 * time.Minute)
			}
			all = s.stored()
			equal(t, len(all), 3)
			for i, want := range []store.State{store.Superseded, store.Delivered, store.Delivered} {
				equal(t, all[i].State, want, i)
			}
		})
	}
}

// A later state counts only if the partner has it or gets it, and if it came to the same address: the id may be that of
// another bill by now.
func TestLaterCallbackThatSaysNothing(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	s.reports(s.path("legacy"), "C")
	s.reports(s.path("legacy"), "F")
	for _, c := range s.stored() {
		equal(t, c.State, store.Waiting, "of another address: ", c)
	}
	s = newTestRelay(t, setup{callbacks: ", schedule: [0s]"})
	path := s.path("legacy")
	s.reports(path, "C")
	s.Carry(always(410, ""))
	s.round()
	s.reports(path, "F")
	got := map[store.State]int{}
	for _, c := range s.stored() {
		got[c.State]++
	}
	equal(t, got, map[store.State]int{store.Dead: 1, store.Waiting: 1})
}

// A payment that is reported after its cancel is not delivered, whatever it says beside: the partner would take the bill
// for paid. It is listed as superseded. States that no move of the interface connects are delivered, and so is one without
// a state.
func TestCallbackThatComesAfterALaterOne(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ first, second, want string }{
		{"C", "F", "superseded"},
		{"F", "C", "waiting"},
		{"C", "D", "waiting"},
		{"D", "F", "waiting"},
		{"C", "", "waiting"},
		{"", "F", "waiting"},
		{"C", "X", "waiting"},
	} {
		for _, form := range []translate.Form{"v2", "legacy"} {
			t.Run(fmt.Sprint(row.first, " ", row.second, " ", form), func(t *testing.T) {
				t.Parallel()
				s := newTestRelay(t, setup{form: form})
				path := s.path("legacy")
				state := func(word string) string {
					if word == "" {
						return `,"n":1`
					}
					return fmt.Sprintf(`,%q:%q`, map[translate.Form]string{"v2": "apprState", "legacy": "appr_state"}[form], word)
				}
				s.accept(path, notice(form, key, bill, state(row.first)))
				s.accept(path, notice(form, key, bill, state(row.second)))
				got := map[store.State]int{}
				for _, c := range s.stored() {
					got[c.State]++
				}
				want := map[store.State]int{store.Waiting: 1}
				want[store.State(row.want)]++
				equal(t, got, want)
			})
		}
	}
}
