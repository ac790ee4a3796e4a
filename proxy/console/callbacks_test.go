package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"

	"golang.org/x/text/unicode/norm"
)

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
		has(t, s.page(page+"?bill="+strings.Repeat("x", 50_000)), says, page)
	}
	has(t, s.page("/deliveries?partner=hana+clinic"), id)
	c.Partners[slices.IndexFunc(c.Partners, func(p config.Partner) bool { return p.Name == "Hana Clinic" })].Name = "하나 의원"
	has(t, s.page("/deliveries?partner="+url.QueryEscape(norm.NFD.String("하나 의원"))), id)
}

// Without callbacks there is nothing to decide.
func TestGatewayWithoutCallbacksHasNoneToDecide(t *testing.T) {
	t.Parallel()
	none := newConsole(t, Options{})
	for _, path := range []string{"/deliveries/all/replay", "/deliveries/all/drop", "/deliveries/cb_1/replay"} {
		gives(t, http.StatusMethodNotAllowed, path)(post(t, none, path, "by=anna"))
	}
}
