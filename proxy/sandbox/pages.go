package sandbox

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"golang.org/x/text/language"
)

// The paths of the pages. A token follows.
const (
	payPath    = "/b/"
	signUpPath = "/signup/"
)

// formLimit bounds the size of a form.
const formLimit = 64 << 10

// A screen is the response of a page: a template with its data, or a redirect.
type screen struct {
	status   int
	to       string // the Location of a redirect; else ""
	template string
	data     any
}

//go:embed pages
var pageFiles embed.FS

// style is embedded in the pages, which load no other file.
//
//go:embed pages/style.css
var style string

// languages are those of the pages. A browser that prefers neither gets the first one.
var languages = language.NewMatcher([]language.Tag{language.Korean, language.English})

// templates are the pages in each of the languages. Their words are in the files; both is a text in either language.
var templates = [...]*template.Template{
	parsePages(func(ko, _ string) string { return ko }),
	parsePages(func(_, en string) string { return en }),
}

// parsePages returns the pages in the language that both chooses.
func parsePages(both func(ko, en string) string) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"both":    both,
		"list":    func(values ...any) []any { return values },
		"style":   func() template.CSS { return template.CSS(style) },
		"amount":  grouped,
		"isCard":  isCard,
		"methods": func() []string { return methods },
		"message": messageOf,
		"korean":  func(t time.Time) string { return t.In(seoul).Format(time.DateTime) },
	}).ParseFS(pageFiles, "pages/*.html"))
}

// policy allows the pages their own style only. It has no form-action: Chromium applies that to the redirect after a
// form as well, and a bill's pageRedirectUrl can be anywhere.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; frame-ancestors 'none'"
}()

// page serves the pages for paying and for the sign-up. Faults and maintenance do not affect them.
func (s *Service) page(w http.ResponseWriter, r *http.Request) {
	var page func(url.Values) screen // nil if there is none
	s.view(func(t *tables) { page = t.pages[r.URL.EscapedPath()] })
	h := w.Header()
	a := notice(http.StatusNotFound, "")
	switch status, text := s.guard(r, false, false); {
	case status != 0:
		a = notice(status, text)
	case page == nil:
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		a = page(nil)
	case r.Method != http.MethodPost:
		h.Set("Allow", "GET, HEAD, POST")
		a = notice(http.StatusMethodNotAllowed, "")
	case !hasType(r, "application/x-www-form-urlencoded"):
		a = notice(http.StatusUnsupportedMediaType, "")
	default:
		body, status := readBody(w, r, formLimit)
		form, err := url.ParseQuery(string(body)) // without the query of the address
		switch {
		case status != http.StatusOK:
			a = notice(status, "")
		case err != nil:
			a = notice(http.StatusBadRequest, "")
		default:
			a = page(form)
		}
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Whoever knows the address can pay. With no-referrer a form would have no Origin.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	chosen := r.URL.Query().Get("lang")
	if a.to != "" {
		if chosen != "" && webURL(a.to) == nil { // the page again
			a.to += "?lang=" + url.QueryEscape(chosen)
		}
		h.Set("Location", a.to) // http.Redirect would make it absolute
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	_, lang := language.MatchStrings(languages, chosen, r.Header.Get("Accept-Language"))
	var b bytes.Buffer
	if err := templates[lang].ExecuteTemplate(&b, a.template, a.data); err != nil {
		s.opt.Log.Error("rendering a page failed", "template", a.template, "err", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(a.status)
	_, _ = w.Write(b.Bytes())
}

// readBody reads a body. The status is 200 unless the body is too large or cannot be read.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, status int) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	switch tooLarge := new(http.MaxBytesError); {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusBadRequest
	}
	return body, http.StatusOK
}

// hasType reports whether a body has a media type.
func hasType(r *http.Request, want string) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && t == want
}

// A noticeView is the data of a page with a message.
type noticeView struct {
	Status  int
	Refused string // why the guard refused the request
}

// notice returns a screen with the message of a status.
func notice(status int, refused string) screen {
	return screen{status: status, template: "notice", data: noticeView{status, refused}}
}

// failedScreen logs an error of the data file and returns a screen for it.
func (o *Options) failedScreen(err error) screen {
	o.Log.Error("processing a form failed", "err", err)
	return notice(http.StatusInternalServerError, "")
}

// notASCII matches characters that a header cannot have.
var notASCII = regexp.MustCompile(`[^!-~]+`)

// redirectTarget returns where a browser goes after a form: to the partner's address, if it is an http or https URL,
// else to the page again. The page is named by its token alone, so that the redirect works below any path.
func redirectTarget(address, token string) string {
	u := webURL(address)
	if u == nil {
		return token
	}
	u.RawQuery = notASCII.ReplaceAllStringFunc(u.RawQuery, url.QueryEscape)
	return u.String()
}
