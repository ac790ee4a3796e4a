package config_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
)

// A certificate that the desk did not sign, or of another partner, stops a start and a reload. One that has ended does not.
func TestCertificates(t *testing.T) {
	t.Parallel()
	public, key, err := ed25519.GenerateKey(nil)
	proxytest.Must(t, err)
	_, stranger, err := ed25519.GenerateKey(nil)
	proxytest.Must(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	proxytest.Must(t, err)
	dir := t.TempDir()
	write := func(name string, c certificate.Certificate, key ed25519.PrivateKey) string {
		text, err := c.Sign(key)
		proxytest.Must(t, err)
		proxytest.WriteFile(t, filepath.Join(dir, name), string(text))
		return string(text)
	}
	c := certificate.Certificate{
		Partner: "Hana Clinic", Form: "v2", Major: certificate.Major, Expires: time.Now().AddDate(1, 0, 0),
	}
	changed := strings.Replace(write("good.cert", c, key), `"form":"v2"`, `"form":"legacy"`, 1)
	proxytest.WriteFile(t, filepath.Join(dir, "changed.cert"), changed)
	proxytest.WriteFile(t, filepath.Join(dir, "desk.pub.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	write("stranger.cert", c, stranger)
	other := c
	other.Partner = "Dana Clinic"
	write("other.cert", other, key)
	ended := c
	ended.Expires = time.Now().Add(-time.Hour)
	write("ended.cert", ended, key)
	ends := c
	ends.Expires = time.Now().AddDate(0, 0, 20)
	write("ends.cert", ends, key)
	older := c
	older.Major = 0
	write("older.cert", older, key)
	desk := "desk: {public_key: desk.pub.pem}\n"
	for name, one := range map[string]struct{ file, desk, problem, warning string }{
		"good":           {"good.cert", desk, "", ""},
		"changed":        {"changed.cert", desk, "partners.….certified: is not signed with the key of the desk, or was changed", ""},
		"another key":    {"stranger.cert", desk, "partners.….certified: is not signed with the key of the desk, or was changed", ""},
		"evidence":       {"desk.pub.pem", desk, "is not a certificate: create it with billbridge desk certificate", ""},
		"other partner":  {"other.cert", desk, "is the certificate of another partner", ""},
		"no file":        {"none.cert", desk, "the file cannot be read: no such file", ""},
		"no desk":        {"good.cert", "", "needs desk.public_key", ""},
		"no public key":  {"good.cert", "desk: {public_key: good.cert}\n", "desk.public_key: has no Ed25519 public key in PEM", ""},
		"no key file":    {"good.cert", "desk: {public_key: none}\n", "desk.public_key: the file cannot be read", ""},
		"ended":          {"ended.cert", desk, "", "the certificate of the partner ends on "},
		"ends soon":      {"ends.cert", desk, "", "run the desk again"},
		"other versions": {"older.cert", desk, "", "another version of the list of cases"},
	} {
		text := "upstreams: {new: {form: v2, url: https://new.example.com}}\npartners: {5f7b2ed74a97: {name: Hana Clinic, certified: " +
			one.file + "}}\n" + one.desk
		got, err := config.Parse(translate.File{Name: filepath.Join(dir, "billbridge.yaml"), Data: []byte(text)}, lookup)
		switch {
		case one.problem != "":
			if err == nil || !strings.Contains(err.Error(), one.problem) {
				t.Errorf("%s: got %v, want %s", name, err, one.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case got.Partners[0].Certificate == nil || got.Partners[0].Certificate.Form != "v2":
			t.Errorf("%s: the certificate was not read", name)
		default:
			if all := got.Warnings().Error(); one.warning == "" && strings.Contains(all, "certif") || !strings.Contains(all, one.warning) {
				t.Errorf("%s: got the warnings %s, want %s", name, all, one.warning)
			}
		}
	}
}
