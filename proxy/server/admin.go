package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"

	"billbridge/config"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Operator is the handler of the admin listener: metrics, health, reload, and surfaces by the first part of their paths:
// /callbacks, /rollout, /store. ready and reload are the server's; reload's error is shown to the operator. With a token, all
// but the two probes want it as a bearer token.
func Operator(token config.Secret, metrics prometheus.Gatherer, ready func() []Check, reload func() error, surfaces map[string]http.Handler) http.Handler {
	r := mux.NewRouter()
	for prefix, surface := range surfaces {
		r.PathPrefix(prefix).Handler(guard(token, surface))
	}
	r.Path("/metrics").Methods(http.MethodGet).Handler(guard(token, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})))
	r.Path("/-/healthy").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "healthy")
	})
	r.Path("/-/ready").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readiness(token, ready(), w, r)
	})
	r.Path("/-/reload").Methods(http.MethodPost).Handler(guard(token, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := reload(); err != nil {
			say(w, http.StatusBadRequest, "not reloaded, the last good config stays:\n"+err.Error())
			return
		}
		say(w, http.StatusOK, "reloaded")
	})))
	// A page in the operator's browser must not decide what happens here.
	return http.NewCrossOriginProtection().Handler(r)
}

// guard lets a request through that has the token.
func guard(token config.Secret, next http.Handler) http.Handler {
	if !token.IsSet() {
		// Then the listener is on loopback (see config), and its only names are loopback's: under another one asks a page whose
		// name was pointed here, and which the check of origins takes for our own.
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.Host)
			if err != nil { // without a port
				host = strings.Trim(r.Host, "[]")
			}
			if !config.Loopback(host) {
				say(w, http.StatusForbidden, fmt.Sprintf("without admin.token only 127.0.0.1, [::1] or localhost is asked here, not %q", host))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bears(token, r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			say(w, http.StatusUnauthorized, "the admin token is needed: Authorization: Bearer …")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bears tells whether a request has the token. Hashes are compared, so that the time says nothing of it.
func bears(token config.Secret, r *http.Request) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token.Reveal()))
	return bearer && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
