package pages

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

// SessionLife is how long a session lasts.
const SessionLife = 12 * time.Hour

const maxSessions = 64 // of one token; one more ends the oldest

// A TokenHash is the SHA-256 of a token.
type TokenHash [sha256.Size]byte

// Sessions are those of browsers, each with a cookie. Only the cookie has the ID of a session.
type Sessions struct {
	Cookie string // its name. Browsers send it to all ports of a host

	mu  sync.Mutex
	all map[TokenHash]session // by the hash of the ID
}

// A session stands for a token until it ends.
type session struct {
	token TokenHash
	ends  time.Time
}

// Find returns the token that the session of a request stands for.
func (s *Sessions) Find(r *http.Request) (token TokenHash, ok bool) {
	cookie, err := r.Cookie(s.Cookie)
	if err != nil {
		return token, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.all[sha256.Sum256([]byte(cookie.Value))]
	return found.token, ok && time.Now().Before(found.ends)
}

// Begin replaces the session of a request by a new one, and returns its ID, which is for SetCookie.
func (s *Sessions) Begin(r *http.Request, token TokenHash) (id string) {
	s.end(r)
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	id = base64.RawURLEncoding.EncodeToString(random)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[TokenHash]session{}
	}
	var oldest TokenHash
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
	s.all[sha256.Sum256([]byte(id))] = session{token, now.Add(SessionLife)}
	return id
}

// SetCookie gives the browser a session, or takes it away for "".
func (s *Sessions) SetCookie(w http.ResponseWriter, r *http.Request, id string) {
	life := SessionLife
	if id == "" {
		life = -1 * time.Second
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.Cookie, Value: id, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// End ends the session of a request.
func (s *Sessions) End(w http.ResponseWriter, r *http.Request) {
	s.end(r)
	s.SetCookie(w, r, "")
}

// end removes the session of a request, if it has one.
func (s *Sessions) end(r *http.Request) {
	if cookie, err := r.Cookie(s.Cookie); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, sha256.Sum256([]byte(cookie.Value)))
	}
}

// Keep removes the sessions whose token is not there any more. They do not come back with the token.
func (s *Sessions) Keep(has func(TokenHash) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, one := range s.all {
		if !has(one.token) {
			delete(s.all, hash)
		}
	}
}
