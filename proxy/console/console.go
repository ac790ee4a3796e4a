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
	"maps"
	"net/http"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
)

// Options are the dependencies of a console.
type Options struct {
	Gateway  Gateway
	Operator *operate.Operator // if nil, there are neither rollout nor callbacks
	Ready    func() []Problem  // what is not ready; may be nil

	Config func() *config.Config // the config in force
	Access pages.Access          // if nil, there are no tokens, and every visitor may operate
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
	Options

	site    *pages.Site
	ring    *ring
	windows []*window // by reaches
	texts   texts
	trying  chan struct{}  // holds one while the playground works
	zone    *time.Location // of times in browsers without scripts
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
		o.Operator = operate.New(operate.Options{Config: o.Config, Now: o.Now})
	}
	c := &Console{
		Options: o, zone: time.Local,
		ring: newRing(o.Now()), trying: make(chan struct{}, 1),
	}
	for _, r := range reaches {
		c.windows = append(c.windows, newWindow(o.Now(), r))
	}
	if o.Operator.Rollout != nil {
		o.Operator.Rollout.Counts().Watch(c.compared)
	}
	var err error
	if c.texts, err = readTexts(); err != nil {
		return nil, err
	}
	c.site, err = pages.New(pages.Options{
		Files: files, Texts: c.texts.Texts, Sections: sections, Functions: c.functions,
		Zone:   func() *time.Location { return c.zone },
		Access: o.Access, Logger: o.Logger, Version: o.Version, Demo: o.Demo,
	})
	if err != nil {
		return nil, err
	}
	for pattern, serve := range c.routes() {
		methods, path, _ := strings.Cut(pattern, " ")
		for method := range strings.SplitSeq(methods, ",") {
			one := method + " " + path
			route := pages.Route{Pattern: one, Serve: c.serve(serve)}
			if one == "POST /playground" {
				route.Serve, route.Reads = c.oneAtATime(route.Serve), true
			}
			c.site.Handle(route)
		}
	}
	return c, nil
}

// Finished takes a finished call, as [proxy.Options] wants it. It does not wait.
func (c *Console) Finished(f *proxy.Finished) {
	for _, w := range c.windows {
		w.add(f)
	}
	c.ring.add(f)
}

// compared takes a comparison of the answers of both backends.
func (c *Console) compared(differs bool) {
	for _, w := range c.windows {
		w.compared(c.Now(), differs)
	}
}

// routes returns the routes. The paths of the admin API are those of package server: /metrics, /-/…, /rollout…,
// /callbacks…, /store…, /audit…; a page must not begin with one of them. So the pages of callbacks are below
// /deliveries.
//
//	/                     Overview
//	/calls                Calls
//	/calls/{key}          one call
//	/partners             the table of partners
//	/partners/{partner}   one partner, with /next, /set and /unset the changes of its stage
//	/partners/stop        the kill switch, /partners/resume its end
//	/waves                the waves
//	/waves/new            a form for a new wave, and what it would do
//	/waves/{name}         one wave, with /pause, /resume, /stop, /rollback and /release its changes
//	/bills                Bills
//	/deliveries           Callbacks
//	/deliveries/{id}      one callback
//	/playground           Playground; ?operation, message and direction choose the example
//	/table                Table
//	/sign-in, /sign-out   sessions, by package pages
//	/static/…             style and scripts, by package pages
func (c *Console) routes() map[string]handler {
	all := map[string]handler{
		"GET /{$}":             c.overview,
		"GET /calls":           c.calls,
		"GET /calls/{key}":     c.oneCall,
		"GET /table":           c.table,
		"GET,POST /playground": c.playground,
	}
	if c.Operator.Rollout != nil {
		maps.Copy(all, map[string]handler{
			"GET /partners":                      c.partners,
			"GET /partners/{partner}":            c.onePartner,
			"GET,POST /partners/stop":            c.move("stop"),
			"GET,POST /partners/resume":          c.move("resume"),
			"GET,POST /partners/{partner}/next":  c.move("next"),
			"GET,POST /partners/{partner}/set":   c.move("set"),
			"GET,POST /partners/{partner}/unset": c.move("unset"),
			"GET /waves":                         c.waves,
			"GET,POST /waves/new":                c.newWave,
			"GET /waves/{name}":                  c.oneWave,
			"GET,POST /waves/{name}/{do}":        c.decideWave,
			"GET /bills":                         c.bills,
			"POST /bills/read":                   c.bills,
			"POST /bills/read-all":               c.readAllBills,
		})
	}
	if c.Operator.Relay != nil {
		maps.Copy(all, map[string]handler{
			"GET /deliveries":                  c.callbacks,
			"GET /deliveries/{id}":             c.callback,
			"GET,POST /deliveries/{id}/replay": c.decideCallback,
			"GET,POST /deliveries/{id}/drop":   c.decideCallback,
			"GET,POST /deliveries/all/replay":  c.decideCallbacks,
			"GET,POST /deliveries/all/drop":    c.decideCallbacks,
		})
	}
	return all
}

// sections are the entries of the navigation.
var sections = []pages.Section{
	{Name: "overview", Path: "/"},
	{Name: "calls", Path: "/calls"},
	{Name: "partners", Path: "/partners"},
	{Name: "waves", Path: "/waves"},
	{Name: "bills", Path: "/bills"},
	{Name: "callbacks", Path: "/deliveries"},
	{Name: "playground", Path: "/playground"},
	{Name: "table", Path: "/table"},
}

// ServeHTTP serves a page.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.site.ServeHTTP(w, r) }
