package relay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// ask makes a call of the operator, with the operator's name.
func (s *station) ask(method, target string) *httptest.ResponseRecorder {
	if method == "POST" {
		path, query, _ := strings.Cut(target, "?")
		target = path + "?" + strings.TrimPrefix(query+"&by=tester", "&")
	}
	return s.asks(method, target)
}

func (s *station) asks(method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.operator.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

// list returns the callbacks of bills in the order of the operator's list.
func (s *station) list(query string) (bills []string, list []operate.Callback) {
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

// progress is the answer to a replay or a drop of several callbacks.
func (s *station) progress(target string) (lines []operate.Progress) {
	s.t.Helper()
	w := s.ask("POST", target)
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		var p operate.Progress
		must(s.t, json.Unmarshal([]byte(line), &p))
		lines = append(lines, p)
	}
	return lines
}

// office is a station with a callback in every state, an hour between each: delivered, dead, dead of another partner,
// and waiting.
func office(t *testing.T) (*station, *clock) {
	t.Helper()
	clock := newClock()
	s := newStation(t, setup{form: "v2", callbacks: ", schedule: [0s], jitter: 0", now: clock.now})
	for _, c := range []struct {
		key, bill string
		status    int
	}{{key, "taken", 200}, {key, "dead", 500}, {"other-key", "other", 503}, {key, "waiting", 0}} {
		a := asked("v2", "https://partner.example.com/paid?token=canary#canary")
		a.Key, a.Bill = c.key, c.bill
		s.accept(s.bind(a), notice("v2", c.key, c.bill))
		if c.status != 0 {
			s.Carry(always(c.status, documented["v2"]))
			s.round()
		}
		clock.add(time.Hour)
	}
	return s, clock
}

func TestOperatorLists(t *testing.T) {
	t.Parallel()
	s, _ := office(t)
	for query, want := range map[string][]string{
		"": {"waiting", "other", "dead", "taken"}, "?state=dead": {"other", "dead"}, "?state=waiting": {"waiting"}, "?state=delivered": {"taken"}, "?state=dropped": nil,
		"?partner=" + hash(key)[:12]: {"waiting", "dead", "taken"}, "?partner=" + hash("other-key"): {"other"}, "?bill=dead": {"dead"},
		"?since=2026-11-21T04:34:56Z": {"waiting", "other", "dead"}, "?until=2026-11-21T04:34:56Z": {"taken"}, "?since=2026-11-21T13:34:56%2B09:00&until=2026-11-21T05:34:57Z": {"other", "dead"},
		"?limit=2": {"waiting", "other"}, "?limit=0": {"waiting", "other", "dead", "taken"}, "?state=dead&limit=1": {"other"},
	} {
		if got, _ := s.list(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// An invalid call changes nothing: without its invalid part it would select every dead callback, and a replay of too many
// callbacks could not be undone.
func TestInvalidOperatorCallsAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := office(t)
	for query, says := range map[string]string{
		"?limits=1": `there is no key "limits"`, "?State=dead": `there is no key "State"`, "?partner=" + hash(key)[:11]: "12 to 64 lower-case hex digits", "?partner=" + strings.ToUpper(hash(key)): "12 to 64 lower-case hex digits",
		"?state=gone": `no state "gone"`, "?since=2h": `since cannot be "2h"`, "?until=2026-11-21": "cannot be", "?limit=x": `limit cannot be "x"`, "?limit=-1": "the limit is -1",
		"?bill=%zz": "invalid URL escape", "?bill=dead;upstream=up": "semicolon", "?partner=": "partner must not be empty", "?state=": "must not be empty",
		"?bill=a&bill=b": "bill is given more than once", "?bill=%00": "bill must be UTF-8 without a zero byte", "?limit=99999999999999999999": "limit",
	} {
		for _, target := range []string{"GET /callbacks", "POST /callbacks/replay", "POST /callbacks/drop"} {
			method, path, _ := strings.Cut(target, " ")
			if method == "POST" && query == "?state=gone" {
				says = "only dead callbacks"
			}
			w := s.ask(method, path+query)
			if w.Code != 400 || !strings.Contains(w.Body.String(), says) || strings.Count(w.Body.String(), "\n") != 1 {
				t.Errorf("%s%s: %d %s", target, query, w.Code, w.Body)
			}
		}
	}
	answers(t, s.ask("GET", "/callbacks?after=x"), 400, `after cannot be "x"`)
	for query, says := range map[string]string{
		"?state=delivered": "only dead callbacks", "?state=waiting": "only dead callbacks", "?after=1": "after", "?limit=0": "the limit is 0",
	} {
		for _, what := range []string{"replay", "drop"} {
			answers(t, s.ask("POST", "/callbacks/"+what+query), 400, says)
		}
	}
	if got, _ := s.list("?state=dead"); len(got) != 2 {
		t.Errorf("%v are dead", got)
	}
}

func TestOperatorShows(t *testing.T) {
	t.Parallel()
	s, clock := office(t)
	_, list := s.list("?bill=dead")
	w := s.ask("GET", "/callbacks/"+list[0].ID)
	want := fmt.Sprintf(`{"id":%q,"received":"2026-11-21T04:34:56Z","partner":%q,"bill":"dead","upstream":"up","state":"dead","attempts":1,`+
		`"last_at":"2026-11-21T04:34:56Z","last_status":500,"last_outcome":"status","form":"v2","address":"https://partner.example.com/paid",`+
		`"content_type":"application/json; charset=utf-8","size":37,"digest":%q,"cursor":2,`+
		`"history":[{"number":1,"at":"2026-11-21T04:34:56Z","took_seconds":0,"status":500,"code":"0000","outcome":"status","reason":"HTTP 500"}]}`+"\n", list[0].ID, hash(key)[:12], hash(notice("v2", key, "dead")))
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d\n%s\nwant\n%s", w.Code, w.Body, want)
	}
	_, list = s.list("?state=waiting")
	if l := list[0]; l.Next == nil || !l.Next.Equal(clock.now().Add(-time.Hour)) || l.LastAt != nil || l.Attempts != 0 || l.Size != 0 || l.Digest != "" {
		t.Errorf("%+v", l)
	}
	all := s.ask("GET", "/callbacks").Body.String()
	for _, secret := range []string{"canary", key, hash(key)[:13], "apiKey"} {
		if strings.Contains(all, secret) || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	for _, target := range []string{"GET /callbacks/cb_unknown", "POST /callbacks/cb_unknown/replay", "POST /callbacks/cb_unknown/drop"} {
		method, path, _ := strings.Cut(target, " ")
		answers(t, s.ask(method, path), 404, "there is no callback")
	}
	for _, target := range []string{"POST /callbacks", "GET /callbacks/x/replay", "DELETE /callbacks/x", "PUT /callbacks/drop"} {
		method, path, _ := strings.Cut(target, " ")
		answers(t, s.ask(method, path), 405)
	}
}

// A callback without a body is shown with the time of the deletion, and cannot be replayed, also not in a dry run.
func TestDeletedBodyIsShownAndNotReplayed(t *testing.T) {
	t.Parallel()
	s, clock := office(t)
	_, list := s.list("?bill=taken")
	path := "/callbacks/" + list[0].ID
	if n, err := s.store.SweepBodies(t.Context(), clock.now().Add(time.Hour), time.Minute); n < 1 || err != nil {
		t.Fatal(n, err)
	}
	var shown operate.Callback
	if w := s.ask("GET", path); json.Unmarshal(w.Body.Bytes(), &shown) != nil || shown.Deleted == nil || !shown.Deleted.Equal(clock.now().Add(time.Hour)) || shown.Size != 0 || shown.Digest == "" {
		t.Errorf("%s", w.Body)
	}
	for _, query := range []string{"", "?dry_run=true"} {
		answers(t, s.ask("POST", path+"/replay"+query), 409, "the body of the callback was deleted")
	}
	equal(t, s.callback(list[0].ID).State, store.Delivered)
}

// A replayed callback starts its schedule again, with the same id.
func TestOperatorReplaysOne(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"dead", "taken"} {
		s, clock := office(t)
		_, list := s.list("?bill=" + which)
		var got []string
		s.Carry(carrier(func(r *http.Request) (*http.Response, error) {
			got = append(got, r.Header.Get("Webhook-Id"))
			return reply(200, documented["v2"]), nil
		}))
		s.round()
		w := s.ask("POST", "/callbacks/"+list[0].ID+"/replay")
		if w.Code != 200 || w.Body.String() != `{"done":1,"of":1,"over":true}`+"\n" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if c := s.callback(list[0].ID); c.State != store.Waiting || c.Attempts != 0 || !c.Next.Equal(clock.now()) {
			t.Errorf("%+v", c)
		}
		answers(t, s.ask("POST", "/callbacks/"+list[0].ID+"/replay"), 409,
			list[0].ID+" is waiting, and can be replayed only if it is dead or delivered or superseded")
		got = nil
		if s.round(); !slices.Equal(got, []string{list[0].ID}) || s.callback(list[0].ID).State != store.Delivered {
			t.Errorf("%v", got)
		}
		has(t, s.logs.String(), `"msg":"callback replayed","callback":"`+list[0].ID+`"`)
	}
}

// A decision needs the name of the operator, which is in the audit log. Calls that changed nothing are not in it.
func TestOperatorDecisionsAreAudited(t *testing.T) {
	t.Parallel()
	s, clock := office(t)
	_, list := s.list("?bill=dead")
	one := "/callbacks/" + list[0].ID
	for _, query := range []string{"", "?by=", "?by=a&by=b", "?by=%0a", "?by=" + strings.Repeat("a", 101), "?by=a&dry_run=yes", "?dry_run=true&dry_run=true", "?dry_run="} {
		for _, target := range []string{one + "/replay", one + "/drop", "/callbacks/replay", "/callbacks/drop"} {
			answers(t, s.asks("POST", target+query), 400)
		}
	}
	answers(t, s.asks("POST", one+"/drop?by=a&bill=dead"), 400, `there is no key "bill"`)
	if got, _ := s.list("?state=dead"); len(got) != 2 {
		t.Errorf("%v are dead", got)
	}
	for target, status := range map[string]int{"/replay?by=%EA%B9%80": 200, "/drop?by=nobody": 409} {
		if w := s.asks("POST", one+"/replay"); w.Code != 400 { // before, after and between
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if status == 409 {
			target = strings.Replace(one, list[0].ID, s.stored()[0].ID, 1) + target // a delivered one
		} else {
			target = one + target
		}
		answers(t, s.asks("POST", target), status)
	}
	s.progress("/callbacks/drop?partner=" + hash("other-key")[:12])
	s.progress("/callbacks/drop?bill=none")
	at := clock.now().Format(time.RFC3339)
	var log []operate.Change
	w := s.ask("GET", "/audit")
	if err := json.Unmarshal(w.Body.Bytes(), &log); err != nil {
		t.Fatal(err, w.Body)
	}
	got := ""
	for _, c := range log {
		got += fmt.Sprintln(c.At.Format(time.RFC3339), c.By, c.Action, c.Partner, c.Subject, c.From)
	}
	want := fmt.Sprintln(at, "tester drop", hash("other-key")[:12], "1 callback, all dead") +
		fmt.Sprintln(at, "김 replay", hash(key)[:12], list[0].ID, "dead")
	equal(t, got, want)
	if w := s.ask("GET", "/audit?partner="+hash(key)); strings.Count(w.Body.String(), `"at"`) != 1 {
		t.Errorf("the decisions about one partner: %s", w.Body)
	}
	has(t, s.logs.String(), `"by":"김"`)
}

// A dry run reports how many callbacks are selected, or why one cannot be changed, and changes nothing.
func TestOperatorDryRun(t *testing.T) {
	t.Parallel()
	s, _ := office(t)
	ids := map[string]string{}
	_, list := s.list("")
	for _, l := range list {
		ids[l.Bill] = l.ID
	}
	for target, want := range map[string]string{
		"replay": `200 {"done":0,"of":2,"over":true}`, "drop?limit=1": `200 {"done":0,"of":1,"over":true}`, "replay?bill=taken": `200 {"done":0,"of":0,"over":true}`,
		"drop?state=waiting": "400 ", ids["dead"] + "/drop": `200 {"done":0,"of":1,"over":true}`, ids["taken"] + "/replay": `200 {"done":0,"of":1,"over":true}`,
		ids["taken"] + "/drop": "409 ", ids["waiting"] + "/replay": "409 ", "cb_unknown/drop": "404 ",
	} {
		target, query, _ := strings.Cut(target, "?")
		w := s.asks("POST", "/callbacks/"+target+"?"+strings.TrimPrefix(query+"&dry_run=true", "&"))
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	got, _ := s.list("?state=dead")
	if w := s.ask("GET", "/audit"); !slices.Equal(got, []string{"other", "dead"}) || w.Body.String() != "[]\n" {
		t.Errorf("%v are dead, and the log has %s", got, w.Body)
	}
	lacks(t, s.logs.String(), `"msg":"callback`)
}

// Callbacks selected by a filter are replayed or dropped, with a line for every batch.
func TestOperatorReplaysAndDropsSeveral(t *testing.T) {
	t.Parallel()
	for what, state := range map[string]string{"replay": "waiting", "drop": "dropped"} {
		for query, bills := range map[string][]string{
			"": {"other", "dead"}, "?state=dead": {"other", "dead"}, "?bill=taken": nil, "?limit=1": {"dead"}, "?partner=" + hash("other-key"): {"other"}, "?upstream=nobody": nil,
		} {
			s, _ := office(t)
			lines := s.progress("/callbacks/" + what + query)
			n := len(bills)
			if first, last := lines[0], lines[len(lines)-1]; first != (operate.Progress{Of: n}) || last != (operate.Progress{Done: n, Of: n, Over: true}) {
				t.Errorf("%s%s: %+v", what, query, lines)
			}
			for _, l := range lines[:len(lines)-1] {
				if l.Over {
					t.Errorf("%s%s: %+v", what, query, lines)
				}
			}
			got, _ := s.list("?state=" + state)
			if got = slices.DeleteFunc(got, func(b string) bool { return b == "waiting" }); !slices.Equal(got, bills) {
				t.Errorf("%s%s: %v, want %v", what, query, got, bills)
			}
		}
	}
	// More than one batch.
	s := newStation(t, setup{form: "v2", callbacks: ", schedule: [0s], per_host: 2000, at_once: 2000"})
	s.ClaimWithin(patience) // all at once, under the race detector
	s.Carry(always(500, ""))
	a := asked("v2", "https://partner.example.com/")
	a.Bill = ""
	path := s.bind(a)
	for i := range 1001 {
		s.accept(path, notice("v2", key, fmt.Sprint(i)))
	}
	if n := s.round(); n != 1001 {
		t.Fatalf("%d attempts", n)
	}
	want := []operate.Progress{{Of: 1001}, {Done: 1000, Of: 1001}, {Done: 1001, Of: 1001}, {Done: 1001, Of: 1001, Over: true}}
	if got := s.progress("/callbacks/drop"); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// A failure after the first batch is reported in the last line, since the status was sent with the first.
func TestOperatorFailuresAreInTheLastLine(t *testing.T) {
	t.Parallel()
	s, _ := office(t)
	w := &closes{ResponseRecorder: httptest.NewRecorder(), during: func() { _ = s.store.Close() }}
	s.operator.ServeHTTP(w, httptest.NewRequest("POST", "/callbacks/drop?by=tester", nil))
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
			s := newStation(t, setup{form: "v2", callbacks: ", schedule: [0s]"})
			s.deliverable("https://partner.example.com/", "A")
			s.Carry(always(500, ""))
			s.round()
			s.Carry(always(200, documented["v2"]))
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
	s := newStation(t, setup{form: "v2", callbacks: ", schedule: [0s], jitter: 0", now: newClock().now, top: "partners: {" + partner.ShortOf(key) + ": {name: Hana Clinic}}"})
	s.accept(s.bind(asked("v2", "https://partner.example.com/paid")), notice("v2", key, bill))
	s.Carry(always(500, documented["v2"]))
	s.round()
	_, list := s.list("")
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	for _, target := range []string{"POST /callbacks/" + list[0].ID + "/drop", "GET /callbacks", "GET /callbacks/" + list[0].ID, "GET /audit"} {
		method, path, _ := strings.Cut(target, " ")
		if w := s.ask(method, path); w.Code != 200 || method == "GET" && !strings.Contains(w.Body.String(), `"partner":"`+partner.ShortOf(key)+`","name":"Hana Clinic"`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}
