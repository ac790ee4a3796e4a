package proxy

import (
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/gorilla/mux"
)

// A state is what one config makes of the gateway. It is immutable; a reload swaps it whole.
type state struct {
	config    *config.Config
	router    *mux.Router
	routes    map[string]*route // by the name of their mux route
	upstreams map[string]*upstream

	reads map[translate.Form]map[string]*routeTarget // of the operation that shows a bill, by the client's form and the upstream
	read  *translate.Operation                       // nil where the table has none

	answerWithin time.Duration // from the end of a request's header to the end of its answer
}

// A route is one operation in one form of the client. Its name, metrics and log lines come from the table.
type route struct {
	operation *translate.Operation
	client    translate.Form
	target    *routeTarget // nil where no upstream can take the operation
	passes    bool         // byte for byte, to the path that was asked for; the url of its target is that of no path

	// Where a rollout decides: the targets of both of its upstreams, by name, and the translation in which a request is read
	// before one is chosen: one that changes the form, if a target has one. Nil elsewhere.
	targets map[string]*routeTarget
	look    *translate.Translation
}

// A routeTarget is where the calls of a route go: the upstream, and the translation to its form.
type routeTarget struct {
	upstream    *upstream
	translation *translate.Translation
	url         *url.URL
	metrics     *targetMetrics
}

func newState(c *config.Config, old *state, m *metrics, userAgent string) *state {
	s := &state{
		config: c,
		// Paths are matched as they were sent and are not cleaned: mux would answer an unclean one with a 301.
		router:    mux.NewRouter().SkipClean(true).UseEncodedPath(),
		routes:    map[string]*route{},
		upstreams: map[string]*upstream{},
		reads:     map[translate.Form]map[string]*routeTarget{},

		answerWithin: c.AnswerWithin(),
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if old != nil && old.upstreams[u.Name] != nil && sameUpstream(old.upstreams[u.Name].config, u) {
			s.upstreams[u.Name] = old.upstreams[u.Name]
			continue
		}
		s.upstreams[u.Name] = newUpstream(u, userAgent, m)
	}
	for _, listed := range Routes(c) {
		name := string(listed.Client) + " " + listed.Operation
		if listed.Operation == pass {
			s.pass(listed, name, m)
			continue
		}
		o := c.Table.Operation(listed.Operation)
		s.router.Path(listed.Path).Name(name)
		s.routes[name] = &route{operation: o, client: listed.Client}
		if u := upstreamFor(c, o, listed.Client); u != nil {
			s.routes[name].target = s.newTarget(o, listed.Client, u, m)
		}
		for _, u := range listed.Backends {
			s.routes[name].split(s.newTarget(o, listed.Client, u, m))
		}
	}
	s.readers(m)
	return s
}

// pass is the operation of paths that the table does not have (route.pass).
const pass = "pass"

func (s *state) pass(listed Route, name string, m *metrics) {
	if strings.HasSuffix(listed.Path, "/") {
		s.router.PathPrefix(listed.Path).Name(name)
	} else {
		s.router.Path(listed.Path).Name(name)
	}
	if s.routes[name] == nil {
		o := s.config.Table.PassThrough(pass, listed.Client, billing.Partner)
		s.routes[name] = &route{operation: o, client: listed.Client, passes: true, target: s.newTarget(o, listed.Client, listed.Upstream, m)}
	}
}

// split has the rollout decide whether calls go to a target.
func (r *route) split(to *routeTarget) {
	if r.targets == nil {
		r.targets, r.look = map[string]*routeTarget{}, to.translation
	}
	if !to.translation.SameForm() {
		r.look = to.translation
	}
	r.targets[to.upstream.config.Name] = to
}

// readers prepares the reads that the gateway makes of itself: in each form of a client, at each upstream. There are none if
// the table has no reader of bills; then the config needs none.
func (s *state) readers(m *metrics) {
	reader, err := billing.ReadOperation(s.config.Table)
	if err != nil {
		return
	}
	s.read = reader
	for _, client := range s.config.Table.Forms() {
		s.reads[client] = map[string]*routeTarget{}
		for i := range s.config.Upstreams {
			u := &s.config.Upstreams[i]
			s.reads[client][u.Name] = s.newTarget(reader, client, u, m)
		}
	}
}

// newTarget goes to an upstream whose form has the operation.
func (s *state) newTarget(o *translate.Operation, client translate.Form, u *config.Upstream, m *metrics) *routeTarget {
	upstream := s.upstreams[u.Name]
	l := &routeTarget{
		upstream:    upstream,
		translation: o.Translation(client, u.Form),
		url:         upstream.target(o.Path(u.Form)),
		metrics:     m.target(o.Name, string(client), u.Name),
	}
	l.metrics.initSeries(o, l.translation)
	return l
}

