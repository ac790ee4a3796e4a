package proxy_test

import (
	"regexp"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// README.md has a row with the status and the code of each kind in answer.go.
func TestReadmeListsTheFailures(t *testing.T) {
	t.Parallel()
	readme := proxytest.ReadFile(t, "README.md")
	source := proxytest.ReadFile(t, "answer.go")
	failures := regexp.MustCompile(`(?m)^\t(\w+) += kind\{(\d+), translate\.Own(\w+)`).FindAllSubmatch(source, -1)
	if len(failures) < 10 {
		t.Fatalf("%d failures were found in answer.go", len(failures))
	}
	table, err := translate.Compile(32, billing.Table())
	must(t, err)
	kinds := map[string]translate.OwnFailure{"Failed": translate.OwnFailed, "Unavailable": translate.OwnUnavailable, "NoUpstream": translate.OwnNoUpstream, "Invalid": translate.OwnInvalid}
	for _, f := range failures {
		name, status, code := string(f[1]), string(f[2]), table.Own[kinds[string(f[3])]]
		if !regexp.MustCompile(`(?m)^\| .* \| ` + status + ` \| ` + "`" + code + "`").Match(readme) {
			t.Errorf("README.md has no row for %s: %s and %s", name, status, code)
		}
	}
}
