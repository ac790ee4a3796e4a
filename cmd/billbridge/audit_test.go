package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
)

// auditAdmin is an admin listener whose audit log has n entries with the revisions 1 to n. It fails at the call with the number failAt.
func auditAdmin(t *testing.T, n, failAt int) (url string, queries *[]string) {
	queries = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *queries = append(*queries, r.URL.RawQuery); len(*queries) == failAt {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		q := r.URL.Query()
		after, _ := strconv.Atoi(q.Get("after"))
		limit, err := strconv.Atoi(q.Get("limit"))
		must(t, err)
		first, step := after+1, 1
		if !q.Has("oldest_first") {
			first, step = n, -1
		}
		page := []operate.Change{}
		for i := first; i > 0 && i <= n && len(page) < limit; i += step {
			page = append(page, operate.Change{Revision: int64(i), Action: "stop", By: "anna", At: time.Unix(1_800_000_000, 0).UTC()})
		}
		must(t, json.NewEncoder(w).Encode(page))
	}))
	t.Cleanup(server.Close)
	return server.URL, queries
}

// An export asks for pages until the end of the audit log. If it fails, the last line is where the next one goes on.
func TestAuditExportHasAllPages(t *testing.T) {
	t.Parallel()
	const page, n = 10_000, 20_003
	for _, c := range []struct {
		flags              string
		failAt, exit, rows int
		calls              int
	}{
		{"--json", 0, exitOK, n, 3},
		{"--json --after 20003", 0, exitOK, 0, 1},
		{"--json --after 3", 0, exitOK, 2 * page, 3}, // the last page is full, and may not be the last
		{"--json", 2, exitError, page, 2},
	} {
		url, queries := auditAdmin(t, n, c.failAt)
		code, out, errs := runCommand(t, true, append(strings.Fields("audit "+c.flags), "--admin", url)...)
		rows := strings.Count(out, "\n")
		if code != c.exit || rows != c.rows || len(*queries) != c.calls {
			t.Errorf("%s: code %d, %d rows, calls %q, %s", c.flags, code, rows, *queries, errs)
		}
		if c.calls > 1 && !strings.Contains(errs, "\r\x1b[Kentries: 10000\r\x1b[K") {
			t.Errorf("%s: calls %q, progress %q", c.flags, *queries, errs)
		}
	}
	url, queries := auditAdmin(t, n, 0)
	_, _, errs := runCommand(t, false, "audit", "--json", "--partner", "6e2b0f4cd1aa", "--author", "anna", "--since", "2026-11-21T09:00:00+09:00", "--admin", url)
	equal(t, errs, "", "progress without a terminal")
	equal(t, strings.Join(*queries, "\n"), strings.ReplaceAll("author=anna&limit=10000&oldest_first=true&partner=6e2b0f4cd1aa&since=S\n"+
		"after=10000&author=anna&limit=10000&oldest_first=true&partner=6e2b0f4cd1aa&since=S\nafter=20000&author=anna&limit=10000&oldest_first=true&partner=6e2b0f4cd1aa&since=S",
		"S", "2026-11-21T09%3A00%3A00%2B09%3A00"))
	url, queries = auditAdmin(t, n, 0)
	_, out, _ := runCommand(t, false, "audit", "--admin", url)
	equal(t, fmt.Sprint(strings.Count(out, "\n"), *queries), "101 [limit=100]", "a table")
	_, out, _ = runCommand(t, false, "audit", "--json", "--limit", "2", "--admin", url)
	equal(t, regexp.MustCompile(`,.*`).ReplaceAllString(out, ""), "{\"revision\":20002\n{\"revision\":20003\n", "the last two")
}
