package proxy

import (
	"context"
	"net"
	"net/http"
	"strings"

	"billbridge/proxy/httpconn"
	"billbridge/translate"
)

// Mask exports mask for its test.
var Mask = mask

// An UpstreamCall is a call that WrapCalls has intercepted.
type UpstreamCall struct{ ID, Path string }

// WrapCalls puts a test's function around each call to an upstream. The function makes the call with next. If it
// returns an error, the call has no answer, and it was sent if next was called.
func (g *Gateway) WrapCalls(upstream string, wrap func(c UpstreamCall, next func()) error) {
	u := g.current.Load().upstreams[upstream]
	below := u.attempt
	u.attempt = func(ctx context.Context, r *upstreamRequest) (reply httpconn.Reply, failure *callError) {
		sent := false
		lost := wrap(UpstreamCall{r.id, strings.Fields(string(r.head))[1]}, func() {
			sent = true
			reply, failure = below(ctx, r)
		})
		switch {
		case lost != nil && sent:
			return httpconn.Reply{}, &callError{reason: "reset", detail: lost.Error(), sent: true}
		case lost != nil:
			return httpconn.Reply{}, &callError{reason: "refused", detail: lost.Error()}
		}
		return reply, failure
	}
}

// DoNotWrapCalls ends the effect of WrapCalls.
func (g *Gateway) DoNotWrapCalls(upstream string) {
	u := g.current.Load().upstreams[upstream]
	u.attempt = u.try
}

// EndPause ends the pause of an upstream's breaker.
func (g *Gateway) EndPause(upstream string) {
	b := g.current.Load().upstreams[upstream].breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = b.opened.Add(-breakerPause)
}

// DialWith makes an upstream's connections with a test's function.
func (g *Gateway) DialWith(upstream string, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	g.current.Load().upstreams[upstream].pool.Dial = dial
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
	answers := (len(s.config.Table.Catalogue()) + 2) * statuses // plus the codes none and other
	withoutUpstream := answers + len(seconds) + 3
	n := len(s.config.Table.Forms()) * withoutUpstream // calls of unknown paths
	for _, r := range s.routes {
		atStart := 0
		if r.operation.Effect == translate.Write {
			atStart = 2
		}
		upstreams := map[*upstream]bool{}
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
