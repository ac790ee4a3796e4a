package proxytest

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"testing"

	"billbridge/proxy/desk/certificate"
)

// CertifyPartners writes the public key of a desk, and the certificates that it gives to partners, into a folder. The
// text is a config with the key; the files of the certificates are 0, 1 and so on.
func CertifyPartners(t testing.TB, all ...certificate.Certificate) (dir, config string) {
	t.Helper()
	dir = t.TempDir()
	public, key, err := ed25519.GenerateKey(nil)
	Must(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	Must(t, err)
	file := filepath.Join(dir, "desk.pem")
	WriteFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	for i, c := range all {
		text, err := c.Sign(key)
		Must(t, err)
		WriteFile(t, filepath.Join(dir, fmt.Sprint(i)), string(text))
	}
	return dir, "desk: {public_key: " + file + "}\n"
}
