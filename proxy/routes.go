package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/ledger"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/gorilla/mux"
)

// A state is the gateway's state for one config. It is immutable. A reload replaces it as a whole.
type state struct {
	config    *config.Config
	router    *mux.Router
	routes    map[string]*route // by the name of their mux route
	byPath    map[string]*route // those of the table, by path: their requests need no search in the router
	upstreams map[string]*upstream.Upstream

	moves         ledger.Moves                               // of the state of a bill
	readOperation *translate.Operation                       // reads a bill; nil if the table has no such operation
	readTargets   map[translate.Form]map[string]*routeTarget // of readOperation, by the client's form and the upstream

	answerWithin time.Duration // the longest time from the end of a request's header to the end of its answer
	sendWithin   time.Duration // a write that arrived longer ago is not sent
}

// A route is one operation in one form of the client.
type route struct {
	operation   *translate.Operation
	client      translate.Form
	target      *routeTarget // nil if no upstream has the operation
	passThrough bool         // a path of route.pass: neither bytes nor path are changed
	anonymous   bool         // its requests do not name the partner, whose limits would limit all callers

	// targets are the two targets between which the rollout decides, by upstream. Nil if it does not decide on the
	// operation.
	targets map[string]*routeTarget
	// readTranslation reads a request. It is the translation of one of the targets, if possible one that changes the
	// form.
	readTranslation *translate.Translation
}

// A routeTarget is an upstream for the calls of a route, with the translation to its form.
type routeTarget struct {
	upstream    *upstream.Upstream
	do          func(context.Context, *upstream.Request) (httpconn.Reply, *upstream.Failure) // upstream.Do
	translation *translate.Translation
	head        []byte // see upstream.Upstream.Head
	metrics     *targetMetrics
}

func newState(
	c *config.Config, old *state, m *metrics, userAgent string, log *slog.Logger,
) *state {
	s := &state{
		config: c,
		// Paths are matched with their escapes and are not cleaned: mux would answer an unclean path with a 301.
		router:      mux.NewRouter().SkipClean(true).UseEncodedPath(),
		routes:      map[string]*route{},
		byPath:      map[string]*route{},
		upstreams:   map[string]*upstream.Upstream{},
		readTargets: map[translate.Form]map[string]*routeTarget{},

		answerWithin: c.AnswerWithin(), sendWithin: config.SendWithin,
	}
	if c.Rollout != nil {
		s.sendWithin = c.Rollout.SendWithin
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if old != nil && old.upstreams[u.Name] != nil {
			if sameUpstream(old.upstreams[u.Name].Config, u) {
				s.upstreams[u.Name] = old.upstreams[u.Name]
				continue
			}
			old.upstreams[u.Name].Retire() // before the next one sets the series
		}
		s.upstreams[u.Name] = upstream.New(u, userAgent, m.upstreams, log, nil)
	}
	for _, r := range Routes(c) {
		name, o, match := string(r.Client)+" "+r.Operation, c.Table.Operation(r.Operation), s.router.Path
		pass := r.Operation == passOperation
		if pass {
			o = c.Table.PassThrough(passOperation, r.Client, billing.Partner)
		}
		if pass && strings.HasSuffix(r.Path, "/") {
			match = s.router.PathPrefix
		}
		match(r.Path).Name(name)
		if s.routes[name] != nil { // another path of route.pass
			continue
		}
		added := &route{
			operation: o, client: r.Client, passThrough: pass,
			anonymous: !o.HasRole(translate.Request, billing.Partner, r.Client),
		}
		s.routes[name] = added
		if !pass && s.byPath[r.Path] == nil {
			s.byPath[r.Path] = added
		}
		if r.Upstream != nil {
			added.target = s.newTarget(o, r.Client, r.Upstream, m)
			added.readTranslation = added.target.translation
		}
		for _, u := range r.Backends {
			added.addTarget(s.newTarget(o, r.Client, u, m))
		}
	}
	s.addReadTargets(m)
	return s
}

// passOperation is the name of the operation for paths of route.pass.
const passOperation = "pass"

// addTarget adds one of the targets between which the rollout decides.
func (r *route) addTarget(target *routeTarget) {
	if r.targets == nil {
		r.targets, r.readTranslation = map[string]*routeTarget{}, target.translation
	}
	if !target.translation.SameForm() {
		r.readTranslation = target.translation
	}
	r.targets[target.upstream.Config.Name] = target
}

// addReadTargets adds the targets for reads by the gateway itself: for each form of a client and each upstream. If
// the table has no operation to read bills, the config needs none.
func (s *state) addReadTargets(m *metrics) {
	read, err := billing.ReadOperation(s.config.Table)
	if err != nil {
		return
	}
	s.readOperation, s.moves = read, billing.Moves(s.config.Table)
	for _, client := range s.config.Table.Forms() {
		s.readTargets[client] = map[string]*routeTarget{}
		for i := range s.config.Upstreams {
			u := &s.config.Upstreams[i]
			s.readTargets[client][u.Name] = s.newTarget(read, client, u, m)
		}
	}
}

