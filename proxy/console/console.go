// Package console serves the pages on which an operator sees what the gateway does, and steers it.
//
//	c, err := console.New(console.Options{Gateway: gateway, Config: config, Operator: operator})
//	proxy.New(config, proxy.Options{Finished: c.Finished})
//	http.Handle("/", c)
//
// A Console is an http.Handler for the admin listener. It reads and changes through package operate, as the commands
// do, so both have the same preconditions, limits and audit log. Its only state is a bounded ring of finished calls,
// the numbers of the last 60 minutes, and what needed a person in the last hour.
//
// Every page works without scripts. The words are in text/, the pages in templates/.
package console

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
)

// Options are the dependencies of a console.
type Options struct {
	Gateway  Gateway
	Operator *operate.Operator // if nil, there are neither rollout nor callbacks
	Ready    func() []Problem  // what is not ready; may be nil

	Reload func(by string) error // calls Reloaded; if nil, the config cannot be read again
	Config func() *config.Config // the config in force
	Access Access                // if nil, there are no tokens, and every visitor may operate
	Now    func() time.Time      // if nil, time.Now
	Logger *slog.Logger          // if nil, nothing is logged

	Version string
	Demo    bool // every page says that it shows a demo
}

// Gateway is what the pages read of a [proxy.Gateway].
type Gateway interface {
	Upstreams() []proxy.UpstreamStatus
}

// A Console serves the pages. It is safe for concurrent use.
type Console struct {
	options Options
	mux     *http.ServeMux
	reading map[string]bool // by pattern: whether a POST changes nothing
	ring    *ring
	window  *window
	solved  solutions
	texts   texts
	pages   map[string]map[string]lazyPage // by language and name

	lastReading atomic.Pointer[reading]
}

