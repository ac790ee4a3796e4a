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
	"strings"
)

// Where the pages are that replies point to; a token follows.
const (
	payPath    = "/b/"
	signUpPath = "/signup/"
)

// formLimit bounds what a page takes; the longest form that it offers is far
// below it.
const formLimit = 64 << 10

// A page is one that a token leads to. Neither function is nil.
type page struct {
	show func() screen
	take func(url.Values) screen // a form that was sent
}

// A screen is what a page answers with: a template and its data, or where to go.
type screen struct {
	status   int
	to       string // a Location, with 303 and without a template
	template string
	data     any
}

// localized are a text in the two languages of the pages. English is empty where
// there is nothing to translate.
type localized struct{ KO, EN string }

//go:embed pages
var pageFiles embed.FS

// style stands in the pages themselves: they load nothing.
var style = func() string {
	b, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		panic(err) // cannot be: it is embedded
	}
	return string(b)
}()

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"both":  func(ko, en string) localized { return localized{ko, en} },
	"style": func() template.CSS { return template.CSS(style) },
}).ParseFS(pageFiles, "pages/*.html"))

// policy lets a page do nothing but show itself in its own style. It says
// nothing of form-action: Chromium holds the redirect after a form to that too,
// and a bill's pageRedirectUrl is anywhere.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; frame-ancestors 'none'"
}()

// page shows and takes the pages of the customer and of the one who signs up.
// They are no calls of the interface: faults and maintenance leave them alone.
func (s *Service) page(w http.ResponseWriter, r *http.Request) {
	p, ok := s.pageOf(r.URL.EscapedPath())
	if !ok {
		s.answerPage(w, notice(http.StatusNotFound,
			localized{"페이지를 찾을 수 없습니다", "No such page"},
			localized{"주소를 다시 확인해 주세요.", "Please check the address."}))
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.answerPage(w, p.show())
	case http.MethodPost:
		form, refused := readForm(w, r)
		if refused != nil {
			s.answerPage(w, *refused)
			return
		}
		s.answerPage(w, p.take(form))
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		s.answerPage(w, notice(http.StatusMethodNotAllowed,
			localized{"처리할 수 없는 요청입니다", "Not with this method"},
			localized{"이 페이지는 열어 보거나 양식을 보낼 수만 있습니다.", "This page can be opened, and its form can be sent."}))
	}
}

// pageOf finds the page of a path, which is a token and nothing more.
func (s *Service) pageOf(path string) (p page, ok bool) {
	s.view(func(t *tables) {
		if token, is := strings.CutPrefix(path, payPath); is {
			var k billKey
			k, ok = t.pages[token]
			p = page{
				show: func() screen { return s.billScreen(k, nil) },
				take: func(form url.Values) screen { return s.takePayment(k, token, form) },
			}
		}
		if token, is := strings.CutPrefix(path, signUpPath); is {
			var k mappingKey
			k, ok = t.signups[token]
			p = page{
				show: func() screen { return s.signUpScreen(k, nil) },
				take: func(form url.Values) screen { return s.takeSignUp(k, token, form) },
			}
		}
	})
	return p, ok
}

// readForm reads a form as a browser sends it, or says why it cannot. The query
// plays no part.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, *screen) {
	fail := func(status int, text localized) (url.Values, *screen) {
		s := notice(status, localized{"양식을 읽을 수 없습니다", "The form cannot be read"}, text)
		return nil, &s
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/x-www-form-urlencoded" {
		return fail(http.StatusUnsupportedMediaType, localized{"페이지의 양식을 이용해 주세요.", "Please use the form of the page."})
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, formLimit))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return fail(http.StatusRequestEntityTooLarge, localized{"입력한 내용이 너무 깁니다.", "What was typed is too long."})
	}
	form, wrong := url.ParseQuery(string(body))
	if err != nil || wrong != nil {
		return fail(http.StatusBadRequest, localized{"다시 시도해 주세요.", "Please try again."})
	}
	return form, nil
}

// answerPage writes a screen, or sends the browser on.
func (s *Service) answerPage(w http.ResponseWriter, a screen) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the address is all it takes to pay
	h.Set("Cache-Control", "no-store")
	if a.to != "" {
		h.Set("Location", a.to) // not http.Redirect, which would make it absolute
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, a.template, a.data); err != nil {
		s.opt.Log.Error("a page is not shown", "template", a.template, "err", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(a.status)
	_, _ = w.Write(b.Bytes())
}

// notice is a page of one statement.
func notice(status int, title, text localized) screen {
	return screen{status: status, template: "notice", data: struct{ Title, Text localized }{title, text}}
}

// failedScreen is what a visitor is told when the data file fails.
func (s *Service) failedScreen(err error) screen {
	s.opt.Log.Error("a form is not carried out", "err", err)
	return notice(http.StatusInternalServerError,
		localized{"처리하지 못했습니다", "That did not work"},
		localized{"잠시 후 이 페이지를 다시 열어 확인해 주세요.", "Please open this page again later to see where it stands."})
}

// notASCII is what a query can hold that a header cannot.
var notASCII = regexp.MustCompile(`[^!-~]+`)

// redirectTarget is where a browser goes from the page of a token: to the address that
// the partner gave, if a browser can go there, else to the page again. That is
// named by its token alone, so that it stays below whatever path the service is
// published at.
func redirectTarget(address, token string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return token
	}
	u.RawQuery = notASCII.ReplaceAllStringFunc(u.RawQuery, url.QueryEscape)
	return u.String()
}
