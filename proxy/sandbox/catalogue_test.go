package sandbox_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the replies of testdata/catalogue.txt; review every line of the difference")

// Every code of the document can be got, in each form that can have it, as testdata/catalogue.txt shows. Its beginning says how
// it is written.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "catalogue.txt")
	lines := strings.Split(string(proxytest.ReadFile(t, file)), "\n")
	var (
		r         *rig
		reply     string
		codes     []string
		inV2Alone []string // codes of bill operations without an example in legacy
	)
	for i, line := range lines {
		if line == "" {
			r = nil
			continue
		}
		mark, text := line[:2], line[2:]
		switch mark {
		case "==":
			codes = append(codes, text[1:])
		case "  ", "> ":
			if r == nil {
				r = start(t, sandbox.Options{BaseURL: "https://pay.example.com"})
			}
			code := "0000"
			if mark == "> " {
				code = codes[len(codes)-1]
			}
			if reply = r.take(text, code); strings.Contains(text, " /if/") {
				inV2Alone = slices.DeleteFunc(inV2Alone, func(v2 string) bool { return v2 == code })
			} else if strings.Contains(text, " /bill") && mark == "> " {
				inV2Alone = append(inV2Alone, code)
			}
		case "< ":
			if d := cmp.Diff(text, reply); d != "" && !*update {
				t.Errorf("%s, line %d (-update rewrites it):\n%s", file, i+1, d)
			}
			lines[i] = "< " + reply
		}
	}
	equal(t, codes, sandbox.Catalogue(), "the examples are those of the catalogue")
	equal(t, inV2Alone, []string{"BILL_008", "BILL_010"}, "without an example in legacy")
	if *update && !t.Failed() {
		proxytest.WriteFile(t, file, strings.Join(lines, "\n"))
	}
}

// take makes a request of the catalogue, as in "control POST /maintenance {}", and returns status and body. The status must be
// 200, and a reply of the service must have the code.
func (r *rig) take(request, code string) string {
	r.t.Helper()
	words := append(strings.SplitN(request, " ", 4), "")
	url, form := r.url, "v2"
	if strings.Contains(words[2], "/if/") {
		form = "legacy"
	}
	if words[0] == "control" {
		url = r.control
	}
	status, body := send(r.t, words[1], url+words[2], words[3])
	if status != 200 || words[0] == "service" && codeOf(r.t, form, body) != code {
		r.t.Errorf("%s: %d %s, want %s", request, status, body, code)
	}
	return fmt.Sprint(status, " ", strings.TrimSpace(body))
}
