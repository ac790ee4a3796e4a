package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/console"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// startAdmin serves the admin listener. Until completeAdmin is called it has health, readiness, which fails, and
// metrics.
func (s *Server) startAdmin(c *config.Config) (err error) {
	if s.adminListener, err = s.listener("admin.listen", c.Admin.Listen); err != nil {
		return err
	}
	if err := s.checkTokens(c); err != nil {
		return err
	}
	s.logWarnings(c)
	reload := func(string) error { return errors.New("the gateway is starting and has just read the config") }
	s.admin = adminRoutes{
		tokens: s.tokens, metrics: promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}), ready: s.ready, reload: reload,
	}
	s.serveAdmin()
	s.adminServer = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			(*s.adminHandler.Load()).ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: s.errors.logger(),
	}
	serving := s.adminListener
	if c.Admin.TLS != nil {
		s.adminTLS.Store(c.Admin.TLS)
		serving = tls.NewListener(serving, &tls.Config{
			NextProtos: []string{"http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return s.adminTLS.Load().Certificate()
			},
		})
	}
	go func() { s.serveErrors <- s.adminServer.Serve(serving) }()
	return nil
}

// checkTokens refuses a config without a token, or with a short one, if the admin listener is not on loopback. Another
// process may have opened its socket, on another address than that of the config.
func (s *Server) checkTokens(c *config.Config) error {
	at, ok := s.adminListener.Addr().(*net.TCPAddr)
	switch remote := ok && !at.IP.IsLoopback(); {
	case remote && len(c.Admin.AllTokens()) == 0:
		return fmt.Errorf("admin.token is not set, and the admin socket listens on %s, which is not loopback: "+
			"set admin.token or admin.tokens in the config", at)
	case remote && c.Admin.ShortToken() != "":
		return fmt.Errorf("%s has fewer than 16 characters, and the admin socket listens on %s, which is not loopback",
			c.Admin.ShortToken(), at)
	}
	return nil
}

func (s *Server) logWarnings(c *config.Config) {
	warnings := c.Warnings()
	if s.sockets["admin.listen"] != nil { // another process has chosen its address
		warnings = slices.DeleteFunc(warnings, func(w translate.Problem) bool { return w.Text == config.PlainAdmin })
		at, ok := s.adminListener.Addr().(*net.TCPAddr)
		if ok && c.Admin.TLS == nil && !at.IP.IsLoopback() {
			warnings = append(warnings, translate.Problem{Text: config.PlainAdmin})
		}
	}
	for _, w := range warnings {
		s.log.Warn(w.Text, "file", w.File, "line", w.Line)
	}
}

// completeAdmin adds reload, callbacks, store, rollout and the console to the admin listener.
func (s *Server) completeAdmin() error {
	s.tokens.signedIn = func(who identity) {
		_ = s.operator.Record(store.Change{Action: store.SignedIn, By: who.shown()})
	}
	var err error
	s.console, err = console.New(console.Options{
		Gateway: s.gateway, Config: s.gateway.Config, Operator: s.operator,
		Ready: s.problems, Access: s.tokens, Logger: s.log,
		Version: s.build.Version, Demo: s.build.Demo,
	})
	if err != nil {
		return err
	}
	s.admin.operator, s.admin.pages, s.admin.reload = s.operator.Handler(), s.console, s.reload
	s.serveAdmin()
	return nil
}

// serveAdmin serves the routes of s.admin from now on. CSRF protection: a web page in the operator's browser cannot
// change anything.
func (s *Server) serveAdmin() {
	handler := http.NewCrossOriginProtection().Handler(s.admin.router())
	s.adminHandler.Store(&handler)
}

// adminRoutes are the handlers of the admin listener. operator and pages are nil while the gateway starts.
type adminRoutes struct {
	tokens                   *tokens
	metrics, operator, pages http.Handler
	ready                    func() []check
	reload                   func(by string) error // its error is in the response
}

// router returns the routes. If the config has a token, every path but /-/healthy and /-/ready requires one.
func (a adminRoutes) router() *mux.Router {
	r := mux.NewRouter()
	guarded := func(route *mux.Route, h http.Handler) { route.Handler(requireToken(a.tokens, h)) }
	if a.operator != nil {
		for _, section := range operatorPaths {
			guarded(r.PathPrefix(section), a.operator)
		}
	} else {
		r.NotFoundHandler = http.HandlerFunc(starting)
	}
	guarded(r.Path("/metrics").Methods(http.MethodGet), a.metrics)
	r.Path("/-/healthy").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "healthy")
	})
	r.Path("/-/ready").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeReadiness(a.tokens, a.ready(), w, r)
	})
	guarded(r.Path("/-/identity").Methods(http.MethodGet), http.HandlerFunc(writeIdentity))
	reload := func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(identityKey{}).(identity)
		if err := a.reload(who.name); err != nil {
			writeText(w, http.StatusBadRequest, "not reloaded, the last good config stays:\n"+err.Error())
			return
		}
		writeText(w, http.StatusOK, "reloaded")
	}
	guarded(r.Path("/-/reload").Methods(http.MethodPost), http.HandlerFunc(reload))
	if a.pages != nil {
		r.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return !isAdminPath(r.URL.Path) }).
			Handler(forPages(a.tokens, a.pages))
	}
	return r
}

// starting answers every other path until completeAdmin, with Retry-After: the commands try again.
func starting(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	writeText(w, http.StatusServiceUnavailable, "the gateway is starting, or waits for its store: nothing was changed")
}

// operatorPaths are those of package operate.
var operatorPaths = []string{"/rollout", "/callbacks", "/notify", "/store", "/audit"}

// isAdminPath reports whether a path is that of the admin API, also of a section that the config does not have: the
// commands know such a section by the plain answer.
func isAdminPath(path string) bool {
	below := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
	return path == "/metrics" || below("/-/") || slices.ContainsFunc(operatorPaths, below)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
