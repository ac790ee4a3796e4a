// Package pages serves pages to people: the console of the gateway and the pages of the sandbox are sites of it. It has
// the frame of a page with its style and scripts, languages, times in the zone of the reader, sign-in, and the checks
// of every request. It knows neither gateway nor sandbox.
//
//	texts, err := pages.ReadTexts(files)
//	site := pages.New(pages.Options{Files: files, Texts: texts, Sections: sections})
//	site.Handle(pages.Route{Pattern: "GET /calls", Serve: func(w http.ResponseWriter, r *http.Request) {
//		site.Page(w, r, "calls", data)
//	}})
//	http.Handle("/", site)
//
// The files of a site are templates/NAME.html, each with the blocks title and main, templates/parts/*.html with blocks
// for all of them, and text/*.yaml. Every page works without scripts.
package pages

import (
	"context"
	"embed"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

//go:embed templates static text
var files embed.FS

// Options are what a site has of its own.
type Options struct {
	Files     fs.FS // templates/NAME.html and templates/parts/*.html
	Texts     Texts
	Sections  []Section
	Functions func(language string) template.FuncMap // of the templates, beside those of this package; may be nil
	Zone      func() *time.Location                  // of times in browsers without scripts
	Access    Access                                 // if nil, every visitor may operate
	Logger    *slog.Logger

	Version string
	Demo    bool // every page has the text base.demo
}

// A Section is an entry of the navigation, which has it if there is a route for its path. Its title is the text
// nav.NAME.
type Section struct {
	Name, Path string
	Also       string // another path whose pages belong to it; may be ""
}

// has reports whether a path belongs to the section.
func (s Section) has(path string) bool {
	below := func(own string) bool {
		return path == own || own != "/" && own != "" && strings.HasPrefix(path, own+"/")
	}
	return below(s.Path) || below(s.Also)
}

// A Route is a page or an action. A visitor that may only read gets 403 for every POST unless Reads is set.
type Route struct {
	Pattern string
	Serve   http.HandlerFunc
	Reads   bool // a POST that changes nothing
}

// A Site serves pages. It is safe for concurrent use once it has its routes.
type Site struct {
	Options

	mux     *http.ServeMux
	routes  []Route
	reading map[string]bool                // by pattern: Route.Reads
	pages   map[string]map[string]lazyPage // by language and name
}

// New returns a site with the routes of sign-in and of static files.
func New(o Options) (*Site, error) {
	s := &Site{Options: o, mux: http.NewServeMux(), reading: map[string]bool{}}
	s.Handle(
		Route{Pattern: "GET /static/{file}", Serve: s.static},
		Route{Pattern: "GET /sign-in", Serve: s.signIn},
		Route{Pattern: "POST /sign-in", Serve: s.signIn, Reads: true},
		Route{Pattern: "POST /sign-out", Serve: s.signOut, Reads: true},
	)
	return s, s.preparePages()
}

// Handle adds routes.
func (s *Site) Handle(routes ...Route) {
	for _, r := range routes {
		s.mux.HandleFunc(r.Pattern, r.Serve)
		s.reading[r.Pattern] = r.Reads
	}
	s.routes = append(s.routes, routes...)
}

// Routes returns all routes.
func (s *Site) Routes() []Route { return s.routes }

// navigation returns the sections that this site has.
func (s *Site) navigation() []Section {
	return slices.DeleteFunc(slices.Clone(s.Sections), func(one Section) bool {
		_, known := s.reading["GET "+one.Path]
		return !known && one.Path != "/"
	})
}

// sectionOf returns the name of the section that a path belongs to, or "".
func (s *Site) sectionOf(path string) string {
	for _, one := range s.Sections {
		if one.has(path) {
			return one.Name
		}
	}
	return ""
}

// maxBody is the most that a form may have, in bytes: a document for the playground, and its overlay.
const maxBody = 4 << 20

// maxSignIn is the same for visitors that have not signed in.
const maxSignIn = 16 << 10

// ServeHTTP serves a page.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if switchLanguage(w, r) {
		return
	}
	ctx := context.WithValue(r.Context(), languageKey{}, languageOf(r))
	if s.Access == nil && ctx.Value(visitorKey{}) == nil {
		ctx = WithVisitor(ctx, Visitor{MayOperate: true}) // the server has checked that the listener is on loopback
	}
	r = r.WithContext(ctx)
	_, pattern := s.mux.Handler(r)
	switch {
	case !mayEnter(r, pattern):
		s.askToSignIn(w, r)
	case pattern == "" && r.Method != http.MethodGet && r.Method != http.MethodHead:
		s.Refuse(w, r, http.StatusMethodNotAllowed, "error.method")
	case pattern == "":
		s.Refuse(w, r, http.StatusNotFound, "error.path")
	case r.Method == http.MethodPost && !s.reading[pattern] && !VisitorOf(r).MayOperate:
		s.Refuse(w, r, http.StatusForbidden, "error.read_only")
	default:
		limit := int64(maxBody)
		if ctx.Value(visitorKey{}) == nil {
			limit = maxSignIn
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		s.mux.ServeHTTP(w, r)
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