// newTarget returns a target for an operation that the upstream's form has. What is the same for each call is computed
// here, once.
func (s *state) newTarget(o *translate.Operation, client translate.Form, u *config.Upstream, m *metrics) *routeTarget {
	to := s.upstreams[u.Name]
	t := &routeTarget{
		upstream:    to,
		do:          to.Do,
		translation: o.Translation(client, u.Form),
		head:        to.Head(o.Path(u.Form)),
		metrics:     m.target(o.Name, string(client), u.Name),
	}
	t.metrics.initSeries(o, t.translation)
	return t
}

// upstreamFor returns the default upstream, or the first in the file if the form of the default one lacks the
// operation, as legacy lacks sub-business operations. It returns nil if no upstream has the operation.
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

// backendsFor returns the backends of the rollout, old first, or nil if the rollout does not decide on the
// operation. It decides on operations that both backends have, and that are about a bill or reads.
func backendsFor(c *config.Config, o *translate.Operation, client translate.Form) (backends []*config.Upstream) {
	if c.Rollout == nil || !billing.AboutBill(o) && !o.ByStage() {
		return nil
	}
	for _, name := range []string{c.Rollout.Old, c.Rollout.New} {
		u := c.Upstreams.Find(name)
		if o.Translation(client, u.Form) == nil {
			return nil
		}
		backends = append(backends, u)
	}
	return backends
}

// A Route says where the calls of one operation in one form go.
type Route struct {
	Path      string // with the base path
	Operation string
	Client    translate.Form
	Upstream  *config.Upstream // nil if no upstream has the operation

	// Backends are those between which the rollout decides. Nil if it does not decide: then calls go to Upstream, as
	// those of sub-business operations do in every stage.
	Backends []*config.Upstream
}

// Routes returns the routes of a gateway with this config, in the order of the table.
func Routes(c *config.Config) []Route {
	var list []Route
	for _, o := range c.Table.Operations {
		for _, client := range c.Table.Forms() {
			if path := o.Path(client); path != "" {
				list = append(list, Route{
					c.BasePath + path, o.Name, client, upstreamFor(c, o, client), backendsFor(c, o, client),
				})
			}
		}
	}
	for _, path := range c.Route.Pass {
		form := c.Table.FormOf(path)
		list = append(list, Route{
			Path: c.BasePath + path, Operation: passOperation, Client: form, Upstream: c.UpstreamOfForm(form),
		})
	}
	return list
}

// match returns the route of a request, or nil. It does not use the router as a handler, since that would answer
// unclean paths and wrong methods itself, and would add values to the context of each request.
func (s *state) match(r *http.Request) *route {
	sent := sentPath(r.URL)
	if found := s.byPath[sent]; found != nil {
		return found
	}
	if sent != r.URL.EscapedPath() {
		r = &http.Request{Method: r.Method, URL: &url.URL{Path: sent}, Host: r.Host}
	}
	var found mux.RouteMatch
	if !s.router.Match(r, &found) {
		return nil
	}
	matched := s.routes[found.Route.GetName()]
	if matched.passThrough && (strings.ContainsAny(sent, "%;\\") || path.Clean(sent) != strings.TrimSuffix(sent, "/") ||
		s.config.OperationWithSimilarPath(strings.TrimPrefix(sent, s.config.BasePath)) != nil) {
		return nil // an upstream may treat it as another path, even as one of the table
	}
	return matched
}

// sentPath returns the path of a request with its escapes. A doubled slash counts as one, since some clients join
// base addresses carelessly (INTERFACE.md, Paths).
func sentPath(u *url.URL) string { return strings.ReplaceAll(u.EscapedPath(), "//", "/") }

// formOf returns the form in which a path without a route is answered.
func (s *state) formOf(u *url.URL) translate.Form {
	return s.config.Table.FormOf(strings.TrimPrefix(sentPath(u), s.config.BasePath))
}

// sameUpstream reports whether two configs of an upstream can use the same connections.
func sameUpstream(a, b *config.Upstream) bool {
	if a.TLS != nil || b.TLS != nil {
		// The content of the files may have changed. A reload must use it.
		return false
	}
	return reflect.DeepEqual(a, b)
}

// retire closes the idle connections that the next state does not use. Exchanges in progress keep theirs.
func (s *state) retire(next *state, m *metrics) {
	for name, u := range s.upstreams {
		if next.upstreams[name] != u {
			u.CloseIdle()
		}
		if next.upstreams[name] == nil {
			u.Retire()
			m.deleteUpstream(name)
		}
	}
}

// unusable returns the failure of a reply that the translation could not read.
func (t *routeTarget) unusable(status int, err error) *upstream.Failure {
	unusable, ok := errors.AsType[*translate.UnusableReply](err)
	if !ok {
		return t.upstream.Unusable(status, "", false)
	}
	return t.upstream.Unusable(status, unusable.Reason, unusable.Field != "")
}
