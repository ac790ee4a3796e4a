package server

import (
	"net/http"

	"billbridge/proxy/pages"
)

// forPages passes the requests of browsers on to the console, with who sends them. Without a valid token or session
// they have no visitor, and the console answers with its page for signing in.
func forPages(t *tokens, site http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, status := t.identify(r)
		switch status {
		case http.StatusOK:
			visitor := pages.Visitor{Name: who.name, MayOperate: who.operates, SignedIn: who.signedIn}
			site.ServeHTTP(w, r.WithContext(pages.WithVisitor(r.Context(), visitor)))
		case unknown: // not a refused token: the visitor has not tried one
			site.ServeHTTP(w, r)
		default:
			refuse(w, r, status)
		}
	})
}
