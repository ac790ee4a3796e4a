package certificate

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"
)

// A certificate that was changed, or is signed with another key, is refused; one that is over is read.
func TestParse(t *testing.T) {
	t.Parallel()
	public, key, _ := ed25519.GenerateKey(nil)
	_, other, _ := ed25519.GenerateKey(nil)
	at := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	c := Certificate{Partner: "shop", Form: "v2", Major: Major, Passed: at, Expires: at.AddDate(0, Months, 0)}
	text, _ := c.Sign(key)
	stranger, _ := c.Sign(other)
	for name, one := range map[string]struct{ text, want string }{
		"valid":          {string(text), ""},
		"changed":        {strings.Replace(string(text), "shop", "shoq", 1), "or was changed"},
		"another key":    {string(stranger), "is not signed with the key"},
		"no signature":   {`{"certificate":{"partner":"shop"}}`, "is not signed with the key"},
		"no certificate": {`{"partner":"shop"}`, "is not a certificate"},
		"evidence":       {"{}\n{}\n", "is not a certificate"},
		"unknown field":  {string(signedText(key, `{"partner":"shop","level":2}`)), "is of a newer version"},
	} {
		read, err := Parse([]byte(one.text), public)
		if one.want == "" && (err != nil || read.Partner != "shop" || !read.Expires.Equal(c.Expires)) ||
			one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s: got %v, %v, want %q", name, read, err, one.want)
		}
	}
	older := c
	older.Major--
	for want, got := range map[error]error{
		nil: c.Valid(c.Expires.Add(-time.Second)), ErrExpired: c.Valid(c.Expires), ErrCases: older.Valid(at),
	} {
		if !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func signedText(key ed25519.PrivateKey, text string) []byte {
	return []byte(`{"certificate":` + text + `,"signature":"` + base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(prefix+text))) + `"}`)
}

func TestPublicKey(t *testing.T) {
	t.Parallel()
	public, _, _ := ed25519.GenerateKey(nil)
	der, _ := x509.MarshalPKIXPublicKey(public)
	got, err := PublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil || !got.Equal(public) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "key", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}))} {
		if _, err := PublicKey([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
