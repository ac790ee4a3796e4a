package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The byte order mark that editors on Windows put before a text is skipped, in stdin and in the files of --request, --from and --ids. One
// within the text is a part of it.
func TestByteOrderMarkIsSkipped(t *testing.T) {
	t.Parallel()
	const (
		mark  = "\ufeff"
		asked = `{"apiKey":"k","bill":{"billId":"A"}}`
		read  = `{"apikey":"k","bill_id":"A"}`
	)
	dir := t.TempDir()
	file := filepath.Join(dir, "asked.json")
	proxytest.WriteFile(t, file, mark+asked)
	translate := func(message, from, to, in string, more ...string) string {
		var out bytes.Buffer
		run(t.Context(), append([]string{"translate", "--operation", "bill.resend", "--message", message, "--from", from, "--to", to}, more...),
			system{in: strings.NewReader(in), out: &out, err: &out, env: noEnvironment})
		return out.String()
	}
	equal(t, translate("request", "legacy", "v2", mark+read), asked+"\n")
	equal(t, translate("request", "legacy", "v2", mark+read+"\n"+mark+read, "--lines"),
		"line 2: VALIDATION_001 body: not JSON at byte 0\n"+asked+"\n")
	equal(t, translate("reply", "legacy", "v2", mark+`{"code":"0000","msg":"ok"}`, "--request", file),
		"echoed apiKey\nechoed billId\n"+`{"code":"0000","message":"ok","data":{"apiKey":"k","billId":"A"}}`+"\n")

	list := mark + "# clinics\n5f7b2ed74a97\n" + mark + "b1e99324505b\n"
	proxytest.WriteFile(t, filepath.Join(dir, "list.txt"), list)
	for name, in := range map[string]string{filepath.Join(dir, "list.txt"): "", "-": list} {
		lines, err := linesIn(given(name), strings.NewReader(in))
		must(t, err)
		var texts []string
		for _, line := range lines {
			texts = append(texts, line.text)
		}
		equal(t, texts, []string{"5f7b2ed74a97", mark + "b1e99324505b"}, name)
	}
}
