package relay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// What an operator sees and changes, as testdata/operator.txt has it. {dead} is the id of the callback of the bill dead,
// {demo-key} the hash of a key. Of a list there are the bills. "all" is a list, a replay and a drop with a query, "decide" a
// replay and a drop of one callback and of several. "again" begins anew, "deliver" makes the attempts that are due,
// "sweep" deletes old bodies, and "log" shows what was logged about callbacks.
func TestOperator(t *testing.T) {
	t.Parallel()
	proxytest.Transcript(t, "testdata/operator.txt", *update, []string{"v2"}, func(t *testing.T, _ string) func(string) []string {
		s, clock := operatedRelay(t)
		return func(line string) (shown []string) {
			command, query, _ := strings.Cut(line, " ")
			switch command {
			case "again":
				s, clock = operatedRelay(t)
			case "sweep":
				works(t)(s.store.SweepBodies(t.Context(), clock.now().Add(time.Hour), time.Minute))
			case "deliver":
				s.carry(func(r *http.Request) (*http.Response, error) {
					shown = append(shown, s.named(r.Header.Get("Webhook-Id")))
					return reply(200, documented["v2"]), nil
				})
				s.round()
			case "log":
				return s.logged()
			case "all":
				by := "?by=tester&" + strings.TrimPrefix(query, "?")
				for _, target := range []string{"GET /callbacks" + query, "POST /callbacks/replay" + by, "POST /callbacks/drop" + by} {
					shown = append(shown, s.shows(target)...)
				}
			case "decide":
				for _, target := range []string{"{dead}/replay", "{dead}/drop", "replay", "drop"} {
					shown = append(shown, s.shows("POST /callbacks/"+target+query)...)
				}
			default:
				shown = s.shows(line)
			}
			return shown
		}
	})
}

// named is a text with the names of what differs between runs.
func (s *testRelay) named(text string) string { return strings.NewReplacer(s.names()...).Replace(text) }

// names returns the ids of callbacks and the hashes of keys, each with its name.
func (s *testRelay) names() (names []string) {
	for _, c := range s.stored() {
		names = append(names, c.ID, "{"+c.Bill+"}")
	}
	for _, of := range []string{key, "other-key"} {
		names = append(names, hash(of), "{whole "+of+"}", partner.ShortOf(of), "{"+of+"}")
	}
	return names
}

// shows makes a call, and returns the status and the body of the answer.
func (s *testRelay) shows(line string) []string {
	names := s.names()
	for i := 0; i < len(names); i += 2 {
		line = strings.ReplaceAll(line, names[i+1], names[i])
	}
	method, target, _ := strings.Cut(line, " ")
	w := s.asks(method, target)
	body := strings.TrimSuffix(w.Body.String(), "\n")
	for _, secret := range []string{"canary", key, hash(key)[:13], "apiKey"} {
		lacks(s.t, body, secret, line)
	}
	var page operate.CallbackPage
	if method == "GET" && json.Unmarshal([]byte(body), &page) == nil && strings.Contains(body, `"callbacks":`) {
		body = "bills"
		for _, c := range page.Callbacks {
			body += " " + c.Bill
		}
	}
	return strings.Split(s.named(strings.TrimSpace(fmt.Sprint(w.Code, " ", body))), "\n")
}

// logged returns the messages about callbacks and who decided.
func (s *testRelay) logged() (shown []string) {
	for line := range strings.Lines(s.logs.String()) {
		var l struct{ Msg, Callback, By string }
		must(s.t, json.Unmarshal([]byte(line), &l))
		if strings.HasPrefix(l.Msg, "callback") && l.By != "" {
			shown = append(shown, s.named(fmt.Sprint(l.Msg, " ", l.Callback, " by ", l.By)))
		}
	}
	return shown
}
