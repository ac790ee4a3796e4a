package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// A view is the dot of a page's template. Within range and with, $ is the view.
type view struct {
	Name    string
	Title   string
	Lang    string
	Visitor Visitor
	Demo    bool
	Version string
	Nav     []Section
	Section string // the current one
	Data    any

	url *url.URL
}

// InLanguage returns the address of the page in a language.
func (v view) InLanguage(l string) string {
	query := v.url.Query()
	query.Set("lang", l)
	return localPath((&url.URL{Path: v.url.Path, RawQuery: query.Encode()}).String())
}

// Has reports whether the site has a section.
func (v view) Has(name string) bool {
	return slices.ContainsFunc(v.Nav, func(s Section) bool { return s.Name == name })
}

// Languages returns the languages of the switch.
func (v view) Languages() []string { return Languages }

// Page writes a page: the template templates/NAME.html with data as .Data.
func (s *Site) Page(w http.ResponseWriter, r *http.Request, name string, data any) {
	s.PageWithStatus(w, r, http.StatusOK, name, data)
}

// PageWithStatus is Page with another status than 200.
func (s *Site) PageWithStatus(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	// The link to the other language must not repeat a wrong value.
	if status >= http.StatusBadRequest && r.URL.RawQuery != "" {
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
	}
	s.write(w, r, status, name, "base", data)
}

// Part writes one block of a page's template, for htmx.
func (s *Site) Part(w http.ResponseWriter, r *http.Request, name, block string, data any) {
	s.write(w, r, http.StatusOK, name, block, data)
}

func (s *Site) write(w http.ResponseWriter, r *http.Request, status int, name, block string, data any) {
	text, err := s.render(r, name, block, data)
	if err != nil {
		s.Logger.Error("a page cannot be written", "page", name, "error", err.Error())
		http.Error(w, "the page cannot be written: see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// render executes a block of a page's template.
func (s *Site) render(r *http.Request, name, block string, data any) ([]byte, error) {
	lang := Language(r)
	parse := s.pages[lang][name]
	if parse == nil {
		return nil, fmt.Errorf("there is no template %s", name)
	}
	page, err := parse()
	if err != nil {
		return nil, err
	}
	v := view{
		Name: name, Lang: lang, Visitor: VisitorOf(r), Demo: s.Demo, Version: s.Version,
		Nav: s.navigation(), Section: s.sectionOf(r.URL.Path), Data: data, url: r.URL,
	}
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, block, v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// A refusal is the data of the page error.
type refusal struct {
	Status int
	Key    string // of the text; "" if there is Text
	Text   string
}

// Refuse writes the page error with the text of a key.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, status int, key string) {
	s.PageWithStatus(w, r, status, "error", refusal{Status: status, Key: key})
}

// Fail writes the page error for an error: its text, or for an internal one the text error.internal and a line of the
// log.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	if status != http.StatusInternalServerError {
		s.PageWithStatus(w, r, status, "error", refusal{Status: status, Text: err.Error()})
		return
	}
	s.Logger.Error("a page failed", "path", r.URL.Path, "error", err.Error())
	s.Refuse(w, r, http.StatusInternalServerError, "error.internal")
}

// A lazyPage returns the templates of a page. They are parsed when the page is shown for the first time.
type lazyPage func() (*template.Template, error)

// preparePages fills pages: those of this package, and those of the site.
func (s *Site) preparePages() error {
	s.pages = map[string]map[string]lazyPage{}
	for _, l := range Languages {
		s.pages[l] = map[string]lazyPage{}
		for _, from := range []fs.FS{files, s.Files} {
			names, err := fs.Glob(from, "templates/*.html")
			if err != nil {
				return err
			}
			for _, name := range names {
				page := strings.TrimSuffix(path.Base(name), ".html")
				s.pages[l][page] = sync.OnceValues(func() (*template.Template, error) { return s.parse(l, from, name) })
			}
		}
	}
	return nil
}

func (s *Site) parse(language string, from fs.FS, name string) (*template.Template, error) {
	t := template.New("").Funcs(s.functions(language))
	if s.Functions != nil {
		t.Funcs(s.Functions(language))
	}
	t, err := t.ParseFS(files, "templates/base.html")
	if parts, _ := fs.Glob(s.Files, "templates/parts/*.html"); err == nil && len(parts) > 0 {
		t, err = t.ParseFS(s.Files, parts...)
	}
	if err != nil {
		return nil, err
	}
	return t.ParseFS(from, name)
}

// functions are the functions of the templates of every site:
//
//	{{t "key" arg…}}          the text of a key
//	{{word "prefix." value}}  the text of prefix.VALUE, or the value
//	{{time .At}}              a time, short, with date and zone in its tooltip; in a browser with scripts in its zone,
//	                          with how long ago it is
//	{{number .N}}             a number with separators
//	{{address "/p" .Query}}   the address of a page with a query, for href
//	{{static "style.css"}}    the address of a file of static/
func (s *Site) functions(lang string) template.FuncMap {
	all := s.Texts
	return template.FuncMap{
		"t":       func(key string, args ...any) (string, error) { return all.T(lang, key, args...) },
		"word":    func(prefix string, value any) string { return all.Word(lang, prefix, value) },
		"time":    s.Time,
		"number":  Number,
		"address": address,
		"static":  staticURL,
	}
}

// address returns the address of a page with an encoded query. The templates would escape the signs of a query that
// stands alone.
func address(path, query string) template.URL {
	if query == "" {
		return template.URL(path)
	}
	return template.URL(path + "?" + query)
}

// Time returns a time as HTML, in the zone of the site. at is a time.Time or a *time.Time.
func (s *Site) Time(at any) (template.HTML, error) {
	var when time.Time
	switch at := at.(type) {
	case time.Time:
		when = at
	case *time.Time:
		if at != nil {
			when = *at
		}
	default:
		return "", fmt.Errorf("time: %T is not a time", at)
	}
	if when.IsZero() {
		return "–", nil
	}
	zone := s.Zone()
	here, utc := when.In(zone), when.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + utc + `" title="` + here.Format(time.RFC3339) + `">` +
		here.Format(shortLayout(here, time.Now().In(zone))) + `</time>`), nil
}

// shortLayout is the layout of a time, without what it has in common with now.
func shortLayout(at, now time.Time) string {
	switch {
	case at.Year() != now.Year():
		return time.DateOnly
	case at.YearDay() != now.YearDay():
		return "01-02 15:04"
	}
	return time.TimeOnly
}

// Number returns a whole number with a comma after each three digits.
func Number(n any) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// staticURL returns the address of a file of static/, with a part of its hash, so that browsers can keep it.
func staticURL(name string) (string, error) {
	data, err := files.ReadFile("static/" + name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return "/static/" + name + "?v=" + hex.EncodeToString(sum[:6]), nil
}

// static serves a file of static/.
func (s *Site) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	data, err := files.ReadFile("static/" + name)
	if err != nil || path.Ext(name) == ".md" {
		s.Refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// IsPart reports whether htmx asks for a part of the page.
func IsPart(r *http.Request) bool { return r.Header.Get("HX-Request") != "" }
