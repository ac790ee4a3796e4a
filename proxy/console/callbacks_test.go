package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// The page lists the callbacks of a filter, and counts those that wait or are dead.
func TestCallbacksAreFiltered(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	delivered := s.add("one", "B1", store.Delivered, 48*time.Hour)
	dead := s.add("one", "B2", store.Dead, 2*time.Hour)
	other := s.add("two", hostile, store.Dead, time.Minute)
	waiting := s.add("two", "B4", store.Waiting, 0)
	all := []string{delivered, dead, other, waiting}
	for _, row := range []struct {
		query string
		want  []string
	}{
		{"", all},
		{"state=failed", []string{dead, other}},
		{"state=waiting", []string{waiting}},
		{"state=delivered", []string{delivered}},
		{"state=dropped", nil},
		{"partner=hana+clinic", []string{delivered, dead}},
		{"partner=" + partner.Of("two").Short(), []string{other, waiting}},
		{"partner=" + partner.Of("nobody").Short(), nil},
		{"bill=B2", []string{dead}},
		{"bill=" + url.QueryEscape(hostile), []string{other}},
		{"bill=B2&partner=Mint+Bakery", nil},
		{"upstream=old", all},
		{"upstream=new", nil},
		{"age=1h", []string{other, waiting}},
		{"age=-1h", []string{delivered, dead}},
		{"age=-24h&state=delivered", []string{delivered}},
		{"age=" + url.QueryEscape(hostile), all},
	} {
		body := s.page("/deliveries?" + row.query)
		for _, id := range all {
			want := false
			for _, one := range row.want {
				want = want || one == id
			}
			equal(t, strings.Contains(body, "/deliveries/"+id), want, row.query, id)
		}
	}
	body := s.page("/deliveries")
	s.has("the tabs", body, `Failed <span class="count bad">2</span>`, `Waiting <span class="count">1</span>`, "<h1>Callbacks</h1>")
	s.hasNot("all callbacks", body, "/deliveries/all/")
	s.has("the failed ones", s.page("/deliveries?state=failed&partner=Mint+Bakery"), `href="/deliveries/all/replay?partner=Mint&#43;Bakery&amp;state=failed"`)
	if _, body := get(t, s, "/deliveries", "ko"); !strings.Contains(body, "<h1>콜백</h1>") {
		t.Errorf("not in Korean:\n%s", body)
	}
}

// A filter that the API refuses leaves the form, and says why.
func TestWrongCallbackFilters(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	s.add("one", "B1", store.Dead, 0)
	for query, want := range map[string]string{
		"state=" + url.QueryEscape(hostile):                  "there is no state",
		"partner=" + url.QueryEscape(hostile):                "by 12 to 64 lower-case hex digits",
		"after=" + url.QueryEscape(hostile):                  "after",
		"after=99999999999999999999":                         "after",
		"bill=" + strings.Repeat("x", 100_000):               "No callback matches",
		"upstream=" + strings.Repeat("%F0%9F%92%A9", 10_000): "No callback matches",
		"bill=%00": "bill",
		"partner=" + partner.Of("one").Short() + "&partner=other": "cb_oneb1",
	} {
		body := s.page("/deliveries?" + query)
		s.has(query[:min(len(query), 60)], body, want, "<form")
	}
}

// A callback is shown with its attempts. What callers control is escaped. An unknown id is 404.
func TestCallbackShowsItsAttempts(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	id := s.add("one", hostile, store.Dead, time.Hour)
	body := s.page("/deliveries/" + id)
	s.has("the callback", body, "HTTP 500 &#34;&gt;&lt;script&gt;", "1.000 s", "2026-11-21T", "15 bytes", "/deliveries/"+id+"/replay", "/deliveries/"+id+"/drop")
	for _, unknown := range []string{"cb_none", "..", "a%2Fb", "a%2F..%2Fb", url.PathEscape(hostile), strings.Repeat("x", 10_000), "%00"} {
		for _, path := range []string{"/deliveries/" + unknown, "/deliveries/" + unknown + "/replay"} {
			status, body := get(t, s, path, "")
			if status != http.StatusNotFound && unknown != ".." { // for which the mux redirects to another page
				t.Errorf("%.60s: %d", path, status)
			}
			s.escaped(path, body)
		}
	}
	gives(t, http.StatusNotFound, "an unknown decision")(get(t, s, "/deliveries/"+id+"/erase", ""))
}

