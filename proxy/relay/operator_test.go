package relay_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// ask makes a call of the operator, with the operator's name.
func (s *testRelay) ask(method, target string) *httptest.ResponseRecorder {
	if method == "POST" {
		path, query, _ := strings.Cut(target, "?")
		target = path + "?" + strings.TrimPrefix(query+"&by=tester", "&")
	}
	return s.asks(method, target)
}

func (s *testRelay) asks(method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.operator.Handler().ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

// list returns the callbacks of bills in the order of the operator's list.
func (s *testRelay) list(query string) (bills []string, list []operate.Callback) {
	s.t.Helper()
	w := s.ask("GET", "/callbacks"+query)
	var page operate.CallbackPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		s.t.Fatalf("%s: %d %v %s", query, w.Code, w.Header(), w.Body)
	}
	for _, l := range page.Callbacks {
		bills = append(bills, l.Bill)
	}
	return bills, page.Callbacks
}

// operatedRelay is a testRelay with a callback in every state, an hour between each: delivered, dead, dead of another partner,
// and waiting.
func operatedRelay(t *testing.T) (*testRelay, *clock) {
	t.Helper()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s]"})
	for _, c := range []struct {
		key, bill string
		status    int
	}{{key, "taken", 200}, {key, "dead", 500}, {"other-key", "other", 503}, {key, "waiting", 0}} {
		a := asked("v2", "https://partner.example.com/paid?token=canary#canary")
		a.Partner, a.Bill = partner.Of(c.key), c.bill
		s.accept(s.bind(a), notice("v2", c.key, c.bill))
		if c.status != 0 {
			s.Carry(always(c.status, documented["v2"]))
			s.round()
		}
		clock.add(time.Hour)
	}
	return s, clock
}

// A failure after the first batch is reported in the last line, since the status was sent with the first.
func TestOperatorFailuresAreInTheLastLine(t *testing.T) {
	t.Parallel()
	s, _ := operatedRelay(t)
	w := &closes{ResponseRecorder: httptest.NewRecorder(), during: func() { _ = s.store.Close() }}
	s.operator.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/callbacks/drop?by=tester", nil))
	if want := `{"done":0,"of":2}` + "\n" + `{"done":0,"of":2,"over":true,"error":"store: closed"}` + "\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, target := range []string{"GET /callbacks", "GET /callbacks/x", "POST /callbacks/replay", "POST /callbacks/x/drop"} {
		method, path, _ := strings.Cut(target, " ")
		if w := s.ask(method, path); w.Code != 500 || w.Body.String() != "store: closed\n" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// closes calls a function after the first line was written.
type closes struct {
	*httptest.ResponseRecorder
	during func()
}

func (c *closes) Write(p []byte) (int, error) {
	defer c.during()
	return c.ResponseRecorder.Write(p)
}

// A replay wakes the deliverer, which would otherwise look at its next interval.
func TestReplayIsDeliveredAtOnce(t *testing.T) {
	t.Parallel()
	for _, several := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestRelay(t, setup{callbacks: ", schedule: [0s]"})
			s.deliverable("https://partner.example.com/", "A")
			s.Carry(always(500, ""))
			s.round()
			s.Carry(success)
			stop := s.start()
			synctest.Wait() // it sleeps
			target := "/callbacks/" + s.only().ID + "/replay"
			if several {
				target = "/callbacks/replay"
			}
			answers(t, s.ask("POST", target), 200)
			synctest.Wait() // no time passes
			equal(t, s.only().State, store.Delivered, target)
			stop()
		})
	}
}

// The partner of a callback has its name beside the hash, in the list, in one callback and in the audit log.
func TestCallbacksHaveNamesOfPartners(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{callbacks: ", schedule: [0s]", now: newClock().now, top: "partners: {" + partner.ShortOf(key) + ": {name: Hana Clinic}}"})
	s.accept(s.bind(asked("v2", "https://partner.example.com/paid")), notice("v2", key, bill))
	s.Carry(always(500, documented["v2"]))
	s.round()
	_, list := s.list("")
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	for _, target := range []string{
		"POST /callbacks/" + list[0].ID + "/drop", "GET /callbacks", "GET /callbacks/" + list[0].ID, "GET /audit",
		"GET /callbacks?partner=hana+clinic",
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := s.ask(method, path); w.Code != 200 || method == "GET" && !strings.Contains(w.Body.String(), `"partner":"`+partner.ShortOf(key)+`","name":"Hana Clinic"`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}