// New returns a console.
func New(o Options) (*Console, error) {
	if o.Config == nil {
		return nil, errors.New("console: Options.Config is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Operator == nil {
		o.Operator = operate.New(operate.Options{Config: o.Config})
	}
	c := &Console{
		options: o, mux: http.NewServeMux(), reading: map[string]bool{},
		ring: newRing(o.Now()), window: newWindow(o.Now()),
	}
	c.Reloaded(nil)
	if err := c.preparePages(); err != nil {
		return nil, err
	}
	for _, r := range c.routes() {
		c.mux.HandleFunc(r.pattern, r.serve)
		c.reading[r.pattern] = r.reads
	}
	return c, nil
}

// Finished takes a finished call, as [proxy.Options] wants it. It does not wait.
func (c *Console) Finished(f *proxy.Finished) {
	c.window.add(f)
	c.ring.add(f)
}

// A route is a page or an action. A visitor that may only read gets 403 for every POST unless reads is set.
type route struct {
	pattern string
	serve   http.HandlerFunc
	reads   bool // a POST that changes nothing
}

// routes returns the routes. The paths of the admin API are those of package server: /metrics, /-/…, /rollout…,
// /callbacks…, /store…, /audit…; a page must not begin with one of them. So the pages of callbacks are below
// /deliveries.
//
//	/                     Overview
//	/calls                Calls
//	/calls/{key}          one call
//	/partners             the board, or the table
//	/partners/next        the next stages of several partners
//	/partners/{partner}   one partner, with /next, /set and /unset the changes of its stage
//	/partners/stop        the kill switch, /partners/resume its end
//	/waves                the waves
//	/waves/new            a form for a new wave, and what it would do
//	/waves/{name}         one wave, with /pause, /resume, /stop, /rollback and /release its changes
//	/bills                Bills
//	/deliveries           Callbacks
//	/deliveries/{id}      one callback
//	/playground           Playground; ?call={key}&message=request or reply opens the shape of a message of a call
//	/table                Table
//	/config               Config
//	/sign-in, /sign-out   sessions
//	/static/…             style and scripts
func (c *Console) routes() []route {
	all := []route{
		{pattern: "GET /static/{file}", serve: c.static},
		{pattern: "GET /sign-in", serve: c.signIn},
		{pattern: "POST /sign-in", serve: c.signIn, reads: true},
		{pattern: "POST /sign-out", serve: c.signOut, reads: true},

		{pattern: "GET /{$}", serve: c.overview},
		{pattern: "GET /calls", serve: c.calls},
		{pattern: "GET /calls/{key}", serve: c.oneCall},

		{pattern: "GET /config", serve: c.config},
		{pattern: "POST /config/reload", serve: c.reload},

		{pattern: "GET /table", serve: c.table},
		{pattern: "GET /playground", serve: c.playground},
		{pattern: "POST /playground", serve: c.playground, reads: true},
	}
	if c.options.Operator.Rollout != nil {
		all = append(append(all, []route{
			{pattern: "GET /partners", serve: c.partners},
			{pattern: "GET /partners/{partner}", serve: c.onePartner},
			{pattern: "GET /bills", serve: c.bills},
			{pattern: "POST /bills/read", serve: c.readBill},
			{pattern: "POST /bills/read-all", serve: c.readAllBills},
		}...), slices.Concat(c.moveRoutes(), c.waveRoutes())...)
	}
	if c.options.Operator.Relay != nil {
		all = append(all, []route{
			{pattern: "GET /deliveries", serve: c.callbacks},
			{pattern: "GET /deliveries/{id}", serve: c.callback},
			{pattern: "GET /deliveries/{id}/{do}", serve: c.decideCallback},
			{pattern: "POST /deliveries/{id}/{do}", serve: c.decideCallback},
			{pattern: "GET /deliveries/all/{do}", serve: c.decideCallbacks},
			{pattern: "POST /deliveries/all/{do}", serve: c.decideCallbacks},
		}...)
	}
	return all
}

// A section is an entry of the navigation. Its title is the text nav.NAME.
type section struct{ Name, Path string }

var sections = []section{
	{"overview", "/"},
	{"calls", "/calls"},
	{"partners", "/partners"},
	{"bills", "/bills"},
	{"callbacks", "/deliveries"},
	{"playground", "/playground"},
	{"table", "/table"},
	{"config", "/config"},
}

// navigation returns the sections that this gateway has.
func (c *Console) navigation() []section {
	return slices.DeleteFunc(slices.Clone(sections), func(s section) bool {
		_, known := c.reading["GET "+s.Path]
		return !known && s.Path != "/"
	})
}

// sectionOf returns the name of the section that a path belongs to, or "". Waves belong to the partners.
func sectionOf(path string) string {
	path = strings.Replace(path, "/waves", "/partners", 1)
	for _, s := range sections {
		if path == s.Path || s.Path != "/" && strings.HasPrefix(path, s.Path+"/") {
			return s.Name
		}
	}
	return ""
}

// maxBody is the most that a form may have, in bytes: a document for the playground, and its overlay.
const maxBody = 4 << 20

// maxSignIn is the same for visitors that have not signed in.
const maxSignIn = 16 << 10

// ServeHTTP serves a page.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if c.switchLanguage(w, r) {
		return
	}
	ctx := withLanguage(r.Context(), c.languageOf(r))
	if c.options.Access == nil && ctx.Value(visitorKey{}) == nil {
		ctx = WithVisitor(ctx, Visitor{MayOperate: true}) // the server has checked that the listener is on loopback
	}
	r = r.WithContext(ctx)
	_, pattern := c.mux.Handler(r)
	switch {
	case !c.mayEnter(r, pattern):
		c.askToSignIn(w, r)
	case pattern == "" && r.Method != http.MethodGet && r.Method != http.MethodHead:
		c.refuse(w, r, http.StatusMethodNotAllowed, "error.method")
	case pattern == "":
		c.refuse(w, r, http.StatusNotFound, "error.path")
	case r.Method == http.MethodPost && !c.reading[pattern] && !visitorOf(r).MayOperate:
		c.refuse(w, r, http.StatusForbidden, "error.read_only")
	default:
		limit := int64(maxBody)
		if ctx.Value(visitorKey{}) == nil {
			limit = maxSignIn
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		c.mux.ServeHTTP(w, r)
	}
}

// setHeaders sets the headers of every answer. The policy allows no inline script and no inline style, and nothing
// from elsewhere.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
		"img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}
