package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/console"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A check is one condition of /-/ready.
type check struct {
	name     string
	problem  string // "" if there is none. It names no address, user or database, since the path requires no token.
	detail   error  // the cause of the problem, for requests that have the token or need none
	optional bool   // a problem is reported, and the gateway is ready
}

// text returns the problem, with its cause for those who may read it.
func (c check) text(mayRead bool) string {
	text := c.problem
	if c.detail != nil && mayRead {
		text += ": " + c.detail.Error()
	}
	if c.optional {
		text += " (reported only)"
	}
	return text
}

// writeReadiness answers /-/ready. With ?verbose it lists every check, one per line.
func writeReadiness(t *tokens, checks []check, w http.ResponseWriter, r *http.Request) {
	status, text, all := http.StatusOK, "ready", ""
	verbose, mayRead := r.URL.Query().Has("verbose"), false
	if verbose { // a wrong token counts here too, or this path would be one to guess at
		_, status := t.identify(r)
		mayRead = status == http.StatusOK
	}
	for _, c := range checks {
		line := c.name + ": ok"
		if c.problem != "" {
			line = c.name + ": " + c.text(mayRead)
			if !c.optional {
				status, text = http.StatusServiceUnavailable, "not ready: "+c.problem
			}
		}
		all += "\n" + line
	}
	if verbose {
		text += all
	}
	writeText(w, status, text)
}

// ready returns the conditions of /-/ready: that the listeners serve and, if they do, that the log is read and the
// store can be written to.
func (s *Server) ready() []check {
	if !s.serving.Load() {
		return []check{{name: "serving", problem: "the gateway is starting, waiting for its store, or draining"}}
	}
	checks := []check{{name: "serving"}, {name: "log"}}
	if accesslog.Unread(s.log) {
		checks[1].problem = "the log cannot be written: nobody reads it"
	}
	if s.store != nil {
		c := check{name: "store", optional: s.current.Load().Ready.Store == config.Reported}
		if c.detail = s.pinger.ping(); c.detail != nil {
			c.problem = "the store cannot be written to"
		}
		checks = append(checks, c)
	}
	return checks
}

// problems returns what is not ready, for the console.
func (s *Server) problems() (list []console.Problem) {
	for _, c := range s.ready() {
		if c.problem != "" {
			list = append(list, console.Problem{Name: c.name, Text: c.text(false)})
		}
	}
	return list
}

// A pinger tests whether the store can be written to, at most once per second. It is safe for concurrent use.
type pinger struct {
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	running chan struct{} // closed when the current ping ends; nil if none is running
	at      time.Time     // when err was set
	err     error         // the result of the last ping
}

const (
	pingTimeout = 2 * time.Second
	pingWait    = 500 * time.Millisecond // for a result; a Kubernetes probe times out after a second
)

var errPingWait = errors.New("the store has not answered within " + pingWait.String())

// ping returns the result of a ping that is at most a second old.
func (p *pinger) ping() error {
	p.mu.Lock()
	if time.Since(p.at) < time.Second {
		defer p.mu.Unlock()
		return p.err
	}
	if p.running == nil {
		p.running = make(chan struct{})
		go p.run(p.running)
	}
	running, last := p.running, p.err
	p.mu.Unlock()
	select {
	case <-running:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-time.After(pingWait):
		return cmp.Or(last, errPingWait)
	}
}

// run pings the store. It logs when the store begins to fail and when it works again.
func (p *pinger) run(ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	err := p.store.Ping(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil && p.err == nil:
		p.log.Error("the store cannot be written to", "error", err.Error())
	case err == nil && p.err != nil:
		p.log.Info("the store can be written to again")
	}
	p.err, p.at, p.running = err, time.Now(), nil
	close(ended)
}

// registerStore registers the metrics of the store at url.
func (s *Server) registerStore(url string) {
	with := promauto.With(s.registry)
	gauge(s.registry, "billbridge_store_up", "Whether the store could be written to: 1 if yes, 0 if not.",
		func() float64 {
			if s.pinger.ping() != nil {
				return 0
			}
			return 1
		})
	with.NewCounterFunc(prometheus.CounterOpts{
		Name: "billbridge_store_changed_rows_total",
		Help: "Rows of an encrypted store that were refused because they were changed without its key.",
	}, func() float64 { return float64(s.store.Refused()) })
	if _, ok := store.FreeBytes(url); ok {
		gauge(s.registry, "billbridge_store_free_bytes",
			"Free space of the disk with the file of the store. Absent with PostgreSQL.", func() float64 {
				free, _ := store.FreeBytes(url)
				return free
			})
	}
	for _, outcome := range store.FailOvers {
		with.NewCounterFunc(prometheus.CounterOpts{
			Name: "billbridge_store_failovers_total",
			Help: "How often the gateway met another server of PostgreSQL, or an older copy of the store, " +
				"by outcome: it has all writes (proven), lacks some (lost), or it is not known (unproven).",
			ConstLabels: prometheus.Labels{"outcome": string(outcome)},
		}, func() float64 { return float64(s.store.FailOvers(outcome)) })
	}
}

// gauge registers a gauge whose value is computed.
func gauge(registry prometheus.Registerer, name, help string, value func() float64) {
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}
