package proxy

import (
	"net/http"
	"slices"

	"billbridge/config"
)

// Header values that answers share.
var (
	onlyPost       = []string{http.MethodPost}
	pagesMaySend   = []string{"content-type, x-request-id"}
	pagesMayRead   = []string{"X-Request-Id"}
	pagesMayRepeat = []string{"600"} // seconds without another preflight
	byOrigin       = []string{"Origin"}
)

// answersPage lets a page of an origin in config.CORS read the answer. It reports whether it was a preflight, the
// question of a browser whether the page may call a path of the table: then it has answered. A page of another origin
// gets no such header, so that its browser shows it nothing.
func (g *Gateway) answersPage(w http.ResponseWriter, r *http.Request) (answered bool) {
	s, from := g.current.Load(), r.Header["Origin"]
	if len(from) != 1 || !slices.Contains(s.config.CORS, config.Origin(from[0])) {
		return false
	}
	h := w.Header()
	h["Access-Control-Allow-Origin"], h["Vary"] = from[:1:1], byOrigin
	if r.Method != http.MethodOptions || r.Header["Access-Control-Request-Method"] == nil || s.match(r) == nil {
		h["Access-Control-Expose-Headers"] = pagesMayRead
		return false
	}
	h["Access-Control-Allow-Methods"], h["Access-Control-Allow-Headers"] = onlyPost, pagesMaySend
	h["Access-Control-Max-Age"], h["X-Request-Id"] = pagesMayRepeat, []string{requestID(r.Header["X-Request-Id"])}
	g.keepAlives.set(h, r)
	w.WriteHeader(http.StatusNoContent)
	return true
}
