package sandbox_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// An arrival is a request as a browser or another machine makes it.
type arrival struct {
	method, path, to, host string // to is the local address of the connection
	header                 map[string]string
	body                   string
}

func (v arrival) of(h http.Handler) (status int, body string) {
	r := httptest.NewRequest(v.method, v.path, strings.NewReader(v.body))
	r.Host = v.host
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(v.to), Port: 80}))
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// The control API is not driven by a web page in a tester's browser, nor by another machine without the token.
func TestControlIsGuarded(t *testing.T) {
	t.Parallel()
	plain := start(t, sandbox.Options{})
	open, guarded := plain.Control(), start(t, sandbox.Options{ControlToken: "right"}).Control()
	right := map[string]string{"Authorization": "Bearer right"}
	for name, c := range map[string]struct {
		handler http.Handler
		arrival arrival
		want    int
	}{
		"loopback":                       {open, arrival{"GET", "/bills", "127.0.0.1", "127.0.0.1:8082", nil, ""}, 200},
		"loopback by name":               {open, arrival{"GET", "/bills", "::1", "LocalHost:8082", nil, ""}, 200},
		"loopback in IPv6":               {open, arrival{"GET", "/bills", "::1", "[::1]:8082", nil, ""}, 200},
		"DNS rebinding":                  {open, arrival{"GET", "/bills", "127.0.0.1", "evil.example.com", nil, ""}, 403},
		"DNS rebinding, no host":         {open, arrival{"GET", "/bills", "127.0.0.1", "", nil, ""}, 403},
		"name that begins like loopback": {open, arrival{"GET", "/bills", "127.0.0.1", "127.0.0.1.example.com", nil, ""}, 403},
		"page of another origin":         {open, arrival{"POST", "/maintenance", "127.0.0.1", "127.0.0.1:8082", map[string]string{"Origin": "https://evil.example.com"}, `{"on":true}`}, 403},
		"page of another site":           {open, arrival{"POST", "/maintenance", "127.0.0.1", "127.0.0.1:8082", map[string]string{"Sec-Fetch-Site": "cross-site"}, `{"on":true}`}, 403},
		"page of another port":           {open, arrival{"DELETE", "/faults", "127.0.0.1", "127.0.0.1:8082", map[string]string{"Origin": "http://127.0.0.1:3000"}, ""}, 403},
		"off loopback":                   {open, arrival{"GET", "/bills", "192.0.2.1", "127.0.0.1", nil, ""}, 403},
		"token":                          {guarded, arrival{"GET", "/bills", "192.0.2.1", "sandbox.example.com", right, ""}, 200},
		"token and another origin":       {guarded, arrival{"POST", "/maintenance", "192.0.2.1", "sandbox.example.com", map[string]string{"Authorization": "Bearer right", "Origin": "https://evil.example.com"}, "{}"}, 403},
		"no token":                       {guarded, arrival{"GET", "/bills", "192.0.2.1", "sandbox.example.com", nil, ""}, 401},
		"no token on loopback":           {guarded, arrival{"GET", "/bills", "127.0.0.1", "127.0.0.1", nil, ""}, 401},
		"wrong token":                    {guarded, arrival{"GET", "/bills", "192.0.2.1", "sandbox.example.com", map[string]string{"Authorization": "Bearer wrong"}, ""}, 401},
		"token without a scheme":         {guarded, arrival{"GET", "/bills", "192.0.2.1", "sandbox.example.com", map[string]string{"Authorization": "right"}, ""}, 401},
	} {
		status, body := c.arrival.of(c.handler)
		if status != c.want || status != 200 && !strings.HasPrefix(body, `{"error":"`) {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.want)
		}
	}
	plain.must(newCall("v2", "create")) // it is not in maintenance: the refused requests had no effect
}

// The page of a bill is paid by its own form only. Off loopback its address cannot be computed from the key and the bill.
func TestPagesAreGuarded(t *testing.T) {
	t.Parallel()
	plain, keyed, based := start(t, sandbox.Options{}), start(t, sandbox.Options{ControlToken: "right"}), start(t, sandbox.Options{BaseURL: "https://pay.example.com/x"})
	pages := map[*rig]string{}
	for _, r := range []*rig{plain, keyed, based} {
		r.must(newCall("v2", "create"))
		b, err := r.Bill("", billID)
		must(t, err)
		address, err := url.Parse(b.ShortURL)
		must(t, err)
		pages[r] = strings.TrimPrefix(address.Path, "/x")
	}
	if pages[plain] == pages[keyed] {
		t.Error("the address of a page does not depend on the control token")
	}
	form := func(more ...string) map[string]string {
		h := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
		for i := 0; i+1 < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	const pays = "method=SIMPLE_PAY"
	for _, c := range []struct {
		name string
		r    *rig
		arrival
		want int
	}{
		{"loopback", plain, arrival{"GET", "", "127.0.0.1", "127.0.0.1:8081", nil, ""}, 200},
		{"DNS rebinding", plain, arrival{"GET", "", "127.0.0.1", "evil.example.com", nil, ""}, 403},
		{"another origin", plain, arrival{"POST", "", "127.0.0.1", "127.0.0.1:8081", form("Origin", "https://evil.example.com"), pays}, 403},
		{"an opaque origin", plain, arrival{"POST", "", "127.0.0.1", "127.0.0.1:8081", form("Origin", "null"), pays}, 403},
		{"another site", plain, arrival{"POST", "", "127.0.0.1", "127.0.0.1:8081", form("Sec-Fetch-Site", "cross-site"), pays}, 403},
		{"off loopback without a token", plain, arrival{"GET", "", "192.0.2.1", "192.0.2.1:8081", nil, ""}, 403},
		{"off loopback with a token", keyed, arrival{"GET", "", "192.0.2.1", "sandbox.example.com:8081", nil, ""}, 200},
		{"DNS rebinding with a token", keyed, arrival{"GET", "", "127.0.0.1", "evil.example.com", nil, ""}, 403},
		{"the base URL", based, arrival{"GET", "", "127.0.0.1", "pay.example.com", nil, ""}, 200},
		{"another name than the base URL", based, arrival{"GET", "", "127.0.0.1", "x.pay.example.com", nil, ""}, 403},
	} {
		c.path = pages[c.r]
		if status, body := c.of(c.r); status != c.want || !strings.Contains(body, "<html") {
			t.Errorf("%s: %d %s, want %d", c.name, status, body, c.want)
		}
	}
	if b, _ := plain.Bill("", billID); b.State != "W" {
		t.Errorf("a page of another origin paid the bill: %s", b.State)
	}
	own := arrival{"POST", pages[plain], "127.0.0.1", "127.0.0.1:8081", form("Origin", "http://127.0.0.1:8081", "Sec-Fetch-Site", "same-origin"), pays}
	if status, body := own.of(plain); status != http.StatusSeeOther {
		t.Errorf("the form of the page: %d %s", status, body)
	}
	if status, _ := (arrival{"POST", "/bill/read", "192.0.2.1", "any.example.com", map[string]string{"Origin": "https://shop.example.com"}, "{}"}).of(plain); status != 200 {
		t.Errorf("a call of the interface is guarded: %d", status)
	}
	if res, err := http.Get(plain.url + pages[plain]); err != nil || res.StatusCode != 200 {
		t.Errorf("over the network: %v, %v", res, err)
	} else {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}
