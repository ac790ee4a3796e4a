package relay_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Two keys of one partner: a callback may name either, whichever key the address came with, and all are listed under both.
func TestCallbackNamesAnotherKeyOfThePartner(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	a := asked("v2", "https://partner.example.com/")
	first := s.bind(a)
	a.Partner, a.Bill = partner.Of("new-key"), "second"
	second := s.bind(a)
	equal(t, s.post(first, notice("v2", "new-key", bill)).Code, http.StatusNotFound, "a callback for another partner")
	answers(t, s.asks("POST", "/store/keys?by=anna&partner="+hash(key)+"&hash="+hash("new-key")), 200)
	s.accept(first, notice("v2", "new-key", bill))
	s.accept(second, notice("v2", key, "second"))
	for _, c := range s.stored() {
		equal(t, c.Partner, partner.Of(key))
	}
	for _, name := range []string{key, "new-key"} {
		equal(t, strings.Count(s.asks("GET", "/callbacks?partner="+hash(name)).Body.String(), `"id":`), 2)
	}
}

// A body that does something before it is read.
type bodyAfter struct {
	io.Reader
	before func()
}

func (b *bodyAfter) Read(p []byte) (int, error) {
	if b.before != nil {
		b.before()
		b.before = nil
	}
	return b.Reader.Read(p)
}

// The key of a callback becomes one of another partner after its address was read: the callback is the partner's, and is not refused.
func TestKeyIsAddedWhileACallbackArrives(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	a := asked("v2", "https://partner.example.com/")
	a.Partner = partner.Of("new-key")
	path := s.bind(a)
	body := &bodyAfter{strings.NewReader(notice("v2", "new-key", bill)), func() {
		works(t)(s.store.AddKey(t.Context(), store.PartnerKey{Key: partner.Of("new-key"), Partner: partner.Of(key)}, store.Author{Name: "anna"}, time.Now(), nil))
	}}
	answers(t, s.send(httptest.NewRequest(http.MethodPost, path, body)), 200)
	c := s.only()
	equal(t, c.Partner, partner.Of(key))
	equal(t, c.Order, string(partner.Of(key))+" "+bill)
}

// Another gateway has made the key of a callback one of the partner, and this one has not read that yet: the callback is not refused.
func TestKeyThatAnotherGatewayHasAdded(t *testing.T) {
	t.Parallel()
	at := proxytest.Postgres(t)
	s, other := sealing(t, at, nil), sealing(t, at, nil)
	path := s.bind(ofBill("new-key", bill, "https://partner.example.com/"))
	added := store.PartnerKey{Key: partner.Of("new-key"), Partner: partner.Of(key)}
	works(t)(other.store.AddKey(t.Context(), added, store.Author{Name: "anna"}, time.Now(), nil))
	s.accept(path, notice("legacy", "new-key", bill))
	equal(t, s.only().Partner, partner.Of(key))
	answers(t, s.post(path, notice("legacy", "another-key", bill)), http.StatusNotFound)
}
