package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
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

	"billbridge/proxy/rollout/evidence"
	"billbridge/translate"
	"billbridge/translate/billing"
)

//go:embed templates static
var files embed.FS

// A view is the dot of a page's template. Within range and with, $ is the view.
type view struct {
	Name    string
	Title   string
	Lang    string
	Visitor Visitor
	Demo    bool
	Version string
	Nav     []section
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

// Has reports whether the gateway has a section.
func (v view) Has(name string) bool {
	return slices.ContainsFunc(v.Nav, func(s section) bool { return s.Name == name })
}

// Languages returns the languages of the switch.
func (v view) Languages() []string { return languages }

// page writes a page: the template templates/NAME.html with data as .Data.
func (c *Console) page(w http.ResponseWriter, r *http.Request, name string, data any) {
	c.pageWithStatus(w, r, http.StatusOK, name, data)
}

func (c *Console) pageWithStatus(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	// The link to the other language must not repeat a wrong value.
	if status >= http.StatusBadRequest && r.URL.RawQuery != "" {
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
	}
	c.write(w, r, status, name, "base", data)
}

// part writes one block of a page's template, for htmx.
func (c *Console) part(w http.ResponseWriter, r *http.Request, name, block string, data any) {
	c.write(w, r, http.StatusOK, name, block, data)
}

func (c *Console) write(w http.ResponseWriter, r *http.Request, status int, name, block string, data any) {
	text, err := c.render(r, name, block, data)
	if err != nil {
		c.options.Logger.Error("a page of the console cannot be written", "page", name, "error", err.Error())
		http.Error(w, "the page cannot be written: see the log of the gateway", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// render executes a block of a page's template.
func (c *Console) render(r *http.Request, name, block string, data any) ([]byte, error) {
	lang := language(r)
	parse := c.pages[lang][name]
	if parse == nil {
		return nil, fmt.Errorf("there is no template %s", name)
	}
	page, err := parse()
	if err != nil {
		return nil, err
	}
	v := view{
		Name: name, Lang: lang, Visitor: visitorOf(r), Demo: c.options.Demo, Version: c.options.Version,
		Nav: c.navigation(), Section: sectionOf(r.URL.Path), Data: data, url: r.URL,
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
	Key    string // of the text; "" if Text is of package operate
	Text   string
}

// refuse writes the page error with a text of text/.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, status int, key string) {
	c.pageWithStatus(w, r, status, "error", refusal{Status: status, Key: key})
}

// fail writes the page error for an error of package operate.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	if status := statusOf(err); status != http.StatusInternalServerError {
		c.pageWithStatus(w, r, status, "error", refusal{Status: status, Text: err.Error()})
		return
	}
	c.options.Logger.Error("a page of the console failed", "path", r.URL.Path, "error", err.Error())
	c.refuse(w, r, http.StatusInternalServerError, "error.internal")
}

// A lazyPage returns the templates of a page. They are parsed when the page is shown for the first time.
type lazyPage func() (*template.Template, error)

// preparePages fills pages.
func (c *Console) preparePages() error {
	var err error
	if c.texts, err = readTexts(); err != nil {
		return err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	c.pages = map[string]map[string]lazyPage{}
	for _, l := range languages {
		c.pages[l] = map[string]lazyPage{}
		for _, name := range names {
			page := strings.TrimSuffix(path.Base(name), ".html")
			c.pages[l][page] = sync.OnceValues(func() (*template.Template, error) {
				return template.New("").Funcs(c.functions(c.texts, l)).ParseFS(files, "templates/parts/*.html", name)
			})
		}
	}
	return nil
}

// functions are the functions of the templates:
//
//	{{t "key" arg…}}          the text of a key
//	{{say "key" .Args}}       the same, with a list of arguments
//	{{word "prefix." value}}  the text of prefix.VALUE, or the value
//	{{translated .Text}}      an English text of the table
//	{{details .Detail}}       what a translation does with a field
//	{{note .Text .Note}}      a note of the rollout, with its English text
//	{{partner .ID id…}}       a partner: its name and the 12 digits, a link with an id if there is a rollout
//	{{bill .Bill}}            the id of a bill, hidden if it does not look like one
//	{{if shown .Bill}}        whether package operate has not hidden the id of a bill
//	{{time .At}}              a time; in a browser with scripts in its zone, with how long ago it is
//	{{number .N}}             a number with separators
//	{{address "/p" .Query}}   the address of a page with a query, for href
//	{{at_least .Count}}       an operate.Number, with + if there are more
//	{{milliseconds .Took}}    a duration in milliseconds
//	{{rounded .P50}}          a duration with a unit and two digits
//	{{static "style.css"}}    the address of a file of static/
func (c *Console) functions(all texts, lang string) template.FuncMap {
	return template.FuncMap{
		"t":          func(key string, args ...any) (string, error) { return all.t(lang, key, args...) },
		"say":        func(key string, args []any) (string, error) { return all.t(lang, key, args...) },
		"word":       func(prefix string, value any) string { return all.word(lang, prefix, value) },
		"translated": func(english string) template.HTML { return all.translated(lang, english) },
		"details":    func(d translate.Details) template.HTML { return all.details(lang, d) },
		"note":       func(english string, n evidence.Note) template.HTML { return note(lang, english, n) },

		"partner": c.partner,
		"bill":    billing.MaskBill,
		"shown":   func(bill string) bool { return bill != billing.Hidden },
		"time":    c.timeElement,
		"number":  number,

		"address":      address,
		"at_least":     atLeast,
		"milliseconds": milliseconds,
		"rounded":      rounded,
		"static":       staticURL,
	}
}

// partner returns a partner as HTML: the name of the config, if it has one, and the first digits of the ID. With a
// rollout it is a link to the page of the partner, and element is its id.
func (c *Console) partner(id any, element ...string) template.HTML {
	full := fmt.Sprint(id)
	if full == "" { // an event
		return "–"
	}
	digits := template.HTMLEscapeString(full[:min(len(full), 12)])
	begin, end := `<span class="partner"`, "</span>"
	if c.options.Operator.Rollout != nil {
		begin, end = `<a class="partner" href="/partners/`+digits+`"`, "</a>"
	}
	for _, one := range element {
		begin += ` id="` + template.HTMLEscapeString(one) + `"`
	}
	begin += ">"
	if name := c.options.Config().Partners.Name(full); name != "" {
		begin += `<span class="partner-name">` + template.HTMLEscapeString(name) + `</span>`
	}
	return template.HTML(begin + "<code>" + digits + "</code>" + end)
}

// address returns the address of a page with an encoded query. The templates would escape the signs of a query that
// stands alone.
func address(path, query string) template.URL {
	if query == "" {
		return template.URL(path)
	}
	return template.URL(path + "?" + query)
}

// timeElement returns a time as HTML, in the zone of the config. at is a time.Time or a *time.Time.
func (c *Console) timeElement(at any) (template.HTML, error) {
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
	utc, text := when.UTC().Format(time.RFC3339), when.In(c.zone()).Format(time.RFC3339)
	return template.HTML(`<time datetime="` + utc + `" title="` + utc + `">` + text + `</time>`), nil
}

// zone returns the zone of the times for browsers without scripts.
func (c *Console) zone() *time.Location { return c.options.Config().Console.Zone.Location }

// number returns a whole number with a comma after each three digits.
func number(n any) string {
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
func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	data, err := files.ReadFile("static/" + name)
	if err != nil || path.Ext(name) == ".md" {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}