// A superseded callback has a tab and says why it ended. The preview of its replay has the reason against it, and confirming it overrides that.
func TestReplayOfASupersededCallback(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	add := func(id string) {
		fresh, _, err := s.store.Accept(t.Context(), store.Callback{
			ID: id, Address: "a", Upstream: "old", Partner: partner.Of("one"), Bill: "B1", Form: "v2", URL: "http://127.0.0.1:1/paid", Host: "127.0.0.1:1",
			Order: "one B1", Digest: [32]byte{id[3]}, Body: []byte("{}"), Received: s.now,
		}, time.Hour)
		if !fresh || err != nil {
			t.Fatal(fresh, err)
		}
	}
	add("cb_older")
	for range 3 {
		claimed, err := s.store.Claim(t.Context(), s.now, time.Minute, 1, 1, 1, nil)
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		works(t)(s.store.Finish(t.Context(), claimed[0], store.Result{At: s.now, Status: 201, Outcome: "answer", State: store.Waiting, Next: s.now}))
	}
	add("cb_newer")
	s.has("the tab", s.page("/deliveries?state=superseded"), `Superseded <span class="count">1</span>`, "/deliveries/cb_older")
	s.has("the callback", s.page("/deliveries/cb_older"), "answered it without a success, and a newer callback", "/deliveries/cb_older/replay")
	const path = "/deliveries/cb_older/replay"
	s.has("the preview", s.page(path), "a newer callback of the bill waits", "do not replay it", `name="force" value="newer"`, `class="danger"`)
	if _, body := get(t, s, path, "ko"); !strings.Contains(body, "더 새로운 콜백이 대기 중입니다") {
		t.Errorf("not in Korean:\n%s", body)
	}
	if status, body := post(t, s, path, "by=anna"); status != http.StatusConflict || s.state("cb_older") != store.Superseded {
		t.Errorf("without the reason: %d %s", status, body)
	}
	s.redirected(path, "by=anna&force=newer", "/deliveries/cb_older?done=replay")
	equal(t, s.state("cb_older"), store.Waiting, "after the replay")
}

// A replay is previewed without an effect, needs a name, and is in the audit log.
func TestReplayAndDropOfOneCallback(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	replayed, dropped := s.add("one", "B1", store.Dead, time.Hour), s.add("one", "B2", store.Dead, time.Hour)
	for _, row := range []struct {
		id, do string
		to     store.State
	}{{replayed, "replay", store.Waiting}, {dropped, "drop", store.Dropped}} {
		path := "/deliveries/" + row.id + "/" + row.do
		s.has("the preview", s.page(path), `<form class="narrow" method="post" action="`+path+`">`, `name="by"`)
		if status, body := post(t, s, path, "by="); status != http.StatusBadRequest || !strings.Contains(body, "by must be your name") {
			t.Errorf("without a name: %d %s", status, body)
		}
		if got := s.state(row.id); got != store.Dead {
			t.Fatalf("after the preview it is %s", got)
		}
		s.redirected(path, "by=anna", "/deliveries/"+row.id+"?done="+row.do)
		equal(t, s.state(row.id), row.to, row.do)
		s.has("the callback after it", s.page("/deliveries/"+row.id+"?done="+row.do), `class="success"`)
		// Once more is not possible, and says why.
		body := s.page(path)
		s.has("the second preview", body, `class="problem"`, row.id+" is "+string(row.to))
		s.hasNot("the second preview", body, "<form class=\"narrow\"")
		gives(t, http.StatusConflict, row.do)(post(t, s, path, "by=anna"))
	}
	log, err := s.store.Audit(t.Context(), store.AuditFilter{Limit: 10})
	if err != nil || len(log) != 2 || log[0].By != "anna" || log[0].Subject != dropped || log[1].Subject != replayed {
		t.Errorf("the audit log has %+v, %v", log, err)
	}
}

