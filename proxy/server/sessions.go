package server

import (
	"net/http"

	"billbridge/proxy/pages"
)

// SignIn begins a session if the token is right, and sets its cookie. It returns 200, or 401 or 429 as for a bearer
// token.
func (t *tokens) SignIn(w http.ResponseWriter, r *http.Request, token string) (status int) {
	hash, who, status := t.check(r, token)
	if status == http.StatusOK {
		status = t.beginSession(w, r, hash)
	}
	if status == http.StatusOK {
		t.signedIn(who)
	}
	return status
}

// beginSession replaces the session of a request by a new one, and returns 200, or 401 if a reload has removed the
// token in the meantime.
func (t *tokens) beginSession(w http.ResponseWriter, r *http.Request, hash pages.TokenHash) (status int) {
	id := t.sessions.Begin(r, hash)
	if now := t.current.Load(); !now.has(hash) {
		t.sessions.Keep(now.has)
		return http.StatusUnauthorized
	}
	t.sessions.SetCookie(w, r, id)
	return http.StatusOK
}

// SignOut ends the session of a request.
func (t *tokens) SignOut(w http.ResponseWriter, r *http.Request) { t.sessions.End(w, r) }
