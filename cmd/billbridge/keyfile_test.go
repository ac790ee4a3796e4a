package main

import (
	"path/filepath"
	"testing"

	"billbridge/proxy/proxytest"
)

// A key file gives the key that the partner sends, or an error: never the hash of a partner that does not exist.
func TestReadKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "partner.key")
	for text, want := range map[string]string{
		"the-key": "the-key", "the-key\n": "the-key", "the-key\r\n": "the-key", "\ufeffthe-key\n": "the-key",
		"": "", "\n": "", "\ufeff": "", " the-key": "", "the-key ": "", "the key": "", "\"the-key\"": "", "'the-key'": "", "a\nb": "",
		"the-key\x00": "", "t\x00h\x00": "", "the\u00a0key": "", "\xff\xfet\x00": "",
	} {
		proxytest.WriteFile(t, file, text)
		if got, err := readKey(file); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
