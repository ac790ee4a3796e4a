package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// page requests a page with a header such as "Authorization: Bearer x", or without one for "".
func (d *adminDesk) page(method, target, header string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+target, nil)
	if name, value, ok := strings.Cut(header, ": "); ok {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	(*d.adminHandler.Load()).ServeHTTP(w, r)
	return w
}

// A visitor needs a token or a session for every page but the one for signing in. A wrong token is refused as for the admin API.
func TestPagesNeedATokenOrASession(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, `tokens: [{name: anna, token: anna-token-0001, may: operate}, {name: wall, token: wall-token-0001, may: read}]`)
	form := url.Values{"token": {"wall-token-0001"}}.Encode()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/sign-in", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	(*d.adminHandler.Load()).ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("signing in: %d %v", w.Code, cookies)
	}
	session := "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	for _, row := range []struct {
		method, target, header string
		status                 int
		shows                  string
	}{
		{"GET", "/", "", 303, ""},
		{"GET", "/calls", "HX-Request: true", 401, ""},
		{"GET", "/sign-in", "", 200, "Admin token"},
		{"GET", "/static/style.css", "", 200, ":root"},
		{"GET", "/", "Authorization: Bearer wrong", 401, "missing or wrong"},
		{"GET", "/sign-in", "Authorization: Bearer wrong", 401, "missing or wrong"},
		{"GET", "/", "Authorization: Bearer anna-token-0001", 200, "anna"},
		{"GET", "/", "Cookie: billbridge_session=none", 303, ""},
		{"GET", "/", session, 200, "read only"},
		{"GET", "/", session, 200, "/sign-out"},
		{"POST", "/deliveries/all/replay", session, 403, "may only read"},
		{"GET", "/nowhere", "", 303, ""},
		{"GET", "/nowhere", session, 404, "no page"},
		{"GET", "/metrics", "", 401, ""},
		{"POST", "/metrics", session, 405, ""},
	} {
		w := d.page(row.method, row.target, row.header)
		if w.Code != row.status || !strings.Contains(w.Body.String(), row.shows) {
			t.Errorf("%s %s with %q: %d, want %d and %q:\n%.2000s", row.method, row.target, row.header, w.Code, row.status, row.shows, w.Body)
		}
	}
	// A page from elsewhere cannot use the session.
	r = httptest.NewRequest(http.MethodPost, "http://127.0.0.1/sign-out", nil)
	r.Header.Set("Cookie", strings.TrimPrefix(session, "Cookie: "))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w = httptest.NewRecorder()
	if (*d.adminHandler.Load()).ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("a POST from another site: %d", w.Code)
	}
}

// Without a token the pages are for loopback names only, as the admin API is.
func TestPagesWithoutTokensAreForLoopbackNames(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, "")
	for host, status := range map[string]int{"127.0.0.1": 200, "localhost:9090": 200, "evil.example": 403} {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+"/", nil)
		w := httptest.NewRecorder()
		if (*d.adminHandler.Load()).ServeHTTP(w, r); w.Code != status {
			t.Errorf("%s: %d, want %d", host, w.Code, status)
		}
	}
}
