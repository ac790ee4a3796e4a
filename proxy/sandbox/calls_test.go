package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// Calls and their replies, as testdata/calls.txt has them. Each test begins with the default options, "start" with others.
// "v2 create" and "legacy read" are calls of newCall, with changes as in codeRows. "pay" pays the bill, "state F" creates
// it in that state, "hour" sets the clock an hour later, "complete" ends the sign-up of m1 at s1, and "post" sends a body.
func TestCalls(t *testing.T) {
	t.Parallel()
	const base = "https://pay.example.com"
	proxytest.Transcript(t, "testdata/calls.txt", *update, []string{"calls"}, func(t *testing.T, _ string) func(string) []string {
		r := start(t, sandbox.Options{BaseURL: base})
		return func(line string) (shown []string) {
			command, rest, _ := strings.Cut(line, " ")
			switch command {
			case "start":
				o := sandbox.Options{BaseURL: base}
				must(t, json.Unmarshal([]byte(rest), &o))
				r = start(t, o)
			case "pay":
				must(t, r.Pay("", billID))
			case "state":
				r.createInState(rest)
			case "hour":
				_, _ = r.ctl(http.MethodPost, "/clock", `{"advance":"1h"}`)
			case "complete":
				must(t, r.CompleteMapping("demo-strict-key", "m1", "s1"))
			case "post":
				path, body, _ := strings.Cut(rest, " ")
				status, reply := r.post(path, body)
				shown = []string{fmt.Sprint(status, " ", reply)}
			default:
				op, changes, _ := strings.Cut(rest, " ")
				q := newCall(command, op)
				for change := range strings.SplitSeq(changes, "; ") {
					if change != "" {
						q = q.changed(t, change)
					}
				}
				_, reply := r.do(q)
				shown = []string{reply}
			}
			return shown
		}
	})
}
