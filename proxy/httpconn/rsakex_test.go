package httpconn

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// A server of which all ciphers use RSA for the exchange of keys, as old ones do, is named so: Go offers none of them.
func TestServerWithoutACommonCipherIsNamed(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"old.example.com"}, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	old := tls.Server(there, &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}, MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_128_GCM_SHA256},
	})
	go func() { _ = old.Handshake() }()
	defer there.Close()
	got := ReasonOfTLS(tls.Client(here, &tls.Config{ServerName: "old.example.com"}).Handshake())
	if want := "the server refused the handshake: handshake failure; it may have no cipher with ECDHE"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
