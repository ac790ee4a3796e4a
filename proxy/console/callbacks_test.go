package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A superseded callback has a tab and says why it ended. The preview of its replay has the reason against it, and confirming it overrides that.
func TestReplayOfASupersededCallback(t *testing.T) {
	t.Parallel()
	s := newStored(t)
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

// With 10,000 names of partners the pages are not larger than with 500, and a name is still found.
func TestManyPartnersDoNotMakePagesLarge(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	id := s.add("one", "B1", store.Dead, time.Hour)
	c := *s.Config()
	for i := range 10_000 {
		c.Partners = append(c.Partners, config.Partner{Hash: string(partner.Of(fmt.Sprint("key", i))), Name: fmt.Sprintf("Partner %d", i)})
	}
	slices.SortFunc(c.Partners, func(a, b config.Partner) int { return strings.Compare(a.Hash, b.Hash) })
	s.Config = func() *config.Config { return &c }
	for _, page := range []string{"/deliveries", "/bills", "/bills?bill=B1"} {
		if body := s.page(page); len(body) > 150_000 {
			t.Errorf("%s has %d bytes", page, len(body))
		}
	}
	for page, says := range map[string]string{"/deliveries": "No callback matches", "/bills": ""} {
		s.has(page, s.page(page+"?bill="+strings.Repeat("x", 50_000)), says)
	}
	s.has("the callbacks of one", s.page("/deliveries?partner=hana+clinic"), id, "Hana Clinic")
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
	s := newStored(t)
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
	s := newStored(t)
	s.hasNot("nothing is missing", s.page("/deliveries"), "Missing callbacks")
	must(t, s.store.Prove(ctx, partner.Of("one")))
	for bill, why := range map[string]string{"B1": "", "B2": "no_partner", hostile: hostile} {
		works(t)(s.store.Bind(ctx, store.Address{
			ID: bill, Upstream: "old", Operation: "bill.create", Partner: partner.Of("one"), Bill: bill, Form: "v2", URL: "http://127.0.0.1:1/", Created: s.now, Look: s.now,
		}))
		r, err := s.store.ClaimRead(ctx, partner.Of("one"), store.Due{Looks: s.now}, s.now)
		must(t, err)
		l := r.Looks[0]
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
	s := newStored(t)
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
