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

// A page is what a token leads to. Neither function is nil.
type page struct {
	show func() screen
	take func(url.Values) screen // handles a submitted form
}

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

// policy allows the pages their own style only. It has no form-action: Chromium applies that to the redirect after a form
// as well, and a bill's pageRedirectUrl can be anywhere.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; frame-ancestors 'none'"
}()

// page serves the pages for paying and for the sign-up. Faults and maintenance do not affect them.
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
			localized{"처리할 수 없는 요청입니다", "Method not allowed"},
			localized{"이 페이지는 열어 보거나 양식을 보낼 수만 있습니다.", "Open this page, or submit its form."}))
	}
}

// pageOf returns the page of a path.
func (s *Service) pageOf(path string) (p page, ok bool) {
	s.store.view(func(t *tables) {
		if token, is := strings.CutPrefix(path, payPath); is {
			var k billKey
			k, ok = t.pages[token]
			p = page{
				show: func() screen { return s.billScreen(k, billView{}) },
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

// readForm reads a submitted form, or returns a screen with the error. It ignores the query.
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
		return fail(http.StatusRequestEntityTooLarge, localized{"입력한 내용이 너무 깁니다.", "The input is too long."})
	}
	form, parseErr := url.ParseQuery(string(body))
	if err != nil || parseErr != nil {
		return fail(http.StatusBadRequest, localized{"다시 시도해 주세요.", "Please try again."})
	}
	return form, nil
}

// answerPage writes a screen or a redirect.
func (s *Service) answerPage(w http.ResponseWriter, a screen) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // whoever knows the address can pay; with no-referrer a form would have no Origin
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
	s.answerPage(w, notice(status, localized{"요청이 거부되었습니다", "The request was refused"}, text))
}

// notice returns a screen with a message.
func notice(status int, title, text localized) screen {
	return screen{status: status, template: "notice", data: struct{ Title, Text localized }{title, text}}
}

// failedScreen logs an error of the data file and returns a screen for it.
func (s *Service) failedScreen(err error) screen {
	s.opt.Log.Error("processing a form failed", "err", err)
	return notice(http.StatusInternalServerError,
		localized{"처리하지 못했습니다", "The request failed"},
		localized{"잠시 후 이 페이지를 다시 열어 확인해 주세요.", "Please open this page again later to see the current state."})
}

// notASCII matches characters that a header cannot have.
var notASCII = regexp.MustCompile(`[^!-~]+`)

// redirectTarget returns where a browser goes after a form: to the partner's address, if it is an http or https URL, else
// to the page again. The page is named by its token alone, so that the redirect works below any path.
func redirectTarget(address, token string) string {
	u := webURL(address)
	if u == nil {
		return token
	}
	u.RawQuery = notASCII.ReplaceAllStringFunc(u.RawQuery, url.QueryEscape)
	return u.String()
}
