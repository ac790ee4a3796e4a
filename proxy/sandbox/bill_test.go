package sandbox_test

import (
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// Every operation on a bill in every state, in both forms, for bills created in either: only the changes of the state
// table happen.
func TestOnlyDocumentedStateChanges(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/states.txt") {
		op := row[0]
		for i, from := range []string{"W", "F", "C", "D"} {
			want := row[1+i]
			for _, createForm := range forms {
				for _, callForm := range forms {
					t.Run(strings.Join([]string{op, from, createForm, callForm}, "/"), func(t *testing.T) {
						t.Parallel()
						r := start(t)
						life := map[string][]string{"W": {}, "F": {"pay"}, "C": {"pay", "cancel"}, "D": {"destroy"}}[from]
						step := func(form, op string) string {
							if op != "pay" {
								code, _ := r.do(newCall(form, op))
								return code
							}
							if err := r.Pay(demoKey, billID); err != nil {
								return "refused"
							}
							return ""
						}
						r.must(newCall(createForm, "create"))
						for _, op := range life {
							step(createForm, op)
						}
						if got := r.state(); got != from {
							t.Fatalf("the bill is in state %s", got)
						}
						equal(t, strings.TrimSpace(step(callForm, op)+" "+r.state()), want)
					})
				}
			}
		}
	}
}
