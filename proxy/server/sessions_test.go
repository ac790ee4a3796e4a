package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"
)

func listenAnywhere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	proxytest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// signIn returns the status, and the cookie if there is one.
func (g *guesser) signIn(from, token string, secure bool, old *http.Cookie) (status int, cookie *http.Cookie) {
	r := httptest.NewRequest(http.MethodPost, "/sign-in", nil)
	if r.RemoteAddr = from; secure {
		r.TLS = &tls.ConnectionState{}
	}
	if old != nil {
		r.AddCookie(old)
	}
	w := httptest.NewRecorder()
	status = g.tokens.SignIn(w, r, token)
	for _, c := range w.Result().Cookies() {
		cookie = c
	}
	return status, cookie
}

// withCookie returns the status of a request with a cookie alone.
func (g *guesser) withCookie(cookie *http.Cookie) int {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w.Code
}

func (g *guesser) wantSession(t *testing.T, what string, cookie *http.Cookie, status int) {
	t.Helper()
	proxytest.Equal(t, g.withCookie(cookie), status, what)
}

// A session lasts for twelve hours, or until its visitor signs out or in again.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		status, first := g.signIn(operator, "right", false, nil)
		if status != http.StatusOK || first == nil || len(first.Value) != 43 {
			t.Fatalf("%d %v", status, first)
		}
		if got, want := first.String(), "billbridge_session="+first.Value+"; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if _, c := g.signIn(operator, "right", true, nil); c == nil || !c.Secure {
			t.Errorf("under TLS: %v", c)
		}
		g.wantSession(t, "a new session", first, 200)
		g.wantSession(t, "another ID", &http.Cookie{Name: sessionCookie, Value: strings.Repeat("A", 43)}, 401)
		g.wantSession(t, "no ID", &http.Cookie{Name: sessionCookie}, 401)
		time.Sleep(pages.SessionLife - time.Second)
		g.wantSession(t, "before its end", first, 200)
		_, second := g.signIn(operator, "right", false, first)
		g.wantSession(t, "after another sign-in in this browser", first, 401)
		time.Sleep(time.Second)
		g.wantSession(t, "the second one", second, 200)
		r, w := httptest.NewRequest(http.MethodPost, "/sign-out", nil), httptest.NewRecorder()
		r.AddCookie(second)
		g.tokens.SignOut(w, r)
		g.wantSession(t, "after signing out", second, 401)
		if got := w.Header().Get("Set-Cookie"); !strings.HasPrefix(got, "billbridge_session=; Path=/; Max-Age=0; ") {
			t.Errorf("signing out sets %s", got)
		}
		_, third := g.signIn(operator, "right", false, nil)
		time.Sleep(pages.SessionLife)
		g.wantSession(t, "at its end", third, 401)
	})
}

// A session ends when its token goes or changes, and does not come back with it. It follows what its token may do.
func TestSessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	g := newGuesser(t)
	of := func(name, value string, may config.Permission) config.AdminToken {
		return config.AdminToken{Name: name, Token: config.NewSecret(value), May: may}
	}
	anna, ben := of("anna", "of-anna", config.Operate), of("ben", "of-ben", config.Operate)
	g.tokens.use(&config.Admin{Tokens: []config.AdminToken{anna, ben}})
	_, first := g.signIn(operator, "of-anna", false, nil)
	_, second := g.signIn(operator, "of-ben", false, nil)
	identityOf := func(c *http.Cookie) string {
		r := httptest.NewRequest(http.MethodGet, "/-/identity", nil)
		r.AddCookie(c)
		w := httptest.NewRecorder()
		g.handler.ServeHTTP(w, r)
		return strings.TrimSpace(w.Body.String())
	}
	proxytest.Equal(t, identityOf(first)+identityOf(second), `{"name":"anna","may":"operate"}{"name":"ben","may":"operate"}`)
	g.tokens.use(&config.Admin{Tokens: []config.AdminToken{of("anna", "another", config.Operate), of("ben", "of-ben", config.Read)}})
	g.wantSession(t, "the token of anna is another", first, 401)
	proxytest.Equal(t, identityOf(second), `{"name":"ben","may":"read"}`)
	g.tokens.use(&config.Admin{Tokens: []config.AdminToken{anna}})
	g.wantSession(t, "the token of anna is as before", first, 401)
	g.wantSession(t, "ben has no token", second, 401)
}

// A reload during the sign-in removes the token: there is no session, also when the token comes back.
func TestTokenRemovedDuringSignIn(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, readAndOperate)
	before := d.tokens.current.Load()
	fewer := (*before)[1:]
	d.tokens.current.Store(&fewer)
	id := d.tokens.sessions.Begin(httptest.NewRequest("POST", "/sign-in", nil), (*before)[0].hash)
	if w := httptest.NewRecorder(); d.tokens.beginSession(w, httptest.NewRequest("POST", "/sign-in", nil), (*before)[0].hash) != http.StatusUnauthorized || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a session for a token that is gone: %v", w.Header())
	}
	d.tokens.current.Store(before)
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: id})
	if _, ok := d.tokens.sessions.Find(r); ok {
		t.Error("the session came back with its token")
	}
}
