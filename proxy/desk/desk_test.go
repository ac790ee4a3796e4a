package desk

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// A good shop of each form passes every case, and its log proves it.
func TestGoodShopPasses(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"v2", "legacy"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			all, log := runShop(t, form, "", nil)
			proxytest.Equal(t, failing(all), "")
			proxytest.Equal(t, Outcome(all), Passed)
			res, err := Verify(bytes.NewReader(log), nil)
			proxytest.Must(t, err)
			proxytest.Equal(t, res.Verdicts, all)
			if t.Failed() {
				t.Log("\n" + describe(all))
			}
		})
	}
}

// failing lists the cases that do not pass.
func failing(all []Verdict) string {
	var list []string
	for _, v := range Last(all) {
		if v.Result != Passed && v.Result != Skipped && v.Result != Review {
			name := v.Case
			if v.Result != Failed {
				name += ":" + v.Result
			}
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

func describe(all []Verdict) string {
	var b strings.Builder
	for _, v := range all {
		if v.Result != Passed {
			fmt.Fprintln(&b, v.Case, v.Attempt, v.Status, v.Result, v.Text)
			for _, f := range v.Findings {
				fmt.Fprintln(&b, "   ", f.Level, f.Condition, "-", f.Text, f.Records)
			}
		}
	}
	return b.String()
}
