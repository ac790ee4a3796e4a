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

// newAdminHandler returns the handler of the admin listener: metrics, health, readiness, reload, and the handlers of
// handlers, each below its path prefix. If a token is set, every path but /-/healthy and /-/ready requires it as a
// bearer token. An error of reload is in the response.
func newAdminHandler(token config.Secret, metrics prometheus.Gatherer, ready func() []check, reload func() error, handlers map[string]http.Handler) http.Handler {
	r := mux.NewRouter()
	for prefix, handler := range handlers {
		r.PathPrefix(prefix).Handler(requireToken(token, handler))
	}
	r.Path("/metrics").Methods(http.MethodGet).Handler(requireToken(token, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})))
	r.Path("/-/healthy").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "healthy")
	})
	r.Path("/-/ready").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeReadiness(token, ready(), w, r)
	})
	r.Path("/-/reload").Methods(http.MethodPost).Handler(requireToken(token, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := reload(); err != nil {
			writeText(w, http.StatusBadRequest, "not reloaded, the last good config stays:\n"+err.Error())
			return
		}
		writeText(w, http.StatusOK, "reloaded")
	})))
	// CSRF protection: a web page in the operator's browser cannot change anything.
	return http.NewCrossOriginProtection().Handler(r)
}

// requireToken passes requests on that have the token. Without a token in the config it passes on requests to a loopback
// name only.
func requireToken(token config.Secret, next http.Handler) http.Handler {
	if !token.IsSet() {
		// The config guarantees that the listener is on loopback. Checking the Host header prevents DNS rebinding: a
		// page under another name that resolves to 127.0.0.1 has the same origin as this listener.
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.Host)
			if err != nil { // no port
				host = strings.Trim(r.Host, "[]")
			}
			if !config.Loopback(host) {
				writeText(w, http.StatusForbidden, fmt.Sprintf("the host %q is not allowed: use 127.0.0.1, [::1] or localhost, or set admin.token in the config", host))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hasToken(token, r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeText(w, http.StatusUnauthorized, "the admin token is missing or wrong: send the header Authorization: Bearer TOKEN")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasToken reports whether a request has the token. It compares hashes, so that the duration reveals nothing.
func hasToken(token config.Secret, r *http.Request) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token.Reveal()))
	return bearer && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
