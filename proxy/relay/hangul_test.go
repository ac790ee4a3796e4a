package relay_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy/store"
)

// A non-ASCII host is called by its converted name, in the connection and in the Host header.
func TestHangulHostIsCalled(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		_, _ = io.WriteString(w, documented["v2"])
	}))
	t.Cleanup(partner.Close)
	address := strings.Replace(partner.URL, "127.0.0.1", "１２７。０.０.１", 1) // the one such name that needs no DNS
	s := newTestRelay(t, setup{callbacks: reachable})
	s.deliverable(address+"/paid", "A")
	s.round()
	if c := s.only(); c.State != store.Delivered || c.Host != partner.Listener.Addr().String() {
		t.Errorf("%+v", c)
	}
	equal(t, receive(t, asked, "call"), partner.Listener.Addr().String())

	s = newTestRelay(t, setup{})
	var hosts []string
	s.Carry(carrier(func(r *http.Request) (*http.Response, error) {
		hosts = append(hosts, r.URL.Host+" "+r.Host)
		return reply(200, documented["v2"]), nil
	}))
	s.deliverable("https://한글.example/paid", "A")
	s.round()
	if want := "xn--bj0bj06e.example xn--bj0bj06e.example"; len(hosts) != 1 || hosts[0] != want {
		t.Errorf("called as %v", hosts)
	}
}
