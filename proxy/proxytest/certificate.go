package proxytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"
)

// A Certificate is one for 127.0.0.1 and gateway.example.com, with its key, both in PEM.
type Certificate struct {
	Cert, Key []byte
	Serial    int64
}

// NewCertificate returns a certificate that an authority signs. If by is nil, it is an authority, and its own.
func NewCertificate(t testing.TB, name string, by *Certificate) Certificate {
	t.Helper()
	return NewCertificateUntil(t, name, by, time.Now().AddDate(1, 0, 0))
}

// NewCertificateUntil is NewCertificate with the end of the certificate.
func NewCertificateUntil(t testing.TB, name string, by *Certificate, end time.Time) Certificate {
	t.Helper()
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"gateway.example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: end, IsCA: by == nil, BasicConstraintsValid: true,
	}
	signer := tls.Certificate{Leaf: template, PrivateKey: key}
	if by != nil && err == nil {
		signer, err = tls.X509KeyPair(by.Cert, by.Key)
	}
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, signer.Leaf, &key.PublicKey, signer.PrivateKey)
	der, failed := x509.MarshalPKCS8PrivateKey(key)
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	encode := func(what string, data []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: what, Bytes: data}) }
	return Certificate{encode("CERTIFICATE", cert), encode("PRIVATE KEY", der), now.UnixNano()}
}
