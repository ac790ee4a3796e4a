package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"
)

// profilesPath is the path prefix of the profiles of net/http/pprof. That package also registers them in http.DefaultServeMux, which no server
// of this program uses.
const profilesPath = "/debug/pprof/"

// longestProfile is the longest time of a profile. Only one CPU profile can run at a time, and it costs CPU time.
const longestProfile = 5 * time.Minute

// profiles returns the handler of the profiles. Profiles in progress end with ctx, so that they do not delay a drain.
func profiles(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
		default: // a page of another origin cannot read a profile, but it could start one, with the session of the same site
			writeText(w, http.StatusForbidden, "a page of another origin must not start a profile")
			return
		}
		if given := r.FormValue("seconds"); given != "" {
			if n, err := strconv.Atoi(given); err != nil || n < 1 || n > int(longestProfile.Seconds()) {
				writeText(w, http.StatusBadRequest, fmt.Sprintf("seconds must be from 1 to %d, but is %q", int(longestProfile.Seconds()), given))
				return
			}
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
