package relay_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/store"
	"billbridge/translate"
)

// waiting is a testRelay on which one callback waits for its first attempt, and its clock.
func waiting(t testing.TB, form translate.Form, callbacks string) (*testRelay, *clock) {
	t.Helper()
	c := newClock()
	s := newTestRelay(t, setup{callbacks: callbacks, now: c.now})
	s.accept(s.bind(asked(form, "https://partner.example.com/paid")), inV2)
	return s, c
}

// The whole request to a partner, at the first attempt and at the second.
func TestRequestsToPartners(t *testing.T) {
	t.Parallel()
	type got struct {
		Method, URI, Host, Body string
		Header                  http.Header
		Length                  int64
		Coding                  []string
	}
	var all []got
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		all = append(all, got{r.Method, r.RequestURI, r.Host, string(body), r.Header, r.ContentLength, r.TransferEncoding})
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("WWW-Authenticate", "Basic")
		if len(all) == 1 {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, documented["legacy"])
	}))
	defer partner.Close()
	s, clock := clocked(t, setup{callbacks: reachable})
	s.accept(s.bind(asked("legacy", partner.URL+"/a%2Fb/?token=a%20b&&x;y&l[]=1|2#fragment ")), strings.Replace(inV2, `\uc2e0\ud55c`, "신한", 1),
		"Authorization", "Bearer upstream", "Cookie", "c=d", "X-Forwarded-For", "192.0.2.1", "User-Agent", "upstream", "Webhook-Id", "upstream", "Traceparent", "x")
	c := s.only()
	var want []got
	for range 2 {
		clock.set(s.only().Next.Add(1500 * time.Millisecond))
		want = append(want, got{"POST", "/a%2Fb/?token=a%20b&&x;y&l%5B%5D=1%7C2", strings.TrimPrefix(partner.URL, "http://"), inLegacy, http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {strconv.Itoa(len(inLegacy))}, "User-Agent": {"billbridge/test"},
			"Webhook-Id": {c.ID}, "Webhook-Timestamp": {strconv.FormatInt(clock.now().Unix(), 10)},
		}, int64(len(inLegacy)), nil})
		s.round()
	}
	equal(t, all, want)
	if c := s.only(); c.State != store.Delivered || c.Attempts != 2 {
		t.Errorf("%+v", c)
	}
}

// What RFC 3986 does not allow in an address is escaped, and nothing twice: strict servers refuse such a request line.
// Blanks around the address are cut.
func TestAddressesAreEscaped(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"/paid?shop=my shop": "/paid?shop=my%20shop", "/my shop?x HTTP/1.1": "/my%20shop?x%20HTTP/1.1", "/paid?shop=한&a=b": "/paid?shop=%ED%95%9C&a=b",
		"/paid?a=%20+b&c=%zz&&='|;d": "/paid?a=%20+b&c=%25zz&&='%7C;d", "/paid?": "/paid?", "/paid": "/paid",
		"/?list[]=1&a=1|2": "/?list%5B%5D=1&a=1%7C2", `/?q={"k":"v"}`: "/?q=%7B%22k%22:%22v%22%7D", "/?x=^`<\\>": "/?x=%5E%60%3C%5C%3E",
		"/paid?x=1 ": "/paid?x=1", "/paid \t\r\n": "/paid", "/paid?x=%7c%5B%": "/paid?x=%7c%5B%25", "/a%2Fb|[c]/한?": "/a%2Fb%7C%5Bc%5D/%ED%95%9C?",
		"/-._~!$&'()*+,;=:@/?-._~!$&'()*+,;=:@/?": "/-._~!$&'()*+,;=:@/?-._~!$&'()*+,;=:@/?", "/paid?x=1#a|b": "/paid?x=1",
	} {
		s := newTestRelay(t, setup{})
		got := ""
		s.carry(func(r *http.Request) (*http.Response, error) {
			got = r.URL.RequestURI()
			return reply(200, documented["v2"]), nil
		})
		s.accept(s.bind(asked("v2", " https://partner.example.com"+given)), inV2)
		if s.round(); got != want {
			t.Errorf("%s is called as %s, want %s", given, got, want)
		}
	}
}

// Retry-After counts if it is longer than the schedule, up to a day.
func TestR31_RetryAfter(t *testing.T) {
	t.Parallel()
	at := newClock().now()
	const gap = 10 * time.Minute
	check := func(status int, given string, want time.Duration) {
		t.Helper()
		s, clock := waiting(t, "v2", ", schedule: [0s, 10m, 10m]")
		s.Carry(always(status, "", "Retry-After", given))
		s.round()
		equal(t, s.only().Next.Sub(clock.now()), want, status, given)
	}
	for _, status := range []int{503, 429, 302, 200, 201} {
		check(status, "1200", 20*time.Minute)
	}
	for want, all := range map[time.Duration][]string{
		gap: {
			"", "0", "599", "-1200", "+1200", "1200.5", "1200s", "20m", "soon", "1200, 1200",
			at.Add(time.Minute).Format(http.TimeFormat), at.Add(-time.Hour).Format(http.TimeFormat), "Mon, 01 Jan 0001 00:00:00 GMT",
		},
		601 * time.Second: {"601"},
		time.Hour:         {at.Add(time.Hour).Format(http.TimeFormat)},
		24 * time.Hour: {
			"86400", "86401", "2147483647", "2147483648", "99999999999999999999999",
			at.AddDate(0, 0, 2).Format(http.TimeFormat), "Fri, 31 Dec 9999 23:59:59 GMT",
		},
	} {
		for _, given := range all {
			check(503, given, want)
		}
	}
	// The last failure stays the last, and 410 the end.
	for _, answer := range []carrier{always(503, "", "Retry-After", "1200"), always(410, "", "Retry-After", "1200")} {
		s, _ := waiting(t, "v2", ", schedule: [0s]")
		s.Carry(answer)
		if s.round(); s.only().State != store.Dead {
			t.Errorf("%+v", s.only())
		}
	}
}

