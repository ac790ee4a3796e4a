package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"billbridge/proxy/httpconn"
	"billbridge/proxy/upstream"
	"billbridge/translate"
)

// Mask exports mask for its test.
var Mask = mask

// An UpstreamCall is a call that WrapCalls has intercepted.
type UpstreamCall struct{ ID, Path string }

// eachTarget calls a function with each target at an upstream.
func (g *Gateway) eachTarget(name string, do func(*routeTarget)) {
	s := g.current.Load()
	to := s.upstreams[name]
	visit := func(t *routeTarget) {
		if t != nil && t.upstream == to {
			do(t)
		}
	}
	for _, r := range s.routes {
		visit(r.target)
		for _, t := range r.targets {
			visit(t)
		}
	}
	for _, targets := range s.readTargets {
		for _, t := range targets {
			visit(t)
		}
	}
}

// WrapCalls puts a test's function around each call to an upstream. The function makes the call with next. If it
// returns an error, the call has no answer, and it was sent if next was called.
func (g *Gateway) WrapCalls(name string, wrap func(c UpstreamCall, next func()) error) {
	g.eachTarget(name, func(t *routeTarget) {
		t.do = func(ctx context.Context, r *upstream.Request) (reply httpconn.Reply, failure *upstream.Failure) {
			sent := false
			lost := wrap(UpstreamCall{r.ID, strings.Fields(string(r.Head))[1]}, func() {
				sent = true
				reply, failure = t.upstream.Do(ctx, r)
			})
			switch {
			case lost != nil && sent:
				return httpconn.Reply{}, &upstream.Failure{Kind: upstream.Reset, Detail: lost.Error(), Sent: true}
			case lost != nil:
				return httpconn.Reply{}, &upstream.Failure{Kind: upstream.Refused, Detail: lost.Error()}
			}
			return reply, failure
		}
	})
}

// DoNotWrapCalls ends the effect of WrapCalls.
func (g *Gateway) DoNotWrapCalls(name string) {
	g.eachTarget(name, func(t *routeTarget) { t.do = t.upstream.Do })
}

// DialWith makes an upstream's connections with a test's function.
func (g *Gateway) DialWith(name string, dial httpconn.Dial) {
	c := g.current.Load().upstreams[name].Config
	to := upstream.New(c, "", upstream.NewMetrics(nil), slog.New(slog.DiscardHandler), dial)
	g.eachTarget(name, func(t *routeTarget) { t.upstream, t.do = to, to.Do })
	g.current.Load().upstreams[name] = to
}

// LoseRollout makes each use of the rollout panic until restore is called.
func (g *Gateway) LoseRollout() (restore func()) {
	r := g.rollout
	g.rollout = nil
	return func() { g.rollout = r }
}

// MaxMoreSeries returns how many series traffic can add to those of the start: the answers of each route by code and
// status, and the durations of calls without an upstream. All other series exist from the start.
func (g *Gateway) MaxMoreSeries() int {
	s := g.current.Load()
	statuses := 2 // statusGone and other
	for status := http.StatusOK; status < 600; status++ {
		if http.StatusText(status) != "" {
			statuses++
		}
	}
	answers := (len(s.config.Table.Catalogue) + 2) * statuses // plus the codes none and other
	withoutUpstream := answers + len(seconds) + 3
	n := len(s.config.Table.Forms()) * withoutUpstream // calls of unknown paths
	for _, r := range s.routes {
		atStart := 0
		if r.operation.Effect == translate.Write {
			atStart = 2
		}
		upstreams := map[*upstream.Upstream]bool{}
		for _, l := range r.targets {
			upstreams[l.upstream] = true
		}
		if r.target != nil {
			upstreams[r.target.upstream] = true
		}
		n += len(upstreams) * (answers - atStart)
		if r.targets != nil || r.target == nil { // calls that were refused before an upstream was chosen
			n += withoutUpstream
		}
	}
	return n
}
