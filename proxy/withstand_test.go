package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// A siege is a gateway with all attacks at once, and one honest partner.
type siege struct {
	*kept
	ctx context.Context

	mu    sync.Mutex
	calls map[string]map[int]int // attacks, or the partner, by status; 0: the connection ended
	times []time.Duration        // of the partner's calls
	most  float64                // bytes of bodies
}

// attacks are what callers without a valid key can do, by name: how many do it at a time, and one turn of each.
var attacks = map[string]struct {
	attackers int
	turn      func(s *siege, from string, n int)
}{
	"half-sent bodies": {300, func(s *siege, from string, _ int) {
		s.halfSent("POST /bill HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\nX-Forwarded-For: " + from + "\r\n\r\n" + strings.Repeat(" ", 20_000))
	}},
	"half-sent headers": {50, func(s *siege, _ string, _ int) { s.halfSent("POST /bill HTTP/1.1\r\nHost: a\r\n") }},
	"invented keys": {8, func(s *siege, from string, n int) {
		s.attack("invented keys", v2("create").with("apiKey", fmt.Sprint("invented-", n)).with("callbackUrl", "https://partner.example.com/"), from)
	}},
	"invented keys that hang": {40, func(s *siege, from string, n int) {
		s.attack("invented keys that hang", v2("read").with("apiKey", fmt.Sprint("invented-", n)).with("billId", "HANGS"), from)
	}},
	"the partner's key that hangs": {80, func(s *siege, from string, _ int) {
		s.attack("the partner's key that hangs", v2("read").with("billId", "HANGS"), from)
	}},
	"large answers, read slowly": {20, func(s *siege, from string, _ int) {
		q := v2("read").with("billId", "LARGE")
		s.halfSent(strings.Replace(nextCall(q), "\r\n\r\n", "\r\nX-Forwarded-For: "+from+"\r\n\r\n", 1))
	}},
	"bad bodies": {8, func(s *siege, from string, n int) {
		for _, body := range []string{"{", strings.Repeat("[", 200_000), `{"apiKey":"a","apiKey":"b"}`, `{"apiKey":"` + "\xff" + `"}`} {
			got, err := s.callFrom(from, v2("create").path(), body)
			if err == nil {
				s.count("bad bodies", got.status)
			}
		}
	}},
}

// halfSent sends text and reads nothing until the gateway ends the connection, or for a while.
func (s *siege) halfSent(text string) {
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = io.WriteString(c, text)
	for range 40 { // the gateway resets it, or the attacker opens another one
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) || s.ctx.Err() != nil {
			return
		}
	}
}

func isTimeout(err error) bool { t, ok := err.(net.Error); return ok && t.Timeout() }

func (s *siege) callFrom(from, path, body string) (answer, error) {
	return doRequest(s.client, http.MethodPost, s.url+path, body, "X-Forwarded-For", from)
}

func (s *siege) attack(name string, q call, from string) {
	got, err := s.callFrom(from, q.path(), q.body())
	if err == nil {
		s.count(name, got.status)
	}
}

func (s *siege) count(name string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[name] == nil {
		s.calls[name] = map[int]int{}
	}
	s.calls[name][status]++
}

// partner calls like a shop: it bills, and reads the bill.
func (s *siege) partner(n int) {
	for _, op := range []string{"create", "read"} {
		q := v2(op).with("billId", fmt.Sprintf("HONEST%014d", n))
		began := time.Now()
		got, _ := s.callFrom("192.0.2.1", q.path(), q.body())
		s.count("partner", got.status)
		s.mu.Lock()
		s.times = append(s.times, time.Since(began))
		s.mu.Unlock()
	}
}

// While all attacks go on at once, memory and rows stay within their limits, and a partner's calls are answered: in the long
// form, which takes 10 minutes, fewer than 1 of 100 is refused.
func TestPartnerIsServedUnderAllAttacks(t *testing.T) {
	t.Parallel()
	service := newService()
	hang := make(chan struct{})
	defer close(hang)
	back := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		switch text := string(body); {
		case strings.Contains(text, "HANGS"):
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case strings.Contains(text, "LARGE"):
			replyWith(200, `{"code":"0000","message":"ok","data":{"apiKey":"`+demoKey+`","billId":"LARGE","apprState":"W","apprIssuer":"`+strings.Repeat("x", 2_000_000)+`"}}`).ServeHTTP(w, r)
		case strings.Contains(text, "invented"):
			replyWith(403, "<html>Forbidden</html>").ServeHTTP(w, r)
		default:
			service.ServeHTTP(w, r)
		}
	})
	s := &siege{kept: newKept(t, proxytest.SQLite(t), back), calls: map[string]map[int]int{}}
	s.client = newClient(t, nil)
	s.partner(0)
	ctx, end := context.WithTimeout(t.Context(), time.Duration(proxytest.Size(2, 600))*time.Second)
	defer end()
	s.ctx = ctx
	began, series := time.Now(), s.series()
	var running sync.WaitGroup
	for name, attack := range attacks {
		for a := range attack.attackers {
			running.Go(func() {
				for n := a; ctx.Err() == nil; n += attack.attackers {
					attack.turn(s, fmt.Sprintf("198.51.%d.%d", len(name), n%250), n)
				}
			})
		}
	}
	for n := 1; ctx.Err() == nil; n++ {
		s.partner(n)
		if n%10 == 0 {
			s.most = max(s.most, heldBytes(s.process))
		}
	}
	running.Wait()
	s.report(time.Since(began), series)
}

// series is the number of series of the gateway.
func (s *siege) series() int { return strings.Count(s.metrics(), "\nbillbridge_") }

func (s *siege) report(took time.Duration, series int) {
	calls := s.calls["partner"]
	all, refused := 0, 0
	for _, n := range calls {
		all += n
	}
	refused = all - calls[200]
	slices.Sort(s.times)
	rows := s.rows()
	s.t.Logf("%s: median %s, p99 %s; calls by status: %v; at most %.1f MiB of bodies; rows %v; %d series before, %d after", took.Round(time.Second),
		s.times[len(s.times)/2], s.times[len(s.times)*99/100], s.calls, s.most/(1<<20), rows, series, s.series())
	// The short form makes too few calls for 1 of 100: on a busy machine a handful.
	if all > 1000 && refused*100 > all {
		s.t.Errorf("%d of %d calls of the partner are refused", refused, all)
	}
	if s.most > 256<<20 {
		s.t.Errorf("%.0f bytes of bodies", s.most)
	}
	// From each of 64 groups of sources 1,000 calls and one each 10 s, and the partner's, with up to three rows each.
	if n, most := rows["addresses"]+rows["owners"]+rows["unknown"], 3*(64_000+7*int(took.Seconds())+all); n > most {
		s.t.Errorf("%d rows, want at most %d", n, most)
	}
}
