package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/pages"
)

// apiPaths are the prefixes of the admin API.
var apiPaths = []string{"/metrics", "/-/", "/rollout", "/callbacks", "/store"}

func TestPagesDoNotCollideWithTheAdminAPI(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for _, r := range c.site.Routes() {
		method, path, _ := strings.Cut(r.Pattern, " ")
		for _, prefix := range apiPaths {
			if strings.HasPrefix(path, prefix) {
				t.Errorf("the page %s is below %s of the admin API", path, prefix)
			}
		}
		if method != http.MethodGet && method != http.MethodPost {
			t.Errorf("%s has another method than GET and POST", r.Pattern)
		}
	}
}

// withoutWildcards replaces the wildcards of a pattern.
func withoutWildcards(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	path = strings.ReplaceAll(path, "{$}", "")
	for strings.Contains(path, "{") {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + "x" + after
	}
	return method, path
}

// Every answer has the headers that keep a browser from running or loading anything that is not ours.
func TestEveryAnswerHasTheHeaders(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Access: stubAccess{}})
	targets := []string{"/nowhere", "/calls?slower=x", "/static/style.css", "/?lang=ko"}
	for _, r := range c.site.Routes() {
		if method, path := withoutWildcards(r.Pattern); method == http.MethodGet {
			targets = append(targets, path)
		}
	}
	for _, target := range targets {
		for _, visitor := range []bool{true, false} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			if visitor {
				r = r.WithContext(pages.WithVisitor(r.Context(), pages.Visitor{Name: "anna"}))
			}
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			h := w.Header()
			policy := h.Get("Content-Security-Policy")
			if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" ||
				(h.Get("Cache-Control") != "no-store") != strings.HasPrefix(target, "/static/style") {
				t.Errorf("%s: %d %v", target, w.Code, h)
			}
			if body := w.Body.String(); strings.Contains(body, "<style") || strings.Contains(body, " style=") || strings.Contains(body, "<script>") || strings.Contains(body, " onclick") {
				t.Errorf("%s has an inline style or script:\n%s", target, body)
			}
		}
	}
}

// stubAccess knows the token right. It signs out by a cookie.
type stubAccess struct{ busy bool }

func (a stubAccess) SignIn(w http.ResponseWriter, _ *http.Request, token string) int {
	switch {
	case a.busy:
		return http.StatusTooManyRequests
	case token != "right":
		return http.StatusUnauthorized
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
	return http.StatusOK
}

func (stubAccess) SignOut(w http.ResponseWriter, _ *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "session", MaxAge: -1})
}

// No route can be used without a visitor, and no change can be made by a visitor who may only read.
func TestChangesNeedAVisitorWhoMayOperate(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Access: stubAccess{}})
	changes, reading := 0, []string{}
	for _, route := range c.site.Routes() {
		if route.Reads {
			reading = append(reading, route.Pattern)
		}
		method, path := withoutWildcards(route.Pattern)
		if path == "/sign-in" || path == "/static/x" {
			continue
		}
		send := func(v *pages.Visitor) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			if v != nil {
				r = r.WithContext(pages.WithVisitor(r.Context(), *v))
			}
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			return w
		}
		w := send(nil)
		signIn := w.Code == http.StatusSeeOther && strings.HasPrefix(w.Header().Get("Location"), "/sign-in")
		if method == http.MethodGet && !signIn || method != http.MethodGet && w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a visitor: %d %s", route.Pattern, w.Code, w.Header().Get("Location"))
		}
		if method != http.MethodPost {
			continue
		}
		if w := send(&pages.Visitor{Name: "wall"}); !route.Reads && w.Code != http.StatusForbidden || route.Reads && w.Code == http.StatusForbidden {
			t.Errorf("%s by a visitor who may only read: %d", route.Pattern, w.Code)
		}
		if w := send(&pages.Visitor{Name: "anna", MayOperate: true}); w.Code == http.StatusForbidden {
			t.Errorf("%s by a visitor who may operate: %d", route.Pattern, w.Code)
		}
		changes++
	}
	if want := []string{"POST /sign-in", "POST /sign-out", "POST /playground"}; changes == 0 || !slices.Equal(reading, want) {
		t.Errorf("%d changes, and %q change nothing", changes, reading)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/calls", nil)
	r.Header.Set("HX-Request", "true")
	gives(t, http.StatusUnauthorized, "a part without a visitor")(do(c, r))
}

