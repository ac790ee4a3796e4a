package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

const (
	sessionCookie = "billbridge_session"
	sessionLife   = 12 * time.Hour
	maxSessions   = 64 // of one token; one more ends the oldest
)

// sessions are those of browsers. The zero value is ready for use.
type sessions struct {
	mu  sync.Mutex
	all map[sessionHash]session
}

// sessionHash is the hash of a session's ID. The ID itself is kept nowhere but in the browser.
type sessionHash [sha256.Size]byte

// A session stands for a token until it ends.
type session struct {
	token tokenHash
	ends  time.Time
}

// find returns the owner of the token that the session of a request stands for.
func (s *sessions) find(r *http.Request, a *admission) (who identity, ok bool) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return who, false
	}
	s.mu.Lock()
	found, ok := s.all[sha256.Sum256([]byte(cookie.Value))]
	s.mu.Unlock()
	if !ok || !time.Now().Before(found.ends) {
		return who, false
	}
	return a.find(found.token)
}

// begin adds a session and returns its ID.
func (s *sessions) begin(token tokenHash) (id string) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	id = base64.RawURLEncoding.EncodeToString(random)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[sessionHash]session{}
	}
	var oldest sessionHash
	own, now := 0, time.Now()
	for hash, one := range s.all {
		switch {
		case !now.Before(one.ends):
			delete(s.all, hash)
		case one.token == token:
			if own++; own == 1 || one.ends.Before(s.all[oldest].ends) {
				oldest = hash
			}
		}
	}
	if own >= maxSessions {
		delete(s.all, oldest)
	}
	s.all[sha256.Sum256([]byte(id))] = session{token, now.Add(sessionLife)}
	return id
}

// end removes the session of a request, if it has one.
func (s *sessions) end(r *http.Request) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, sha256.Sum256([]byte(cookie.Value)))
	}
}

// keep removes the sessions whose token is not there any more. They do not come back with the token.
func (s *sessions) keep(a *admission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, one := range s.all {
		if !a.has(one.token) {
			delete(s.all, hash)
		}
	}
}

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
func (t *tokens) beginSession(w http.ResponseWriter, r *http.Request, hash tokenHash) (status int) {
	t.sessions.end(r)
	id := t.sessions.begin(hash)
	if now := t.current.Load(); !now.has(hash) {
		t.sessions.keep(now)
		return http.StatusUnauthorized
	}
	setSession(w, r, id, sessionLife)
	return http.StatusOK
}

// SignOut ends the session of a request.
func (t *tokens) SignOut(w http.ResponseWriter, r *http.Request) {
	t.sessions.end(r)
	setSession(w, r, "", -time.Second)
}

func setSession(w http.ResponseWriter, r *http.Request, id string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: id, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}
