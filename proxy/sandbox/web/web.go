// Package web serves the pages of a sandbox to the developers of partners: their calls, bills, scenarios and the
// clock.
//
//	handler, err := web.New(web.Options{Service: service})
//	http.Serve(controlListener, handler)
//
// The handler is for the control address: what is no page is a call of the control API. A visitor sees what the control
// token of its session gives access to. A visitor without one, on loopback, sees the partners that have no control
// token.
package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/pages"
	"billbridge/proxy/sandbox"

	"go.yaml.in/yaml/v4"
)

//go:embed templates text scenarios.yaml
var files embed.FS

// Options are what the pages need.
type Options struct {
	Service *sandbox.Service
	Version string
	Log     *slog.Logger
	// Runs answers calls below /api/: of the partner with a key, or of all partners. It can be nil.
	Runs func(w http.ResponseWriter, r *http.Request, partner string)
}

// A desk serves the pages.
type desk struct {
	*sandbox.Service
	site      *pages.Site
	control   http.Handler
	sessions  pages.Sessions
	guesses   pages.Guesses
	runs      func(http.ResponseWriter, *http.Request, string)
	scenarios []scenario
}

// New returns the handler of the control address.
func New(o Options) (http.Handler, error) {
	d := &desk{Service: o.Service, control: o.Service.Control(), runs: o.Runs}
	d.guesses.Token, d.guesses.Log = "control token", cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	d.sessions.Cookie = "billbridge_sandbox_session"
	texts, err := pages.ReadTexts(files)
	if err != nil {
		return nil, err
	}
	data, err := files.ReadFile("scenarios.yaml")
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(data, &d.scenarios); err != nil {
		return nil, err
	}
	d.site, err = pages.New(pages.Options{
		Files: files, Texts: texts, Access: d, Logger: o.Log, Version: o.Version, Demo: true,
		Zone: func() *time.Location { return d.Now().Location() },
		Sections: []pages.Section{
			{Name: "calls", Path: "/desk/calls"},
			{Name: "bills", Path: "/desk/bills", Also: "/desk/bill"},
			{Name: "scenarios", Path: "/desk/scenarios"},
			{Name: "clock", Path: "/desk/clock"},
		},
	})
	if err != nil {
		return nil, err
	}
	first := http.RedirectHandler("/desk/calls", http.StatusSeeOther)
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /{$}":                    first.ServeHTTP,
		"GET /desk/calls":             d.calls,
		"GET /desk/calls/{number}":    d.call,
		"GET /desk/bills":             d.bills,
		"GET /desk/bill":              d.bill,
		"POST /desk/bill/{do}":        d.changeBill,
		"GET /desk/scenarios":         d.allScenarios,
		"POST /desk/scenarios/{name}": d.switchScenario,
		"GET /desk/clock":             d.clock,
		"POST /desk/clock":            d.setClock,
	} {
		d.site.Handle(pages.Route{Pattern: pattern, Serve: serve})
	}
	return d, nil
}

type scopeKey struct{}

// ServeHTTP serves a page, or a call of the control API.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !strings.Contains(" desk static sign-in sign-out ", " "+first+" ") && first != "" {
		hash := sandbox.BearerToken(r)
		of, status, _ := d.Admit(r, hash)
		wrong := status == http.StatusUnauthorized && hash != sandbox.Token{}
		switch {
		case wrong && d.check(r, hash) == http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "1")
			sandbox.Refuse(w, http.StatusTooManyRequests,
				"too many wrong control tokens at once from your address: try again in a second")
		case first == "api" && status == 0 && d.runs != nil:
			d.runs(w, r, of.Partner)
		default:
			d.control.ServeHTTP(w, r)
		}
		return
	}
	token, _ := d.sessions.Find(r)
	of, status, text := d.Admit(r, sandbox.Token(token))
	switch status {
	case 0:
		s := d.scopeOf(of)
		v := pages.Visitor{Name: s.Of(of.Partner).Name, MayOperate: true, SignedIn: of != sandbox.Access{}}
		v.MaySignIn = !s.All && !v.SignedIn
		ctx := context.WithValue(r.Context(), scopeKey{}, s)
		d.site.ServeHTTP(w, r.WithContext(pages.WithVisitor(ctx, v)))
	case http.StatusUnauthorized:
		d.site.ServeHTTP(w, r) // it asks for a token
	default:
		http.Error(w, text, status)
	}
}

// SignIn begins a session for a control token.
func (d *desk) SignIn(w http.ResponseWriter, r *http.Request, token string) (status int) {
	hash := sha256.Sum256([]byte(token))
	if status = d.check(r, hash); status == http.StatusOK {
		d.sessions.SetCookie(w, r, d.sessions.Begin(r, hash))
	}
	return status
}

// check returns 200 if a token is right. For a wrong one it may wait, as for the admin token of a gateway.
func (d *desk) check(r *http.Request, hash sandbox.Token) (status int) {
	if of, _, _ := d.Admit(r, hash); (of != sandbox.Access{}) {
		return http.StatusOK
	}
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // without a network, as in a test, all are one address
	address := at.Addr().Unmap().WithZone("")
	from, _ := address.Prefix(min(address.BitLen(), 64))
	if !d.guesses.Wait(r.Context(), from) {
		return http.StatusTooManyRequests
	}
	d.guesses.Fail(from, true)
	return http.StatusUnauthorized
}

// SignOut ends a session.
func (d *desk) SignOut(w http.ResponseWriter, r *http.Request) { d.sessions.End(w, r) }

// A scope is what a visitor sees.
type scope struct {
	Partners []choice
	All      bool // also calls that name no partner, and what concerns the whole service
}

// A choice is a partner. Addresses have the ID, because the key is a secret.
type choice struct{ ID, Name, key string }

// scopeOf returns what a token gives access to.
func (d *desk) scopeOf(of sandbox.Access) scope {
	s := scope{All: of.Partner == ""}
	for i, p := range d.Partners() {
		if of.Operator || of.Partner == p.Key || of == (sandbox.Access{}) && p.ControlToken == "" {
			s.Partners = append(s.Partners, choice{strconv.Itoa(i + 1), p.Name, p.Key})
		} else {
			s.All = false
		}
	}
	return s
}

// scopeOf returns what the visitor of a page sees.
func scopeOf(r *http.Request) scope {
	s, _ := r.Context().Value(scopeKey{}).(scope)
	return s
}

// find returns the partner with an ID or a key; the zero choice if the visitor does not see it.
func (s scope) find(id, key string) choice {
	for _, p := range s.Partners {
		if p.ID == id || p.key == key {
			return p
		}
	}
	return choice{}
}

// Of returns the partner with a key.
func (s scope) Of(key string) choice { return s.find("", key) }

// sees reports whether the visitor sees what the partner with a key has.
func (s scope) sees(key string) bool { return s.All || s.Of(key).ID != "" }
