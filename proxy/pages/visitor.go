package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// A Visitor is who looks at a page.
type Visitor struct {
	Name       string // of the token; "" if there are no tokens
	MayOperate bool   // may make changes
	SignedIn   bool   // by a session, which the visitor can end
	MaySignIn  bool   // sees some pages as it is, and more after signing in
}

type visitorKey struct{}

// WithVisitor returns a context for the requests of a visitor. The server calls it after it has checked the token or
// the session. If Options.Access is set, a request without a visitor gets the page for signing in.
func WithVisitor(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// VisitorOf returns the visitor of a request to a route of a site.
func VisitorOf(r *http.Request) Visitor {
	v, _ := r.Context().Value(visitorKey{}).(Visitor)
	return v
}

// Access signs visitors in and out.
type Access interface {
	// SignIn returns 200 and sets the cookie of a session if the token is right, otherwise 401, or 429 after too many
	// wrong tokens. It writes no body.
	SignIn(w http.ResponseWriter, r *http.Request, token string) (status int)
	// SignOut ends the session.
	SignOut(w http.ResponseWriter, r *http.Request)
}

// mayEnter reports whether a visitor may see the route of a pattern.
func mayEnter(r *http.Request, pattern string) bool {
	_, known := r.Context().Value(visitorKey{}).(Visitor)
	return known || strings.HasSuffix(pattern, " /sign-in") || strings.HasPrefix(pattern, "GET /static/")
}

// askToSignIn answers a visitor without a session.
func (s *Site) askToSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || IsPart(r) {
		s.Refuse(w, r, http.StatusUnauthorized, "error.signed_out")
		return
	}
	to := "/sign-in"
	if next := r.URL.RequestURI(); next != "/" {
		to += "?" + url.Values{"next": {next}}.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// A signInPage is the data of the page sign-in.
type signInPage struct {
	Next   string
	Status int // of the last attempt; 0 if there was none
}

// signIn shows the form for a token, and takes it.
func (s *Site) signIn(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.FormValue("next"))
	v, known := r.Context().Value(visitorKey{}).(Visitor)
	if known && !v.MaySignIn || s.Access == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if r.Method != http.MethodPost {
		s.Page(w, r, "sign-in", signInPage{Next: next})
		return
	}
	status := s.Access.SignIn(w, r, r.PostFormValue("token"))
	if status == http.StatusOK {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	s.PageWithStatus(w, r, status, "sign-in", signInPage{Next: next, Status: status})
}

func (s *Site) signOut(w http.ResponseWriter, r *http.Request) {
	if s.Access != nil {
		s.Access.SignOut(w, r)
	}
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// localPath returns the path and query of a URL on this listener, or "/". A browser reads \ as /.
func localPath(next string) string {
	u, err := url.Parse(next)
	absolute := err != nil || u.Scheme != "" || u.Host != "" || u.User != nil
	if absolute || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	return u.RequestURI()
}
