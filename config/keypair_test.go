package config_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// A pemPair is a certificate and its key.
type pemPair proxytest.Certificate

func newPair(t *testing.T, name string) pemPair {
	t.Helper()
	return pemPair(proxytest.NewCertificate(t, name, nil))
}

func (p pemPair) write(t *testing.T, cert, key string) {
	t.Helper()
	put(t, cert, p.Cert, 0)
	put(t, key, p.Key, 0)
}

// put writes a file with a later modification time. Without it, several writes of a test could get the same time.
func put(t *testing.T, path string, data []byte, later time.Duration) {
	t.Helper()
	proxytest.WriteFile(t, path, data)
	at := time.Now().Add(later)
	must(t, os.Chtimes(path, at, at))
}

// commonName returns the common name of the current certificate.
func commonName(t *testing.T, pair *config.KeyPair) string {
	t.Helper()
	c, err := pair.Certificate()
	must(t, err)
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	must(t, err)
	return leaf.Subject.CommonName
}

// A renewed certificate is served from the next handshake on. Until the renewal is complete, the old one is served: with half a file,
// without a file, or with the new certificate and the old key.
func TestKeyPairIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first, second := newPair(t, "first"), newPair(t, "second")
	first.write(t, cert, key)
	pair := &config.KeyPair{Cert: cert, Key: key}

	step := func(what, want string) {
		t.Helper()
		equal(t, commonName(t, pair), want, what)
	}
	step("at the start", "first")
	put(t, cert, second.Cert[:len(second.Cert)/2], time.Second)
	step("half a new certificate", "first")
	put(t, cert, second.Cert, 2*time.Second)
	step("a new certificate with the old key", "first")
	put(t, key, second.Key, 3*time.Second)
	step("both new", "second")
	must(t, os.Remove(key))
	step("no key", "second")
	put(t, key, first.Key, 4*time.Second)
	put(t, cert, first.Cert, 4*time.Second)
	step("back to the first", "first")
}

// Mounted secrets are links to links. A change of a link is noticed, although the files do not change.
func TestKeyPairFollowsSwappedLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"first", "second"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		p := newPair(t, name)
		put(t, filepath.Join(dir, name, "cert.pem"), p.Cert, time.Duration(-i)*time.Hour) // the second has older files
		put(t, filepath.Join(dir, name, "key.pem"), p.Key, time.Duration(-i)*time.Hour)
	}
	current := filepath.Join(dir, "current")
	pair := &config.KeyPair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for _, name := range []string{"cert.pem", "key.pem"} {
		must(t, os.Symlink(filepath.Join("current", name), filepath.Join(dir, name)))
	}
	for _, name := range []string{"first", "second"} {
		next := filepath.Join(dir, "next")
		must(t, os.Symlink(name, next))
		must(t, os.Rename(next, current))
		equal(t, commonName(t, pair), name)
	}
}

// Files are not read again as long as they do not change.
func TestUnchangedKeyPairIsNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	newPair(t, "first").write(t, cert, key)
	pair := &config.KeyPair{Cert: cert, Key: key}
	before, err := pair.Certificate()
	must(t, err)
	var handshakes sync.WaitGroup
	for range 16 {
		handshakes.Go(func() {
			if after, err := pair.Certificate(); err != nil || after != before {
				t.Errorf("another certificate, %v", err)
			}
		})
	}
	handshakes.Wait()
}

// The TLS files of an upstream are read with the config, so that a reload can refuse them.
func TestUpstreamTLS(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"billbridge.yaml": "upstreams: {new: {form: v2, url: https://new.example.com, tls: {ca: ca.pem, client: {cert: cert.pem, key: key.pem}}}}\n"})
	ca := newPair(t, "a private authority")
	put(t, filepath.Join(dir, "ca.pem"), ca.Cert, 0)
	newPair(t, "billbridge").write(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), lookup)
	must(t, err)
	upstream := c.Upstreams[0].TLS
	equal(t, commonName(t, upstream.Client), "billbridge")
	block, _ := pem.Decode(ca.Cert)
	leaf, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: upstream.Roots}); err != nil {
		t.Errorf("the private authority is not trusted: %v", err)
	}
	if parse(t, "upstreams: {new: {form: v2, url: https://new.example.com, tls: {}}}\n").Upstreams[0].TLS.Roots != nil {
		t.Error("without ca the system's roots are not used")
	}
}
