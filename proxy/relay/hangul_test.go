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
}
