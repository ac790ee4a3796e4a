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
)

// controlArrivals are requests to the control API: a name, whether it has a token, method and path, the local address of the
// connection, the host, the status, and headers.
const controlArrivals = `
loopback                       | open    | GET /bills        | 127.0.0.1 | 127.0.0.1:8082        | 200 |
loopback by name               | open    | GET /bills        | ::1       | LocalHost:8082        | 200 |
loopback in IPv6               | open    | GET /bills        | ::1       | [::1]:8082            | 200 |
DNS rebinding                  | open    | GET /bills        | 127.0.0.1 | evil.example.com      | 403 |
DNS rebinding, no host         | open    | GET /bills        | 127.0.0.1 |                       | 403 |
name that begins like loopback | open    | GET /bills        | 127.0.0.1 | 127.0.0.1.example.com | 403 |
page of another origin         | open    | POST /faults      | 127.0.0.1 | 127.0.0.1:8082        | 403 | Origin=https://evil.example.com
page of another site           | open    | POST /faults      | 127.0.0.1 | 127.0.0.1:8082        | 403 | Sec-Fetch-Site=cross-site
page of another port           | open    | DELETE /faults    | 127.0.0.1 | 127.0.0.1:8082        | 403 | Origin=http://127.0.0.1:3000
off loopback                   | open    | GET /bills        | 192.0.2.1 | 127.0.0.1             | 403 |
token                          | guarded | GET /bills        | 192.0.2.1 | sandbox.example.com   | 200 | Authorization=Bearer right
token and another origin       | guarded | POST /faults      | 192.0.2.1 | sandbox.example.com   | 403 | Authorization=Bearer right; Origin=https://evil.example.com
no token                       | guarded | GET /bills        | 192.0.2.1 | sandbox.example.com   | 401 |
no token on loopback           | guarded | GET /bills        | 127.0.0.1 | 127.0.0.1             | 401 |
wrong token                    | guarded | GET /bills        | 192.0.2.1 | sandbox.example.com   | 401 | Authorization=Bearer wrong
token without a scheme         | guarded | GET /bills        | 192.0.2.1 | sandbox.example.com   | 401 | Authorization=right
`

// pageArrivals are requests for the page of a bill of a sandbox: plain, with a control token (keyed) or with a base URL (based).
const pageArrivals = `
loopback                       | plain | GET  | 127.0.0.1 | 127.0.0.1:8081           | 200 |
DNS rebinding                  | plain | GET  | 127.0.0.1 | evil.example.com         | 403 |
another origin                 | plain | POST | 127.0.0.1 | 127.0.0.1:8081           | 403 | Origin=https://evil.example.com
an opaque origin               | plain | POST | 127.0.0.1 | 127.0.0.1:8081           | 403 | Origin=null
another site                   | plain | POST | 127.0.0.1 | 127.0.0.1:8081           | 403 | Sec-Fetch-Site=cross-site
off loopback without a token   | plain | GET  | 192.0.2.1 | 192.0.2.1:8081           | 403 |
off loopback with a token      | keyed | GET  | 192.0.2.1 | sandbox.example.com:8081 | 200 |
DNS rebinding with a token     | keyed | GET  | 127.0.0.1 | evil.example.com         | 403 |
the base URL                   | based | GET  | 127.0.0.1 | pay.example.com          | 200 |
another name than the base URL | based | GET  | 127.0.0.1 | x.pay.example.com        | 403 |
`

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
	open, guarded := plain.Control(), start(t, sandbox.Options{ControlToken: "right"}).Control()
	for _, row := range rowsOf(controlArrivals) {
		handler := map[string]http.Handler{"open": open, "guarded": guarded}[row[1]]
		v := arrivalOf(row[2], row[3], row[4], row[6], `{"code":"ERROR"}`)
		status, body := v.of(handler)
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
	for _, row := range rowsOf(pageArrivals) {
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
