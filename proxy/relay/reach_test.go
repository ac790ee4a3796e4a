package relay_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// untouched is a listener to which no connection may be made, and its port.
func untouched(t *testing.T) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() {
		defer listener.Close()
		must(t, listener.(*net.TCPListener).SetDeadline(time.Unix(1, 0)))
		// What was connected before is accepted all the same.
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			t.Error("it was connected")
		}
	})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}

// An address that was allowed when it was bound is checked again at each attempt, by the current config.
func TestR32_AddressesAreCheckedAtEachAttempt(t *testing.T) {
	t.Parallel()
	port := untouched(t)
	for _, address := range []string{"http://localhost:" + port + "/", "http://127.0.0.1:" + port + "/"} {
		for name, narrow := range map[string]string{
			"network": ", ports: []", "port": `, ports: [1], allow: [127.0.0.0/8, "::1/128"]`, "scheme": reachable + ", https_only: true",
		} {
			s := newTestRelay(t, setup{callbacks: reachable})
			s.deliverable(address, "A")
			s.Use(setup{callbacks: narrow}.config(t))
			if s.round(); s.only().LastOutcome != "address" {
				t.Errorf("%s, another %s: %+v", address, name, s.only())
			}
		}
	}
}

// Callbacks to a host that is not allowed do not delay those to others.
func TestRefusedHostDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{callbacks: reachable + tuned(func(c *config.Callbacks) { c.PerHost = 1 })})
	path := s.bind(asked("v2", "http://127.0.0.1:1/"))
	s.Use(setup{callbacks: tuned(func(c *config.Callbacks) { c.PerHost = 1 })}.config(t))
	s.Carry(success)
	s.accept(path, inV2) // the upstream knows the address, so it is taken
	s.deliverable("https://partner.example.com/", "B")
	equal(t, s.round(), 2, "attempts")
	if all := s.stored(); all[0].LastOutcome != "address" || all[1].State != store.Delivered {
		t.Errorf("%+v", all)
	}
}

// With a config without callbacks no more addresses are replaced. Earlier addresses still work: upstreams have them.
func TestAddressesWorkAfterTheSectionIsRemoved(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s], success: any-2xx"})
	path := s.path("legacy")
	s.accept(path, inV2)
	s.Use(proxytest.Config(t, "upstreams: {up: {form: v2, url: \"http://127.0.0.2:9\", timeout: 20s}}\nstore: {url: sqlite:unused.db}\n"))
	const theirs = "https://partner.example.com/another"
	gives(t, theirs)(s.Bind(t.Context(), asked("legacy", theirs)))
	s.accept(path, notice("v2", key, bill, `,"apprPrice":"1"`))
	s.Carry(always(201, ""))
	s.round()
	if c := s.stored()[0]; c.State != store.Waiting || c.LastOutcome != "answer" { // by the defaults
		t.Errorf("%+v", c)
	}
	s.Carry(always(200, documented["legacy"]))
	for range 2 {
		clock.add(time.Minute)
		s.round()
	}
	for _, c := range s.stored() {
		equal(t, c.State, store.Delivered, c)
	}
}

// A panic in an attempt is a failed attempt: the next attempt is made, and nothing else is affected.
func TestR40_PanicInAnAttempt(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s, 1m]"})
	s.deliverable("https://partner.example.com/", "A")
	s.carry(func(*http.Request) (*http.Response, error) { panic("what a partner answered") })
	s.round()
	if c := s.stored()[0]; c.State != store.Waiting || c.LastOutcome != "internal" || c.Attempts != 1 {
		t.Errorf("%+v", c)
	}
	s.Carry(success)
	clock.add(time.Minute)
	s.round()
	equal(t, s.stored()[0].State, store.Delivered)
}

// An attempt ends with the config that it began with; the next one uses the current config.
func TestReloadDuringAnAttempt(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s, 1m]"})
	next := setup{callbacks: ", schedule: [0s, 1h, 2h], success: any-2xx"}
	s.deliverable("https://partner.example.com/", "A")
	s.carry(func(*http.Request) (*http.Response, error) {
		s.Use(next.config(t))
		return reply(202, ""), nil
	})
	s.round()
	if c := s.only(); c.State != store.Waiting || c.Next.Sub(clock.now()) != time.Minute {
		t.Errorf("%+v", c)
	}
	clock.add(time.Minute)
	s.Carry(always(500, ""))
	s.round()
	if c := s.only(); c.State != store.Waiting || c.Next.Sub(clock.now()) != 2*time.Hour {
		t.Errorf("%+v", c)
	}
	clock.add(2 * time.Hour)
	s.Carry(always(202, ""))
	if s.round(); s.only().State != store.Delivered {
		t.Errorf("%+v", s.only())
	}
	lacks(t, s.logs.String(), "partner.example.com")
}

// Callbacks are sent directly to the address that the guard has checked: a proxy would resolve names itself.
func TestNoProxyIsUsed(t *testing.T) {
	t.Parallel()
	if newTestRelay(t, setup{}).Transport().Proxy != nil {
		t.Error("there is one")
	}
}
