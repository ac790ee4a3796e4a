package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"billbridge/config"
)

// What an editor adds to a secret, and no caller sends, is an error and not a secret that matches nothing.
func TestSecretText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"key\n": "key", " key \r\n": "key", "two words": "two words", "비밀": "비밀", "": ""} {
		if got, err := config.SecretText(text); got != want || err != nil {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	for _, text := range []string{"\ufeffkey", "key\x00", "k\x00e\x00y\x00", "a\nb", "a\r\nb", "k\x7fey", "\xff\xfek\x00"} {
		if got, err := config.SecretText(text); err == nil {
			t.Errorf("%q is the secret %q", text, got)
		}
	}
}

// A secret from a file is refused where it is read, and the error does not show it.
func TestSecretsFromFilesAreRefused(t *testing.T) {
	t.Parallel()
	for where, text := range map[string]string{
		"admin.token":           "admin: {token: \"${file:secret}\"}\n",
		"admin.tokens[0].token": "admin: {tokens: [{name: anna, token: \"${file:secret}\"}]}\n",
	} {
		for what, secret := range map[string]string{
			"begins with a byte order mark": "\ufeffa-secret-of-24-characters", "NUL": "a-secret-of-24-characters\x00", "has more than one line": "a-secret-of-24-characters\nsecond",
		} {
			dir := folder(t, map[string]string{"billbridge.yaml": oneUpstream + text, "secret": secret})
			_, err := config.Load(filepath.Join(dir, "billbridge.yaml"), lookup)
			if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "a-secret") {
				t.Errorf("%s, %s: %v", where, what, err)
			}
		}
	}
}