// upstreamFor takes the default upstream, or, for an operation that its form lacks, the first of the file that
// has it: sub-business operations exist in v2 only.
func upstreamFor(c *config.Config, o *translate.Operation, client translate.Form) *config.Upstream {
	if u := c.Upstreams.Find(c.Route.Default); o.Translation(client, u.Form) != nil {
		return u
	}
	for i := range c.Upstreams {
		if o.Translation(client, c.Upstreams[i].Form) != nil {
			return &c.Upstreams[i]
		}
	}
	return nil
}

// backendsFor are both backends of the rollout, old first, if it decides on the operation and both have it.
func backendsFor(c *config.Config, o *translate.Operation, client translate.Form) (sides []*config.Upstream) {
	if c.Rollout == nil || !billing.AboutBill(o) {
		return nil
	}
	for _, name := range []string{c.Rollout.Old, c.Rollout.New} {
		u := c.Upstreams.Find(name)
		if o.Translation(client, u.Form) == nil {
			return nil
		}
		sides = append(sides, u)
	}
	return sides
}

// A Route is where the calls of one operation in one form go by a config.
type Route struct {
	Path      string // below the listener, with the base path
	Operation string
	Client    translate.Form
	Upstream  *config.Upstream // nil where none can take it

	// Backends are the two between which the rollout decides, instead of Upstream; nil where it does not. Sub-business
	// operations go to the same upstream in every stage.
	Backends []*config.Upstream
}

// Routes lists what a gateway serves by a config, in the order of the table.
func Routes(c *config.Config) []Route {
	var list []Route
	for _, o := range c.Table.Operations() {
		for _, client := range c.Table.Forms() {
			if path := o.Path(client); path != "" {
				list = append(list, Route{c.BasePath + path, o.Name, client, upstreamFor(c, o, client), backendsFor(c, o, client)})
			}
		}
	}
	for _, path := range c.Route.Pass {
		form := c.Table.FormOf(path)
		list = append(list, Route{Path: c.BasePath + path, Operation: pass, Client: form, Upstream: c.UpstreamOfForm(form)})
	}
	return list
}

// match finds the route of a request. The router is asked directly, without its handler: that one answers
// unclean paths and wrong methods by itself, and puts into each request's context what we have at hand.
func (s *state) match(r *http.Request) *route {
	sent := sentPath(r.URL)
	if sent != r.URL.EscapedPath() {
		r = &http.Request{Method: r.Method, URL: &url.URL{Path: sent}, Host: r.Host}
	}
	var found mux.RouteMatch
	if !s.router.Match(r, &found) {
		return nil
	}
	matched := s.routes[found.Route.GetName()]
	if matched.passes && (strings.ContainsAny(sent, "%;\\") || path.Clean(sent) != strings.TrimSuffix(sent, "/") ||
		s.config.OperationWithSimilarPath(strings.TrimPrefix(sent, s.config.BasePath)) != nil) {
		return nil // an upstream might read it as another path, one of the table even
	}
	return matched
}

// sentPath is the path of a request as it was sent, but with a doubled slash as one: base addresses are joined carelessly
// (translate/README.md, Paths).
func sentPath(u *url.URL) string { return strings.ReplaceAll(u.EscapedPath(), "//", "/") }

// formOf is the form that a path without a route is answered in.
func (s *state) formOf(u *url.URL) translate.Form {
	return s.config.Table.FormOf(strings.TrimPrefix(sentPath(u), s.config.BasePath))
}

// passTarget is where a call of route.pass goes: the path that was asked for, below the upstream's base address.
func (x *exchange) passTarget() *url.URL {
	return x.target.upstream.target(strings.TrimPrefix(sentPath(x.r.URL), x.state.config.BasePath))
}

// sameUpstream tells whether connections made for one section serve the other.
func sameUpstream(a, b *config.Upstream) bool {
	if a.TLS != nil || b.TLS != nil {
		// The files may have new content behind the same names; a reload is how an operator says so.
		return false
	}
	return reflect.DeepEqual(a, b)
}

// retire closes what the next state does not use any more. Exchanges under way keep their connections.
func (s *state) retire(next *state) {
	for name, u := range s.upstreams {
		if next.upstreams[name] != u {
			u.transport.CloseIdleConnections()
		}
		if next.upstreams[name] == nil {
			u.metrics.deleteUpstream(name)
		}
	}
}