// Redirects are not followed, whatever their target and method: no part of the callback is sent there.
func TestR33_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	visits := make(chan string, 100)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { visits <- r.Method + r.RequestURI }))
	defer target.Close()
	var answer http.Handler
	seen := 0
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen++; answer.ServeHTTP(w, r) }))
	defer partner.Close()
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for n, location := range []string{target.URL + "/internal", "//" + strings.TrimPrefix(target.URL, "http:") + "/x", "/again", "", "ftp://x/", "http://[::1"} {
			answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", location)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, documented["v2"])
			})
			s := newTestRelay(t, setup{callbacks: reachable})
			s.deliverable(partner.URL, bill)
			s.round()
			if c := s.only(); c.LastOutcome != "redirected" || c.LastStatus != status || c.State != store.Waiting {
				t.Errorf("%d %d: %+v", status, n, c)
			}
		}
	}
	equal(t, seen, 7*6, "one attempt each")
	if len(visits) > 0 {
		t.Errorf("the target was visited: %s", <-visits)
	}
}

// tries makes one attempt at a real partner and returns its result.
func tries(t *testing.T, callbacks string, partner http.HandlerFunc) store.Callback {
	t.Helper()
	server := httptest.NewServer(partner)
	s := newTestRelay(t, setup{callbacks: reachable + callbacks})
	s.accept(s.bind(asked("v2", server.URL)), inV2)
	done := make(chan int, 1)
	go func() { done <- s.round() }()
	receive(t, done, "end of the attempt")
	t.Cleanup(server.Close)
	return s.only()
}

// An attempt ends at its time limit, without an answer or with half an answer.
func TestAttemptsHaveATimeLimit(t *testing.T) {
	t.Parallel()
	for status, answers := range map[int]carrier{
		0: hung,
		200: func(r *http.Request) (*http.Response, error) {
			res := reply(200, "")
			res.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"code":`), hanging{r}))
			return res, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestRelay(t, setup{callbacks: ", timeout: 7s"})
			s.deliverable("https://partner.example.com/", "A")
			s.Carry(answers)
			begun := time.Now()
			s.round()
			if c := s.only(); c.LastOutcome != "timeout" || c.LastStatus != status || time.Since(begun) != 7*time.Second || c.State != store.Waiting || !strings.Contains(s.attempts()[0].Reason, "within 7s") {
				t.Errorf("%s %d after %s", c.LastOutcome, c.LastStatus, time.Since(begun))
			}
		})
	}
}

// hanging is the rest of a body that does not come.
type hanging struct{ r *http.Request }

func (h hanging) Read([]byte) (int, error) {
	_, err := hung(h.r)
	return 0, err
}

// An endless answer is not read to its end, and the connection is closed.
func TestEndlessAnswersAreNotReadToTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		success, outcome string
		status           int
	}{
		{"documented", "answer", 200}, {"any-2xx", "delivered", 200}, {"documented", "status", 500},
	} {
		t.Run(fmt.Sprint(c.success, " ", c.status), func(t *testing.T) {
			t.Parallel()
			gone := make(chan bool, 1)
			got := tries(t, ", success: "+c.success, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // until then the server does not look whether the client has gone
				w.WriteHeader(c.status)
				for write(w, strings.Repeat(" ", 1<<10)) {
				}
				gone <- true
			})
			receive(t, gone, "end of the connection")
			if got.LastOutcome != c.outcome || got.LastStatus != c.status {
				t.Errorf("%s %d", got.LastOutcome, got.LastStatus)
			}
		})
	}
}

func write(w http.ResponseWriter, text string) bool {
	_, err := io.WriteString(w, text)
	return err == nil && http.NewResponseController(w).Flush() == nil
}

// An answer 101 ends the time limit of net/http for the connection. Without another limit one partner could hold all attempts, and
// the process could not end.
func TestSwitchedProtocolDoesNotHoldAnAttempt(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	got := tries(t, "", func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * patience))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, err = io.Copy(io.Discard, buffered)
		gone <- err == nil
	})
	if got.LastOutcome != "status" || got.LastStatus != 101 || !receive(t, gone, "end of the connection") {
		t.Errorf("%s %d", got.LastOutcome, got.LastStatus)
	}
}
