package relay_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/store"
	"billbridge/proxy/store/storetest"
)

// gate is a partner that lets nobody through until it is told to. In a bubble, what cannot go on does not.
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
func (s *station) deliverable(address, bill string, more ...string) {
	s.t.Helper()
	a := asked("v2", address)
	a.Bill = bill
	s.accept(s.bind(a), notice("v2", key, bill, more...))
}

// The second callback of a bill waits for the first: while that is tried, while it waits for its next attempt, and
// until it is delivered or dead. Other bills of the same partner do not wait.
func TestCallbacksOfABillKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for _, end := range []store.State{store.Delivered, store.Dead} {
		t.Run(string(end), func(t *testing.T) {
			t.Parallel()
			clock := newClock()
			s := newStation(t, setup{form: "v2", callbacks: ", schedule: [0s, 1m], jitter: 0", now: clock.now})
			entered, leave := make(chan string, 10), make(chan int)
			s.Carry(carrier(func(r *http.Request) (*http.Response, error) {
				entered <- r.URL.Path
				if r.URL.Path == "/first" {
					return reply(<-leave, documented["v2"]), nil
				}
				return reply(200, documented["v2"]), nil
			}))
			s.deliverable("https://partner.example.com/first", "A")
			s.deliverable("https://partner.example.com/second", "A")
			s.deliverable("https://another.example.com/third", "A")
			s.deliverable("https://partner.example.com/other", "B")
			begins := func(want ...string) *sync.WaitGroup {
				t.Helper()
				var attempts sync.WaitGroup
				n, err := s.Round(t.Context(), &attempts)
				if err != nil || n != len(want) {
					t.Fatalf("%d attempts begin, want %v, %v", n, want, err)
				}
				got := map[string]bool{}
				for range want {
					got[receive(t, entered, "attempt")] = true
				}
				for _, path := range want {
					if !got[path] {
						t.Fatalf("got %v, want %v", got, want)
					}
				}
				return &attempts
			}
			underWay := begins("/first", "/other")
			begins() // while the first is being tried
			leave <- 500
			underWay.Wait()
			begins() // while it waits
			clock.add(time.Minute)
			underWay = begins("/first")
			begins()
			leave <- map[store.State]int{store.Delivered: 200, store.Dead: 500}[end]
			underWay.Wait()
			begins("/second").Wait()
			begins("/third").Wait()
			if all := s.stored(); all[0].State != end || all[1].State != store.Delivered || all[2].State != store.Delivered || all[3].State != store.Delivered {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestR31_OneDeadPartnerDelaysNoOther: hundreds wait for a host that hangs, and all others are delivered while it does.
// No host ever has more than its share, nor all of them more than there is.
func TestR31_OneDeadPartnerDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t, setup{form: "v2", callbacks: ", at_once: 12, per_host: 3, timeout: 45s"})
		g := newGate("dead.example.com:8080")
		s.Carry(carrier(g.carry))
		stop := s.start()
		for i := range 300 {
			s.deliverable("http://dead.example.com:8080/", fmt.Sprintf("dead-%d", i))
		}
		synctest.Wait()
		if inside, delivered, _ := g.now(); inside != 3 || delivered != 0 {
			t.Errorf("%d attempts at the dead one, %d delivered", inside, delivered)
		}
		begun := time.Now()
		for i := range 120 {
			s.deliverable(fmt.Sprintf("https://host-%d.example.com/", i%6), fmt.Sprintf("alive-%d", i))
		}
		synctest.Wait() // until nothing can go on but by time
		if inside, delivered, _ := g.now(); inside != 3 || delivered != 120 || time.Since(begun) != 0 {
			t.Errorf("%d attempts at the dead one, %d delivered after %s", inside, delivered, time.Since(begun))
		}
		close(g.shut["dead.example.com:8080"])
		synctest.Wait()
		if _, delivered, _ := g.now(); delivered != 420 {
			t.Errorf("%d delivered", delivered)
		}
		for host, n := range g.inmost {
			if n > 3 {
				t.Errorf("%d at once at %s", n, host)
			}
		}
		stop()
	})
}