// A decision about several callbacks takes those of the filter, after a preview with their number, and shows the result.
func TestReplayOfSeveralCallbacks(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	mine := []string{s.add("one", "B1", store.Dead, 2*time.Hour), s.add("one", "B2", store.Dead, 2*time.Hour)}
	young, other, delivered := s.add("one", "B3", store.Dead, time.Minute), s.add("two", "B4", store.Dead, 2*time.Hour), s.add("one", "B5", store.Delivered, 2*time.Hour)
	body := s.page("/deliveries/all/replay?partner=Hana+Clinic&age=-1h&state=delivered")
	s.has("the preview", body, "Failed callbacks that will be delivered again: 2.", `name="partner" value="`+partner.Of("one").Short()+`"`, `name="until" value="2026-11-21T11:00:00Z"`)
	form := url.Values{"partner": {partner.Of("one").Short()}, "until": {"2026-11-21T11:00:00Z"}, "by": {"anna"}}
	if status, body := post(t, s, "/deliveries/all/replay", strings.Replace(form.Encode(), "by=anna", "by=", 1)); status != http.StatusBadRequest || !strings.Contains(body, "by must be your name") {
		t.Errorf("without a name: %d %s", status, body)
	}
	if got := s.state(mine[0]); got != store.Dead {
		t.Fatalf("after the preview it is %s", got)
	}
	status, body := post(t, s, "/deliveries/all/replay", form.Encode())
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	s.has("the result", body, "Finished: 2 of 2.", "</html>")
	if status, _ := post(t, s, "/deliveries/all/replay", "by=anna&bill=%zz"); status != http.StatusBadRequest || s.state(young) != store.Dead {
		t.Errorf("a form that cannot be read: %d, and the callback is %s", status, s.state(young))
	}
	for id, want := range map[string]store.State{mine[0]: store.Waiting, mine[1]: store.Waiting, young: store.Dead, other: store.Dead, delivered: store.Delivered} {
		equal(t, s.state(id), want, id)
	}
	s.has("a filter without callbacks", s.page("/deliveries/all/drop?bill="+url.QueryEscape(hostile)), "Nothing would change")
	s.has("a wrong filter", s.page("/deliveries/all/drop?partner="+url.QueryEscape(hostile)), `class="problem"`)
	gives(t, http.StatusNotFound, "an unknown decision")(post(t, s, "/deliveries/all/erase", "by=anna"))
}

// With 10,000 names of partners the pages are not larger than with 500, and a name is still found.
func TestManyPartnersDoNotMakePagesLarge(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	id := s.add("one", "B1", store.Dead, time.Hour)
	c := *s.Config()
	for i := range 10_000 {
		c.Partners = append(c.Partners, config.Partner{Hash: string(partner.Of(fmt.Sprint("key", i))), Name: fmt.Sprintf("Partner %d", i)})
	}
	slices.SortFunc(c.Partners, func(a, b config.Partner) int { return strings.Compare(a.Hash, b.Hash) })
	s.Config = func() *config.Config { return &c }
	for _, page := range []string{"/deliveries", "/bills", "/bills?bill=B1", "/config"} {
		if body := s.page(page); len(body) > 150_000 {
			t.Errorf("%s has %d bytes", page, len(body))
		}
	}
	s.has("the callbacks of one", s.page("/deliveries?partner=hana+clinic"), id, "Hana Clinic")
	s.has("the config", s.page("/config"), "<dt><code>partners.…</code></dt><dd><code>9,502</code></dd>")
}

