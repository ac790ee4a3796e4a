package relay_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy/partner"
)

// Two keys of one partner: a callback may name either, whichever key the address came with, and all are listed under both.
func TestCallbackNamesAnotherKeyOfThePartner(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "v2"})
	a := asked("v2", "https://partner.example.com/")
	first := s.bind(a)
	a.Partner, a.Bill = partner.Of("new-key"), "second"
	second := s.bind(a)
	if w := s.post(first, notice("v2", "new-key", bill)); w.Code != http.StatusNotFound {
		t.Errorf("a callback for another partner: %d", w.Code)
	}
	w := httptest.NewRecorder()
	s.operator.ServeHTTP(w, httptest.NewRequest("POST", "/store/keys?by=anna&partner="+hash(key)+"&hash="+hash("new-key"), nil))
	equal(t, w.Code, http.StatusOK)
	s.accept(first, notice("v2", "new-key", bill))
	s.accept(second, notice("v2", key, "second"))
	for _, c := range s.stored() {
		equal(t, c.Partner, partner.Of(key))
	}
	for _, name := range []string{key, "new-key"} {
		w := httptest.NewRecorder()
		s.operator.ServeHTTP(w, httptest.NewRequest("GET", "/callbacks?partner="+hash(name), nil))
		equal(t, strings.Count(w.Body.String(), `"id":`), 2)
	}
}