// A store that does not answer holds the deliverer up for a time, not for good.
func TestClaimsThatGetNoAnswer(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	s := newStation(t, setup{form: "v2", store: url})
	s.Carry(always(200, documented["v2"]))
	s.ClaimWithin(50 * time.Millisecond)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	s.deliverable("https://partner.example.com/", "1")
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE billbridge_callbacks IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var attempts sync.WaitGroup
	if n, err := s.Round(t.Context(), &attempts); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d claimed, %v", n, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.ClaimWithin(patience)
	if n := s.round(); n != 1 {
		t.Errorf("%d claimed afterwards", n)
	}
}

// One host under several spellings is one, and another port is another.
func TestHostsAreToldApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t, setup{form: "v2", callbacks: ", per_host: 1, ports: []"})
		g := newGate("dead.example.com", "DEAD.example.com:80", "dead.example.com.:80", "dead.example.com:81")
		s.Carry(carrier(g.carry))
		for i, host := range []string{"dead.example.com", "DEAD.example.com:80", "dead.example.com.:80", "dead.example.com:81"} {
			s.deliverable("http://"+host+"/", fmt.Sprint(i))
		}
		stop := s.start()
		synctest.Wait()
		if inside, _, _ := g.now(); inside != 2 {
			t.Errorf("%d attempts at once", inside)
		}
		for _, shut := range g.shut {
			close(shut)
		}
		stop()
	})
}

// There are never more attempts than the config allows, and every one that ends makes room for the next.
func TestAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t, setup{form: "v2", callbacks: ", at_once: 5"})
		g := newGate()
		shut := make(chan struct{})
		for i := range 20 {
			host := fmt.Sprintf("host-%d.example.com", i)
			g.shut[host] = shut
			s.deliverable("https://"+host+"/", fmt.Sprint(i))
		}
		s.Carry(carrier(g.carry))
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

// Two relays that share a store deliver each callback once.
func TestTwoRelaysOnOneStore(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory:", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == "sqlite" {
				kind = "sqlite:" + t.TempDir() + "/store.db"
			}
			o := setup{form: "v2", callbacks: ", at_once: 8", store: kind}
			first := newStation(t, o)
			second := onStore(t, o, first.store)
			var mu sync.Mutex
			seen, all := map[string]int{}, make(chan struct{})
			for _, s := range []*station{first, second} {
				s.Carry(carrier(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					if seen[r.Header.Get("Webhook-Id")]++; len(seen) == 200 {
						select {
						case <-all:
						default:
							close(all)
						}
					}
					return reply(200, documented["v2"]), nil
				}))
			}
			for i := range 200 {
				[]*station{first, second}[i%2].deliverable(fmt.Sprintf("https://host-%d.example.com/", i%7), fmt.Sprint(i))
			}
			stopFirst, stopSecond := first.start(), second.start()
			receive(t, all, "end of the deliveries")
			stopFirst()
			stopSecond()
			for id, n := range seen {
				if n != 1 {
					t.Errorf("%s was delivered %d times", id, n)
				}
			}
			for _, c := range first.stored() {
				if c.State != store.Delivered || c.Attempts != 1 {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// Run ends when it is told to: what is on its way comes to its end and is written down, and nothing else is begun.
func TestRunEndsWithItsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t, setup{form: "v2", callbacks: ", per_host: 1"})
		g := newGate("partner.example.com")
		s.Carry(carrier(g.carry))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		s.deliverable("https://partner.example.com/", "A")
		s.deliverable("https://partner.example.com/", "B")
		synctest.Wait()
		cancel()
		s.deliverable("https://other.example.com/", "C")
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Run ended before its attempt")
		default:
		}
		g.shut["partner.example.com"] <- struct{}{}
		<-done
		all := s.stored()
		if _, delivered, order := g.now(); delivered != 1 || order != 1 || all[0].State != store.Delivered || all[1].State != store.Waiting || all[2].State != store.Waiting {
			t.Errorf("%d delivered of %d: %+v", delivered, order, all)
		}
	})
}

// A store that fails for a while ends nothing, and a delivery that could not be written down is made again.
func TestRunSurvivesItsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t, setup{form: "v2"})
		s.deliverable("https://partner.example.com/", "A")
		_ = s.store.Close()
		stop := s.start()
		time.Sleep(time.Minute)
		stop()
		if n := len(s.logs.String()); n == 0 || n > 10_000 {
			t.Errorf("%d bytes of log", n)
		}
	})
}
