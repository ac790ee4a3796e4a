package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	"strings"
)

// profilesPath is the path prefix of the profiles of net/http/pprof. That package also registers them in
// http.DefaultServeMux, which no server of this program uses.
const profilesPath = "/debug/pprof/"

// profiles returns the handler of the profiles. Profiles in progress end with ctx, so that they do not delay a drain.
func profiles(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
		default: // a page of another origin cannot read a profile, but could start one with a session
			writeText(w, http.StatusForbidden, "a page of another origin must not start a profile")
			return
		}
		taking, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		r = r.WithContext(taking)
		switch strings.TrimPrefix(r.URL.Path, profilesPath) {
		case "cmdline":
			pprof.Cmdline(w, r)
		case "profile":
			pprof.Profile(w, r)
		case "symbol":
			pprof.Symbol(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Index(w, r)
		}
	})
}
