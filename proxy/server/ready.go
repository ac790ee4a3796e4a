package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// A Check is one thing that /-/ready depends on.
type Check struct {
	Name     string
	Problem  string // "" if there is none. It names no address, user or database: everyone may ask.
	Detail   error  // of the problem, for a request with the token
	Reported bool   // the gateway is ready in spite of it
}

// readiness answers /-/ready. With ?verbose it lists every check, one a line.
func readiness(token config.Secret, checks []Check, w http.ResponseWriter, r *http.Request) {
	status, text, all := http.StatusOK, "ready", ""
	for _, c := range checks {
		line := c.Name + ": ok"
		if c.Problem != "" {
			line = c.Name + ": " + c.Problem
			if c.Detail != nil && token.IsSet() && bears(token, r) {
				line += ": " + c.Detail.Error()
			}
			if c.Reported {
				line += " (reported only)"
			} else {
				status, text = http.StatusServiceUnavailable, "not ready: "+c.Problem
			}
		}
		all += "\n" + line
	}
	if r.URL.Query().Has("verbose") {
		text += all
	}
	say(w, status, text)
}

// ready looks at what /-/ready depends on: the listeners and, while they serve, the store.
func (s *Server) ready() []Check {
	if !s.serving.Load() {
		return []Check{{Name: "serving", Problem: "the gateway starts, waits for its store, or drains"}}
	}
	checks := []Check{{Name: "serving"}}
	if s.store != nil {
		c := Check{Name: "store", Reported: s.reported.Load()}
		if c.Detail = s.pinger.ping(); c.Detail != nil {
			c.Problem = "the store cannot be written to"
		}
		checks = append(checks, c)
	}
	return checks
}

// A pinger writes to the store to see whether that works, at most once a second however many ask. It is safe for concurrent use.
type pinger struct {
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	running chan struct{} // closed when the ping under way ends; nil if there is none
	at      time.Time     // of the last result
	err     error         // the last result
}

// A ping may take pingWithin. Who asks waits for pingPatience: a probe of Kubernetes has one second.
const (
	pingWithin   = 2 * time.Second
	pingPatience = 500 * time.Millisecond
)

var errNoPing = errors.New("the store has not answered for " + pingPatience.String())

// ping returns a result that is at most a second old.
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
	running := p.running
	p.mu.Unlock()
	select {
	case <-running:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-time.After(pingPatience):
		return errNoPing
	}
}

// run logs when the store begins to fail and when it works again.
func (p *pinger) run(ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), pingWithin)
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

// storeUp is the metric of ping.
func (s *Server) storeUp() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "billbridge_store_up",
		Help: "1 if the store could be written to when this was scraped, else 0.",
	}, func() float64 {
		if s.pinger.ping() != nil {
			return 0
		}
		return 1
	})
}
