package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
)

// profilesPath is the path prefix of the profiles of net/http/pprof. That package also registers them in
// http.DefaultServeMux, which no server of this program uses.
const profilesPath = "/debug/pprof/"

// longestProfile is the longest time of a profile, in seconds: nobody else can take one meanwhile.
const longestProfile = 300

// profiles returns the handler of the profiles. Profiles in progress end with ctx, so that they do not delay a drain.
func profiles(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
		default: // a page of another origin cannot read a profile, but could start one with a session
			writeText(w, http.StatusForbidden, "a page of another origin must not start a profile")
			return
		}
		if given := r.FormValue("seconds"); given != "" {
			if n, err := strconv.Atoi(given); err != nil || n < 1 || n > longestProfile {
				writeText(w, http.StatusBadRequest, fmt.Sprintf("seconds must be from 1 to %d, but is %q", longestProfile, given))
				return
			}
		}
		taking, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		serve := http.HandlerFunc(pprof.Index)
		switch strings.TrimPrefix(r.URL.Path, profilesPath) {
		case "cmdline":
			serve = pprof.Cmdline
		case "profile":
			serve = pprof.Profile
		case "symbol":
			serve = pprof.Symbol
		case "trace":
			serve = pprof.Trace
		}
		serve(w, r.WithContext(taking))
	})
}
