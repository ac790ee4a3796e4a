package operate_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
)

// certified is a config with the certificates of partners.
func certified(t *testing.T, of map[string]certificate.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	public, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	proxytest.WriteFile(t, filepath.Join(dir, "desk.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	text := fmt.Sprintf("desk: {public_key: %s/desk.pem}\npartners:\n", dir)
	for partner, c := range of {
		c.Partner = "Clinic " + partner
		signed, err := c.Sign(key)
		must(t, err)
		proxytest.WriteFile(t, filepath.Join(dir, partner), string(signed))
		text += fmt.Sprintf("  %s: {name: Clinic %s, certified: %s/%s}\n", hash(partner), partner, dir, partner)
	}
	return text
}

// A wave that asks for certificates moves certified partners only. The others wait, with the reason, which a move by hand
// shows too.
func TestWaveMovesCertifiedPartners(t *testing.T) {
	t.Parallel()
	year := noon.AddDate(1, 0, 0)
	text := certified(t, map[string]certificate.Certificate{
		"v2":     {Form: "v2", Major: certificate.Major, Expires: year},
		"via":    {Form: "legacy", Via: true, Major: certificate.Major, Expires: year},
		"direct": {Form: "legacy", Major: certificate.Major, Expires: year},
		"ends":   {Form: "v2", Major: certificate.Major, Expires: noon.Add(time.Second)},
		"older":  {Form: "v2", Expires: year},
	})
	keys := []string{"v2", "via", "direct", "ends", "older", "none"}
	w := newWaveOf(t, separate+text, "&certified=true", keys...)
	for range 12 {
		w.after(time.Minute)
	}
	w.stages("canary 10 %, canary 10 %, old, old, old, old", keys...)
	rows := w.info().Partners
	proxytest.Equal(t, len(rows), len(keys))
	for _, row := range rows {
		want := map[string]string{
			hash("direct")[:12]: "it is certified for legacy directly, and the new backend has v2, so run the desk with --via",
			hash("ends")[:12]:   "the certificate ended at ",
			hash("older")[:12]:  "another version of the list of cases",
			hash("none")[:12]:   "the config has no certificate of the partner",
		}[row.Partner]
		switch {
		case want == "":
		case len(row.Step.Reasons) != 1 || row.Step.Reasons[0].Kind != "certificate":
			t.Errorf("%s has the reasons %+v", row.Name, row.Step.Reasons)
		default:
			proxytest.Has(t, row.Step.Reasons[0].Text, want)
		}
	}
	one := answers[operate.PartnerList](w.testOperator, "GET", "/rollout/partners?partner="+hash("via")).Partners[0]
	proxytest.Equal(t, one.Certificate, "certified for legacy through a gateway until "+year.Format(time.RFC3339))
	proxytest.Equal(t, one.Certified, true)
	change := answers[operate.Change](w.testOperator, "POST", "/rollout/next?by=anna&preview=true&partner="+hash("none"))
	if !strings.Contains(change.Certificate, "not certified") || len(change.Reasons) != 0 {
		t.Errorf("%+v", change)
	}
}

// Without a key of a desk no partner has a valid certificate, and this is shown only in a wave that asks for it.
func TestCertificatesNeedADesk(t *testing.T) {
	t.Parallel()
	w := newWaveOf(t, separate, "&certified=true", "k")
	w.after(time.Hour)
	w.stages("old", "k")
	proxytest.Has(t, w.info().Partners[0].Step.Reasons[0].Text, "the config has no key of a desk")
	one := answers[operate.PartnerList](w.testOperator, "GET", "/rollout/partners?partner="+hash("k")).Partners[0]
	proxytest.Equal(t, one.Certificate, "")
}
