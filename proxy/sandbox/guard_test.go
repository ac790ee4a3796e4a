package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
)

const pays = "method=SIMPLE_PAY"

// An arrival is a request as a browser or another machine makes it.
type arrival struct{ *http.Request }

// arrivalOf is a request on a connection to a local address. headers are like Origin=null; POST also has a body.
func arrivalOf(request, to, host, headers, body string) arrival {
	method, path, _ := strings.Cut(request, " ")
	if method != http.MethodPost {
		body = ""
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = host
	if body == pays {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for header := range strings.SplitSeq(headers, "; ") {
		if name, value, ok := strings.Cut(header, "="); ok {
			r.Header.Set(name, value)
		}
	}
	local := &net.TCPAddr{IP: net.ParseIP(to), Port: 80}
	return arrival{r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))}
}

func (v arrival) of(h http.Handler) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, v.Request)
	return w.Code, w.Body.String()
}

// The control API is not driven by a web page in a tester's browser, nor by another machine without the token.
func TestControlIsGuarded(t *testing.T) {
	t.Parallel()
	plain := start(t)
	handlers := map[string]http.Handler{
		"open": plain.Control(), "guarded": start(t, sandbox.Options{ControlToken: "right"}).Control(),
		"partner": start(t, sandbox.Options{
			Partners: []sandbox.Partner{{Key: "a-key", ControlToken: "token-a"}},
		}).Control(),
	}
	for _, row := range proxytest.Rows(t, "testdata/rows/controlarrivals.txt") {
		v := arrivalOf(row[2], row[3], row[4], row[6], `{"code":"ERROR"}`)
		status, body := v.of(handlers[row[1]])
		if fmt.Sprint(status) != row[5] || status != 200 && !strings.HasPrefix(body, `{"error":"`) {
			t.Errorf("%s: %d %s, want %s", row[0], status, body, row[5])
		}
	}
	plain.must(newCall("v2", "create")) // no fault waits: the refused requests had no effect
}

// The page of a bill is paid by its own form only. Off loopback its address cannot be computed from the key and the bill.
func TestPagesAreGuarded(t *testing.T) {
	t.Parallel()
	plain, keyed, based := start(t), start(t, sandbox.Options{ControlToken: "right"}), start(t, sandbox.Options{BaseURL: "https://pay.example.com/x"})
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
	rigs := map[string]*rig{"plain": plain, "keyed": keyed, "based": based}
	for _, row := range proxytest.Rows(t, "testdata/rows/pagearrivals.txt") {
		r := rigs[row[1]]
		v := arrivalOf(row[2]+" "+pages[r], row[3], row[4], row[6], pays)
		if status, body := v.of(r); fmt.Sprint(status) != row[5] || !strings.Contains(body, "<html") {
			t.Errorf("%s: %d %s, want %s", row[0], status, body, row[5])
		}
	}
	if b, _ := plain.Bill("", billID); b.State != "W" {
		t.Errorf("a page of another origin paid the bill: %s", b.State)
	}
	own := arrivalOf("POST "+pages[plain], "127.0.0.1", "127.0.0.1:8081", "Origin=http://127.0.0.1:8081; Sec-Fetch-Site=same-origin", pays)
	gives(t, http.StatusSeeOther, "the form of the page")(own.of(plain))
	gives(t, 200, "a call of the interface is guarded")(arrivalOf("POST /bill/read", "192.0.2.1", "any.example.com", "Origin=https://shop.example.com", "{}").of(plain))
	if res, err := http.Get(plain.url + pages[plain]); err != nil || res.StatusCode != 200 {
		t.Errorf("over the network: %v, %v", res, err)
	} else {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}
