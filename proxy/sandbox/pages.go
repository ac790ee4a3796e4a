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
	"strconv"
	"strings"
	"time"
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

// A localized is a text in Korean and English. EN is empty if the text needs no translation.
type localized struct{ KO, EN string }

//go:embed pages
var pageFiles embed.FS

// style is embedded in the pages, which load no other file.
var style = func() string {
	b, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		panic(err) // impossible: the file is embedded
	}
	return string(b)
}()

// The words of the pages are in the templates; both is a text in Korean and English.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"both":         func(ko, en string) localized { return localized{ko, en} },
	"list":         func(texts ...localized) []localized { return texts },
	"style":        func() template.CSS { return template.CSS(style) },
	"amount":       grouped,
	"isCard":       isCard,
	"receiptKind":  receiptKind,
	"receiptKinds": func() []string { return receiptKinds },
	"installments": func() int { return maxMonths + 1 },
	"digits":       strconv.Atoi,
	"message":      messageOf,
	"korean":       func(t time.Time) string { return t.In(seoul).Format(time.RFC3339) },
}).ParseFS(pageFiles, "pages/*.html"))

// policy allows the pages their own style only. It has no form-action: Chromium applies that to the redirect after a
// form as well, and a bill's pageRedirectUrl can be anywhere.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; frame-ancestors 'none'"
}()

// page serves the pages for paying and for the sign-up. Faults and maintenance do not affect them.
func (s *Service) page(w http.ResponseWriter, r *http.Request) {
	page := s.pageOf(r.URL.EscapedPath())
	if page == nil {
		s.answerPage(w, notice(http.StatusNotFound))
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.answerPage(w, page(nil))
	case http.MethodPost:
		form, refused := readForm(w, r)
		if refused != http.StatusOK {
			s.answerPage(w, notice(refused))
			return
		}
		s.answerPage(w, page(form))
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		s.answerPage(w, notice(http.StatusMethodNotAllowed))
	}
}

// pageOf returns the page of a path, or nil. A page handles a submitted form, or is shown without one.
func (s *Service) pageOf(path string) (page func(url.Values) screen) {
	s.store.view(func(t *tables) {
		bill, signUp := strings.TrimPrefix(path, payPath), strings.TrimPrefix(path, signUpPath)
		if k, ok := t.pages[bill]; ok {
			page = func(form url.Values) screen { return s.payPage(k, bill, form) }
		}
		if k, ok := t.signups[signUp]; ok {
			page = func(form url.Values) screen { return s.signUpPage(k, signUp, form) }
		}
	})
	return page
}

// readForm reads a submitted form, or returns the status of the refusal. It ignores the query.
func readForm(w http.ResponseWriter, r *http.Request) (form url.Values, status int) {
	if !hasType(r, "application/x-www-form-urlencoded") {
		return nil, http.StatusUnsupportedMediaType
	}
	body, status := readBody(w, r, formLimit)
	form, err := url.ParseQuery(string(body))
	if status == http.StatusOK && err != nil {
		status = http.StatusBadRequest
	}
	return form, status
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

// answerPage writes a screen or a redirect.
func (s *Service) answerPage(w http.ResponseWriter, a screen) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Whoever knows the address can pay. With no-referrer a form would have no Origin.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if a.to != "" {
		h.Set("Location", a.to) // http.Redirect would make it absolute
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, a.template, a.data); err != nil {
		s.opt.Log.Error("rendering a page failed", "template", a.template, "err", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(a.status)
	_, _ = w.Write(b.Bytes())
}

// refusePage answers a request that a guard refused.
func (s *Service) refusePage(w http.ResponseWriter, status int, text localized) {
	a := notice(status)
	a.data = noticeView{status, text}
	s.answerPage(w, a)
}

// A noticeView is the data of a page with a message.
type noticeView struct {
	Status  int
	Refused localized // by a guard
}

// notice returns a screen with the message of a status.
func notice(status int) screen {
	return screen{status: status, template: "notice", data: noticeView{Status: status}}
}

// failedScreen logs an error of the data file and returns a screen for it.
func (s *Service) failedScreen(err error) screen {
	s.opt.Log.Error("processing a form failed", "err", err)
	return notice(http.StatusInternalServerError)
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
