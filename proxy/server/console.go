package server

import (
	"net/http"

	"billbridge/proxy/console"
)

// forPages passes the requests of browsers on to the console, with who sends them. Without a valid token or session they have no visitor,
// and the console answers with its page for signing in.
func forPages(t *tokens, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := t.current.Load()
		visitor := console.Visitor{MayOperate: true}
		switch _, bearer := bearerOf(r); {
		case !now.console:
			http.NotFound(w, r)
			return
		case !now.needed():
			if !allowedHost(w, r) {
				return
			}
		case bearer:
			who, status := t.identify(r)
			if status != http.StatusOK {
				refuseToken(w, status)
				return
			}
			visitor = console.Visitor{Name: who.name, MayOperate: who.operates}
		default:
			who, ok := t.sessions.find(r, now)
			if !ok { // not a refused token: the visitor has not tried one
				pages.ServeHTTP(w, r)
				return
			}
			visitor = console.Visitor{Name: who.name, MayOperate: who.operates, SignedIn: true}
		}
		pages.ServeHTTP(w, r.WithContext(console.WithVisitor(r.Context(), visitor)))
	})
}
