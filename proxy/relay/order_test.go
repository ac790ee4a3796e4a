package relay_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/translate"

	"github.com/tidwall/gjson"
)

// gate is a partner that answers no request until it is opened.
type gate struct {
	mu             sync.Mutex
	inside, inmost map[string]int // by host
	delivered      map[string]int // by webhook-id
	shut           map[string]chan struct{}
	order          []string
}

func newGate(hosts ...string) *gate {
	g := &gate{inside: map[string]int{}, inmost: map[string]int{}, delivered: map[string]int{}, shut: map[string]chan struct{}{}}
	for _, host := range hosts {
		g.shut[host] = make(chan struct{})
	}
	return g
}

func (g *gate) carry(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	g.mu.Lock()
	g.inside[host]++
	g.inmost[host] = max(g.inmost[host], g.inside[host])
	g.order = append(g.order, r.URL.Path)
	g.mu.Unlock()
	defer func() { g.mu.Lock(); g.inside[host]--; g.mu.Unlock() }()
	if shut := g.shut[host]; shut != nil {
		select {
		case <-shut:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	g.mu.Lock()
	g.delivered[r.Header.Get("Webhook-Id")]++
	g.mu.Unlock()
	return reply(200, `{"code":"0000"}`), nil
}

func (g *gate) now() (inside, delivered, order int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.inside {
		inside += n
	}
	return inside, len(g.delivered), len(g.order)
}

// deliverable accepts a callback of a bill at an address of its own.
func (s *testRelay) deliverable(address, bill string, more ...string) {
	s.t.Helper()
	s.deliverableTo(key, address, bill, more...)
}

// deliverableTo is the same for the partner with a key.
func (s *testRelay) deliverableTo(key, address, bill string, more ...string) {
	s.t.Helper()
	a := asked("v2", address)
	a.Partner, a.Bill = partner.Of(key), bill
	s.accept(s.bind(a), notice("v2", key, bill, more...))
}

// A partner with many hosts that all hang does not use up the attempts of others.
func TestR31_PartnerWithManyHostsDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{callbacks: tuned(func(c *config.Callbacks) { c.AtOnce, c.PerHost = 16, 2 }) + ", timeout: 45s"})
		var dead []string
		for i := range 40 {
			dead = append(dead, fmt.Sprintf("shop-%d.example.com", i))
		}
		g := newGate(dead...)
		s.carry(g.carry)
		stop := s.start()
		for i, host := range dead {
			s.deliverable("https://"+host+"/", fmt.Sprintf("dead-%d", i))
		}
		synctest.Wait()
		if inside, _, _ := g.now(); inside != 4 { // a quarter of at_once
			t.Errorf("%d attempts at the dead one", inside)
		}
		begun := time.Now()
		for i := range 50 {
			s.deliverableTo("another-key", "https://alive.example.com/", fmt.Sprintf("alive-%d", i))
		}
		synctest.Wait() // until nothing can go on but by time
		if _, delivered, _ := g.now(); delivered != 50 || time.Since(begun) != 0 {
			t.Errorf("%d delivered after %s", delivered, time.Since(begun))
		}
		for _, host := range dead {
			close(g.shut[host])
		}
		synctest.Wait()
		if _, delivered, _ := g.now(); delivered != 90 {
			t.Errorf("%d delivered", delivered)
		}
		stop()
	})
}

// reports accepts callbacks of the bill in states.
func (s *testRelay) reports(path string, states ...string) {
	s.t.Helper()
	for _, state := range states {
		s.accept(path, notice("v2", key, bill, `,"apprState":"`+state+`"`))
	}
}

// registration is an address that a merchant gave when it registered.
func registration(form translate.Form, merchant, address string) relay.Binding {
	return relay.Binding{Upstream: "up", Operation: "mapping.register", Form: form, Partner: partner.Of(key), Member: "m", Merchant: merchant, URL: address}
}

// A status that returns after another one is delivered again. The partner gets all three in order, however often the upstream repeats
// each of them, also if the merchant has registered again with another address meanwhile.
func TestRegistrationStatusThatReturnsIsDelivered(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s, 1m]"})
	var got []string
	status := 500
	s.carry(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		if status == 200 {
			got = append(got, string(body))
		}
		return reply(status, documented["v2"]), nil
	})
	path := s.registered("s")
	other := s.bind(registration("v2", "t", "https://partner.example.com/"))
	send := func(path, merchant, status string) {
		t.Helper()
		s.accept(path, fmt.Sprintf(`{"apiKey":%q,"merchant":%q,"status":%q}`, key, merchant, status))
	}
	for i, status := range []string{"PAUSED", "COMPLETED", "PAUSED"} {
		if i == 1 {
			path = s.bind(registration("v2", "s", "https://partner.example.com/new"))
		}
		send(path, "s", status)
		send(path, "s", status) // our answer was lost
	}
	send(other, "t", "PAUSED")
	if n := len(s.stored()); n != 4 {
		t.Fatalf("%d callbacks are stored", n)
	}
	if n := s.round(); n != 2 { // the first of each merchant
		t.Fatalf("%d attempts begin", n)
	}
	status = 200
	clock.add(time.Minute)
	for s.round() > 0 {
	}
	inOrder := slices.DeleteFunc(got, func(body string) bool { return strings.Contains(body, `"merchant":"t"`) })
	want := "PAUSED COMPLETED PAUSED"
	var statuses []string
	for _, body := range inOrder {
		statuses = append(statuses, gjson.Get(body, "status").Str)
	}
	equal(t, strings.Join(statuses, " "), want, statuses)
	s.counts("billbridge_callbacks_repeated_total", `{upstream="up"} 3`)
}

