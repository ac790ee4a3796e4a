package config_test

import (
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
