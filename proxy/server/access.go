package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"billbridge/config"
)

// An identity is who sent a request to the admin listener.
type identity struct {
	name     string // for the audit log; "" for admin.token, and without tokens
	operates bool   // may make changes
	signedIn bool   // by a session
}

// namelessPosts are the changes whose handlers take no name from the query.
var namelessPosts = []string{
	"/rollout/read", "/rollout/read-all", "/rollout/compare", "/-/reload",
}

// mayChange reports whether a request may change something.
func mayChange(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}

// requireToken passes requests on that have a token or a session whose owner may make them. A change has the name of
// the owner as the parameter by. If the config has no token, all requests to a loopback name are passed on.
func requireToken(t *tokens, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, status := t.identify(r)
		if status == unknown {
			t.fail(t.source(r), "missing")
			status = http.StatusUnauthorized
		}
		if status != http.StatusOK {
			refuse(w, r, status)
			return
		}
		if !who.operates && mayChange(r) {
			writeText(w, http.StatusForbidden,
				fmt.Sprintf("the token of %s may only read: use a token with may: operate", who.name))
			return
		}
		named, err := withName(r, who)
		if err != nil {
			writeText(w, http.StatusBadRequest, err.Error())
			return
		}
		next.ServeHTTP(w, named.WithContext(context.WithValue(r.Context(), identityKey{}, who)))
	})
}

// unknown is the status of a request that has neither a token nor a session.
const unknown = 0

// identify returns who sent a request: the owner of its bearer token or, without one, of its session. For a wrong token
// it may wait for [pages.GuessDelay]. status is 200, unknown, or that of the refusal.
//
// Without tokens the config guarantees that the listener is on loopback. Checking the Host header prevents DNS
// rebinding: a page under another name that resolves to 127.0.0.1 has the same origin as this listener.
func (t *tokens) identify(r *http.Request) (who identity, status int) {
	now := t.current.Load()
	if len(*now) == 0 {
		if !config.Loopback(hostOf(r)) {
			return who, http.StatusForbidden
		}
		return identity{operates: true}, http.StatusOK
	}
	if given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer {
		_, who, status = t.check(r, given)
		return who, status
	}
	if hash, ok := t.sessions.Find(r); ok {
		if who, ok := now.find(hash); ok {
			who.signedIn = true
			return who, http.StatusOK
		}
	}
	return who, unknown
}

// identityKey is the key of the identity in the context of a request that requireToken has passed on.
type identityKey struct{}

func identityOf(r *http.Request) identity {
	who, _ := r.Context().Value(identityKey{}).(identity)
	return who
}

// withName adds the name of a token to a change, for the audit log. A change under another name is an error.
func withName(r *http.Request, who identity) (*http.Request, error) {
	if who.name == "" || !mayChange(r) || slices.Contains(namelessPosts, r.URL.Path) {
		return r, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return r, nil // the handler reports it
	}
	for _, by := range q["by"] {
		if by != who.name {
			return nil, fmt.Errorf("the audit log has the name of the token, which is %s: "+
				"leave out by (--by), or send a token without a name (admin.token)", who.name)
		}
	}
	if !q.Has("by") {
		named := *r.URL
		named.RawQuery = strings.TrimPrefix(named.RawQuery+"&by="+url.QueryEscape(who.name), "&")
		r = r.Clone(r.Context())
		r.URL = &named
	}
	return r, nil
}

func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil { // no port
		host = strings.Trim(r.Host, "[]")
	}
	return host
}

// refuse answers a request with the status of identify.
func refuse(w http.ResponseWriter, r *http.Request, status int) {
	text := "the admin token is missing or wrong: send the header Authorization: Bearer TOKEN"
	switch status {
	case http.StatusForbidden:
		text = fmt.Sprintf("the host %q is not allowed: use 127.0.0.1, [::1] or localhost, "+
			"or set admin.token or admin.tokens in the config", hostOf(r))
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
		text = "too many wrong admin tokens at once from your address: try again in a second"
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeText(w, status, text)
}

// An Identity is the answer of GET /-/identity: who the gateway takes the caller for.
type Identity struct {
	Name string            `json:"name"` // of the token; "" for admin.token, and without tokens
	May  config.Permission `json:"may"`
}

// writeIdentity answers GET /-/identity behind requireToken.
func writeIdentity(w http.ResponseWriter, r *http.Request) {
	who := identityOf(r)
	answer := Identity{who.name, config.Read}
	if who.operates {
		answer.May = config.Operate
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(answer)
}