// The state of a bill does not come back: a "paid" after a "cancelled" is a repetition whose acknowledgement was lost. That holds for
// the address of a bill, also without a known id, and for that of a registration. A table can say otherwise.
func TestPaidAfterCancelledIsARepetition(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		overlay string
		ask     func() relay.Binding
		bill    string
		want    int
	}{
		"bill":         {"{}", func() relay.Binding { return asked("v2", "https://partner.example.com/") }, bill, 2},
		"unknown id":   {"{}", func() relay.Binding { a := asked("v2", "https://partner.example.com/"); a.Bill = ""; return a }, "", 2},
		"registration": {"{}", func() relay.Binding { return registration("v2", "s", "https://partner.example.com/") }, bill, 2},
		"it returns":   {"{}", func() relay.Binding { return registration("v2", "s", "https://partner.example.com/") }, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "overlay.yaml")
			proxytest.WriteFile(t, file, row.overlay)
			s := newTestRelay(t, setup{top: "table: {overlay: '" + file + "'}\n"})
			path := s.bind(row.ask())
			for _, state := range []string{"F", "C", "F"} {
				for range 2 {
					s.accept(path, notice("v2", key, row.bill, `,"apprState":"`+state+`"`))
				}
			}
			equal(t, len(s.stored()), row.want, "callbacks are stored")
		})
	}
}

// Callbacks without a bill are delivered in the order of their address: that of a merchant, or of one bill without a known id.
func TestOrderOfCallbacksWithoutABill(t *testing.T) {
	t.Parallel()
	for _, ofBill := range []bool{false, true} {
		s, _ := clocked(t, setup{})
		a := asked("v2", "https://partner.example.com/")
		a.OfBill, a.Bill = ofBill, ""
		path := s.bind(a)
		s.accept(path, `{"one":"that nobody knows"}`)
		s.Carry(always(500, ""))
		s.round()
		s.accept(path, `{"another":""}`)
		s.Carry(success)
		equal(t, s.round(), 0, ofBill)
	}
}

// The names of a merchant may be as long as an address takes them; an index of PostgreSQL may not.
func TestOrderOfAMerchantWithLongNames(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := newTestRelay(t, setup{store: url})
		long := make([]byte, 2000) // that PostgreSQL cannot compress enough
		for i := range long {
			long[i] = 1 + sha256.Sum256(fmt.Append(nil, i))[0]%127
		}
		a := registration("v2", string(long[:1000]), "https://partner.example.com/")
		a.Member = string(long[1000:])
		s.accept(s.bind(a), `{"status":"PAUSED"}`)
		s.only()
	})
}

// All spellings of a host are one host, which limits its attempts; another port is another host.
func TestSpellingsOfOneHostAreOneHost(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{callbacks: ", ports: []"})
	for i, spelled := range []string{"dead.example.com", "DEAD.example.com:80", "dead.example.com.:80", "dead.example.com:81"} {
		s.deliverable("http://"+spelled+"/", fmt.Sprint(i))
		equal(t, s.stored()[i].Host == s.stored()[0].Host, i < 3, s.stored()[i].Host)
	}
}

// There are never more attempts than the config allows, and the end of each one lets the next begin.
func TestConcurrentAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{callbacks: tuned(func(c *config.Callbacks) { c.AtOnce = 5 })})
		g := newGate()
		shut := make(chan struct{})
		for i := range 20 {
			host := fmt.Sprintf("host-%d.example.com", i)
			g.shut[host] = shut
			s.deliverableTo(fmt.Sprint("key-", i), "https://"+host+"/", fmt.Sprint(i))
		}
		s.carry(g.carry)
		stop := s.start()
		for want := 5; want <= 20; want++ {
			synctest.Wait()
			if inside, _, order := g.now(); inside != min(5, 25-want) && inside != 5 || order != want {
				t.Fatalf("%d attempts at once, %d in all, want %d", inside, order, want)
			}
			shut <- struct{}{}
		}
		close(shut)
		synctest.Wait()
		stop()
		if _, delivered, _ := g.now(); delivered != 20 {
			t.Errorf("%d delivered", delivered)
		}
	})
}
