package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// A case with another result through a gateway has an exit code of its own. The partner of the direct run does nothing,
// which fails A10c; that of the other run cannot be reached.
func TestDeskCompareFindsADifference(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"state":"new"}`)) }))
	defer hook.Close()
	dir := t.TempDir()
	plan, direct, via := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "direct.jsonl"), filepath.Join(dir, "via.jsonl")
	must(t, os.WriteFile(plan, []byte("{partner: shop, form: v2, api_key: k, timeout: 100ms, react: 100ms}"), 0o600))
	common := []string{"desk", "run", "--plan", plan, "--practice", "--case", "A10c", "--listen", "127.0.0.1:0"}
	code, out, errs := runCommand(t, false, append(common, "--hook", hook.URL, "--evidence", direct)...)
	equal(t, code, 1, out+errs)
	code, out, errs = runCommand(t, false,
		append(common, "--hook", "http://127.0.0.1:1", "--evidence", via, "--via", "built-in", "--backend", "127.0.0.1:0")...)
	equal(t, code, 2, out+errs)
	code, out, errs = runCommand(t, false, "desk", "compare", direct, via)
	equal(t, code, 4, out+errs)
	has(t, out, "FINDING A10c: FAILED directly (bill.create was sent 0 times, expected 1 to 1), UNKNOWN through the gateway")
	has(t, out, "1 cases compared, 1 differ\n")
}