// Without callbacks there is nothing to decide.
func TestGatewayWithoutCallbacksHasNoneToDecide(t *testing.T) {
	t.Parallel()
	none := newConsole(t, Options{})
	for _, path := range []string{"/deliveries/all/replay", "/deliveries/all/drop", "/deliveries/cb_1/replay"} {
		gives(t, http.StatusMethodNotAllowed, path)(post(t, none, path, "by=anna"))
	}
}

// A callback that the upstream sent again is acknowledged and not delivered. The operator sees that, and can deliver it anyway.
func TestRepetitionIsShownAndCanBeDelivered(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	id, other := s.add("one", "B1", store.Delivered, time.Hour), s.add("one", "B2", store.Delivered, time.Hour)
	first, err := s.store.Get(t.Context(), id)
	must(t, err)
	again := first
	again.ID, again.Received = "cb_again", s.now
	if fresh, _, err := s.store.Accept(t.Context(), again, 25*time.Hour); fresh || err != nil {
		t.Fatal(fresh, err)
	}
	equal(t, strings.Count(s.page("/deliveries"), "sent again 1×"), 1)
	s.has("the callback", s.page("/deliveries/"+id), "Sent again by the upstream", "1×, not delivered again", "Deliver anyway…")
	lacks(t, s.page("/deliveries/"+other), "Deliver anyway")
	s.redirected("/deliveries/"+id+"/replay", "by=anna", "/deliveries/"+id+"?done=replay")
	equal(t, s.state(id), store.Waiting)
}

// Missing callbacks are listed with the reason why none was made, and one that was made from a read is marked.
func TestMissingCallbacksAreListed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newStored(t, "memory:", nil)
	s.hasNot("nothing is missing", s.page("/deliveries"), "Missing callbacks")
	must(t, s.store.Prove(ctx, partner.Of("one")))
	for bill, why := range map[string]string{"B1": "", "B2": "no_partner", hostile: hostile} {
		works(t)(s.store.Bind(ctx, store.Address{
			ID: bill, Upstream: "old", Operation: "bill.create", Partner: partner.Of("one"), Bill: bill, Form: "v2", URL: "http://127.0.0.1:1/", Created: s.now, Look: s.now,
		}))
		l, _, err := s.store.ClaimLook(ctx, partner.Of("one"), s.now)
		must(t, err)
		l.Shown, l.Since, l.Missing, l.Why = "paid", s.now, s.now, why
		must(t, s.store.EndLook(ctx, l, time.Time{}))
	}
	works(t)(s.store.Accept(ctx, store.Callback{
		ID: store.MadePrefix + "1", Address: "B3", Upstream: "old", Partner: partner.Of("one"), Bill: "B3", Form: "v2", URL: "http://127.0.0.1:1/", Host: "h", Order: "o", Says: "paid", Later: "paid",
		Received: s.now,
	}, time.Hour))
	s.has("English", s.page("/deliveries"), "Missing callbacks", "<code>B1</code>", "callbacks.reconcile.deliver is off", "The read has no partner key.", `<span class="tag">made from a read</span>`)
	s.has("the made one", s.page("/deliveries/"+store.MadePrefix+"1"), "This one has the values of a read of the bill.")
	_, body := get(t, s, "/deliveries", "ko")
	s.has("Korean", body, "누락된 콜백", "조회 결과에 파트너 키가 없음")
}

// Events are listed among the callbacks, without a partner and without the path of their destination, which is a secret.
func TestEventsAreListed(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	works(t)(s.store.Accept(t.Context(), store.Callback{
		ID: "ev_00112233445566778899aabbccddeeff", Upstream: config.NotifyUpstream, Form: config.Slack, URL: "https://hooks.example.com/T0/B0/chat", Host: "h",
		Order: "o", Once: true, Received: time.Now(),
	}, time.Hour))
	for _, path := range []string{"/deliveries", "/deliveries?upstream=notify", "/deliveries/ev_00112233445566778899aabbccddeeff"} {
		body := s.page(path)
		s.has(path, body, "ev_00112233445566778899aabbccddeeff", "–")
		s.hasNot(path, body, "chat")
		s.hasNot(path, body, `href="/partners/"`)
	}
}
