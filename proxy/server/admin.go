package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/console"
	"billbridge/proxy/operate"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminSide is the admin listener.
type adminSide struct {
	adminListener net.Listener
	adminServer   http.Server
	adminHandler  atomic.Pointer[http.Handler]
	admin         adminRoutes
	tokens        *tokens
}

// startAdmin serves the admin listener. Until completeAdmin is called it has health, readiness, which fails, and
// metrics.
func (s *Server) startAdmin(_ context.Context, c *config.Config) (err error) {
	if s.adminListener, err = s.listener("admin.listen", c.Admin.Listen); err != nil {
		return err
	}
	if err := s.checkTokens(c); err != nil {
		return err
	}
	s.logWarnings(c)
	s.admin = adminRoutes{
		tokens: s.tokens, metrics: promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}), ready: s.ready,
		reload:      func(string) error { return errStarting },
		checkReload: func(context.Context) error { return errStarting },
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
		with := s.withCertificate(func(c *config.Config) *config.KeyPair { return c.Admin.TLS })
		with.NextProtos = []string{"http/1.1"}
		serving = tls.NewListener(serving, with)
	}
	go func() { s.serveErrors <- s.adminServer.Serve(serving) }()
	return nil
}

var errStarting = errors.New("the gateway is starting and has just read the config")

// remote returns the address of the admin listener if other machines can reach it, or nil. Another process may have
// opened its socket, on another address than that of the config.
func (s *Server) remote() *net.TCPAddr {
	if at, ok := s.adminListener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		return at
	}
	return nil
}

// checkTokens refuses a config without a token, or with a short one, if the admin listener is not on loopback.
func (s *Server) checkTokens(c *config.Config) error {
	switch at, short := s.remote(), c.Admin.ShortToken(); {
	case at == nil:
	case len(c.Admin.AllTokens()) == 0:
		return fmt.Errorf("admin.token is not set, and the admin socket listens on %s, which is not loopback: "+
			"set admin.token or admin.tokens in the config", at)
	case short != "":
		return fmt.Errorf("%s has fewer than 16 characters, and the admin socket listens on %s, which is not loopback",
			short, at)
	}
	return nil
}

func (s *Server) logWarnings(c *config.Config) {
	warnings := c.Warnings()
	if s.sockets["admin.listen"] != nil { // another process has chosen its address
		warnings = slices.DeleteFunc(warnings, func(w translate.Problem) bool { return w.Text == config.PlainAdmin })
		if c.Admin.TLS == nil && s.remote() != nil {
			warnings = append(warnings, translate.Problem{Text: config.PlainAdmin})
		}
	}
	for _, w := range warnings {
		s.log.Warn(w.Text, "file", w.File, "line", w.Line)
	}
}

// completeAdmin adds reload, callbacks, store, rollout and the console to the admin listener.
func (s *Server) completeAdmin(context.Context, *config.Config) (err error) {
	s.tokens.signedIn = func(who identity) {
		_ = s.operator.Record(store.Change{Action: store.SignedIn, By: who.shown()})
	}
	s.console, err = console.New(console.Options{
		Gateway: s.gateway, Config: s.gateway.Config, Operator: s.operator,
		Ready: s.problems, Access: s.tokens, Logger: s.log,
		Version: s.build.Version, Demo: s.build.Demo,
	})
	if err != nil {
		return err
	}
	s.admin.operator, s.admin.pages, s.admin.reload = s.operator.Handler(), s.console, s.reload
	s.admin.checkReload = func(ctx context.Context) error {
		_, err := s.checked(ctx)
		return operate.Explain(err)
	}
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
	checkReload              func(context.Context) error
}

// router returns the routes. If the config has a token, every path but /-/healthy and /-/ready requires one.
func (a adminRoutes) router() *mux.Router {
	r := mux.NewRouter()
	guarded := func(h http.Handler) http.Handler { return requireToken(a.tokens, h) }
	if a.operator != nil {
		for _, section := range operatorPaths {
			r.PathPrefix(section).Handler(guarded(a.operator))
		}
	} else {
		r.NotFoundHandler = http.HandlerFunc(starting)
	}
	for _, route := range []struct {
		method, path string
		handler      http.Handler
	}{
		{"GET", "/metrics", guarded(a.metrics)},
		{"GET", "/-/healthy", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusOK, "healthy")
		})},
		{"GET", "/-/ready", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			writeReadiness(a.tokens, a.ready(), w, r)
		})},
		{"GET", "/-/identity", guarded(http.HandlerFunc(writeIdentity))},
		{"POST", "/-/reload", guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := a.reload(identityOf(r).name); err != nil {
				writeText(w, http.StatusBadRequest, "not reloaded, the last good config stays:\n"+err.Error())
				return
			}
			writeText(w, http.StatusOK, "reloaded")
		}))},
		{"GET", "/-/reload", guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := a.checkReload(r.Context()); err != nil {
				writeText(w, http.StatusBadRequest, err.Error())
				return
			}
			writeText(w, http.StatusOK, "a reload would succeed")
		}))},
	} {
		r.Path(route.path).Methods(route.method).Handler(route.handler)
	}
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
var operatorPaths = []string{"/rollout", "/callbacks", "/store", "/audit"}

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
