package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Sessions are kept by the hash of their ID, the last ones of each token, and none of them longer than its life.
func TestSessionsThatAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, r := Sessions{Cookie: "c"}, httptest.NewRequest("POST", "/sign-in", nil)
		other := s.Begin(r, TokenHash{1})
		var own []*http.Request
		for range maxSessions + 3 {
			of := httptest.NewRequest("GET", "/", nil)
			of.AddCookie(&http.Cookie{Name: "c", Value: s.Begin(r, TokenHash{2})})
			own = append(own, of)
			time.Sleep(time.Second)
		}
		for i, of := range own {
			if _, ok := s.Find(of); ok != (i >= 3) {
				t.Errorf("session %d is kept: %v", i, ok)
			}
		}
		if n := len(s.all); n != maxSessions+1 {
			t.Errorf("%d sessions", n)
		}
		raw, err := base64.RawURLEncoding.DecodeString(other)
		if err != nil || len(raw) != 32 {
			t.Fatalf("%q is not 32 bytes: %v", other, err)
		}
		_, kept := s.all[TokenHash(raw)]
		if _, hashed := s.all[sha256.Sum256([]byte(other))]; kept || !hashed {
			t.Errorf("the ID is kept: %v, its hash is kept: %v", kept, hashed)
		}
		time.Sleep(SessionLife)
		s.Begin(r, TokenHash{2})
		if n := len(s.all); n != 1 {
			t.Errorf("%d sessions after all have ended", n)
		}
	})
}
