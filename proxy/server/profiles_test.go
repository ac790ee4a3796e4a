package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Profiles need a token that may operate, although they change nothing. Without tokens they need a loopback name.
func TestProfilesNeedATokenThatMayOperate(t *testing.T) {
	t.Parallel()
	d := newAdminDesk(t, readAndOperate)
	for path, shows := range map[string]string{"": "goroutine", "heap?debug=1": "heap profile", "goroutine?debug=1": "profiles_test.go", "cmdline": ".test", "symbol": "num_symbols", "nothing": "Unknown profile"} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "of-wall": http.StatusForbidden, "of-anna": http.StatusOK} {
			if token == "wrong" && path != "" { // each guess is answered later than the one before
				continue
			}
			if path == "nothing" && want == http.StatusOK {
				want = http.StatusNotFound
			}
			status, text := d.ask("GET", profilesPath+path, token, "")
			if status != want || token == "of-anna" && !strings.Contains(text, shows) {
				t.Errorf("%s with the token %q: %d %.200s, want %d", path, token, status, text, want)
			}
		}
	}
	for _, path := range []string{"profile", "trace"} { // refused before anything is taken
		if status, _ := d.ask("GET", profilesPath+path+"?seconds=1", "of-wall", ""); status != http.StatusForbidden {
			t.Errorf("%s with a token that may read: %d", path, status)
		}
	}
	for _, seconds := range []string{"0", "301", "x"} {
		if status, _ := d.ask("GET", profilesPath+"profile?seconds="+seconds, "of-anna", ""); status != http.StatusBadRequest {
			t.Errorf("seconds=%s: %d", seconds, status)
		}
	}
	if status, _ := d.ask("POST", profilesPath+"heap", "of-anna", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}

	without := newAdminDesk(t, "tokens: []")
	if status, _ := without.ask("GET", profilesPath+"heap", "", ""); status != http.StatusOK {
		t.Errorf("without tokens: %d", status)
	}
	r := httptest.NewRequest("GET", profilesPath+"heap", nil)
	r.Host = "rebound.example.com"
	w := httptest.NewRecorder()
	if (*without.adminHandler.Load()).ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("without tokens, under another name: %d", w.Code)
	}
	for from, want := range map[string]int{"none": http.StatusOK, "same-origin": http.StatusOK, "same-site": http.StatusForbidden, "cross-site": http.StatusForbidden} {
		r, w := httptest.NewRequest("GET", "http://127.0.0.1"+profilesPath+"heap", nil), httptest.NewRecorder()
		r.Header.Set("Sec-Fetch-Site", from)
		if (*without.adminHandler.Load()).ServeHTTP(w, r); w.Code != want {
			t.Errorf("of a browser, %s: %d, want %d", from, w.Code, want)
		}
	}
}

// A profile ends when the gateway does, so that it delays no drain.
func TestProfilesEndWithTheGateway(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	server := httptest.NewServer(profiles(ended))
	defer server.Close()
	end()
	took := time.Now()
	res, err := server.Client().Get(server.URL + profilesPath + "goroutine?seconds=300")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if waited := time.Since(took); waited > time.Minute {
		t.Errorf("it took %s", waited)
	}
}