func TestSigningIn(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Access: stubAccess{}})
	if status, body := get(t, c, "/sign-in?next=%2Fcalls%3Fid%3D1", "ko"); status != http.StatusOK || !strings.Contains(body, `value="/calls?id=1"`) || strings.Contains(body, "<nav") {
		t.Errorf("%d\n%s", status, body)
	}
	for form, want := range map[string]struct {
		status   int
		location string
	}{
		"token=right&next=/calls%3Fid%3D1":       {http.StatusSeeOther, "/calls?id=1"},
		"token=right":                            {http.StatusSeeOther, "/"},
		"token=right&next=//evil.example":        {http.StatusSeeOther, "/"},
		"token=right&next=https://evil.example/": {http.StatusSeeOther, "/"},
		"token=right&next=///evil.example":       {http.StatusSeeOther, "/"},
		`token=right&next=/\evil.example`:        {http.StatusSeeOther, "/"},
		"token=right&next=javascript:alert(1)":   {http.StatusSeeOther, "/"},
		"token=canary":                           {http.StatusUnauthorized, ""},
		"":                                       {http.StatusUnauthorized, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/sign-in", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code != want.status || w.Header().Get("Location") != want.location || strings.Contains(w.Body.String(), "canary") ||
			(w.Code == http.StatusSeeOther) != (w.Header().Get("Set-Cookie") != "") {
			t.Errorf("%s: %d %v\n%s", form, w.Code, w.Header(), w.Body)
		}
	}
	busy := newConsole(t, Options{Access: stubAccess{busy: true}})
	if status, body := post(t, busy, "/sign-in", "token=right"); status != http.StatusTooManyRequests || !strings.Contains(body, "Too many wrong tokens") {
		t.Errorf("%d\n%s", status, body)
	}
	// A token in the query would be in logs.
	gives(t, http.StatusUnauthorized, "a token in the query")(post(t, c, "/sign-in?token=right", ""))
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for header, want := range map[string]string{
		"": "en", "ko": "ko", "ko-KR,ko;q=0.9,en;q=0.8": "ko", "en-US,ko;q=0.9": "en", "fr,ko;q=0.2,en;q=0.1": "ko", "fr": "en", ";;,": "en",
	} {
		if _, body := get(t, c, "/", header); !strings.Contains(body, `<html lang="`+want+`">`) {
			t.Errorf("Accept-Language %q is not answered in %s", header, want)
		}
	}
	for target, want := range map[string]string{
		"/calls?lang=ko&id=1":                   "/calls?id=1",
		"/calls?lang=ko":                        "/calls",
		"//evil.example/?lang=ko":               "/",
		"/calls?lang=xx":                        "",
		"/calls?id=" + url.QueryEscape("lang="): "",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL, _ = url.ParseRequestURI(target)
		if strings.HasPrefix(target, "//") {
			r.URL = &url.URL{Path: "//evil.example/", RawQuery: "lang=ko"}
		}
		c.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != want || want != "" && !strings.HasPrefix(w.Header().Get("Set-Cookie"), "billbridge_lang=ko; ") {
			t.Errorf("%s: %d %v, want %q", target, w.Code, w.Header(), want)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Accept-Language", "en")
	r.AddCookie(&http.Cookie{Name: "billbridge_lang", Value: "ko"})
	if _, body := do(c, r); !strings.Contains(body, `<html lang="ko">`) {
		t.Error("the cookie does not decide")
	}
}

// A refusingAccess refuses every token, and keeps it.
type refusingAccess struct{ token string }

func (a *refusingAccess) SignIn(_ http.ResponseWriter, _ *http.Request, token string) int {
	a.token = token
	return http.StatusUnauthorized
}
func (*refusingAccess) SignOut(http.ResponseWriter, *http.Request) {}

// A visitor that has not signed in can send a token, and not much more.
func TestSignInReadsASmallForm(t *testing.T) {
	t.Parallel()
	const maxSignIn = 16 << 10
	for size, want := range map[int]int{maxSignIn - 100: maxSignIn - 100, maxSignIn: 0, 1 << 20: 0} {
		a := &refusingAccess{}
		if status, _ := post(t, newConsole(t, Options{Access: a}), "/sign-in", "token="+strings.Repeat("a", size)); status == http.StatusOK || len(a.token) != want {
			t.Errorf("%d bytes: %d, a token of %d bytes, want %d", size, status, len(a.token), want)
		}
	}
}
