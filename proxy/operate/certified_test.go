package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
)

// certified is a config with the certificates of partners.
func certified(t *testing.T, of map[string]certificate.Certificate) string {
	t.Helper()
	var all []certificate.Certificate
	for partner, c := range of {
		c.Partner = "Clinic " + partner
		all = append(all, c)
	}
	dir, text := proxytest.CertifyPartners(t, all...)
	text += "partners:\n"
	for i, c := range all {
		key := strings.TrimPrefix(c.Partner, "Clinic ")
		text += fmt.Sprintf("  %s: {name: %s, certified: %s/%d}\n", hash(key), c.Partner, dir, i)
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
			proxytest.Has(t, row.Step.Reasons[0].Text.String(), want)
		}
	}
	one := answers[operate.PartnerList](w.testOperator, "GET", "/rollout/partners?partner="+hash("via")).Partners[0]
	proxytest.Equal(t, one.Certificate.String(), "certified for legacy through a gateway until "+year.Format(time.RFC3339))
	proxytest.Equal(t, one.Certified, true)
	change := answers[operate.Change](w.testOperator, "POST", "/rollout/next?by=anna&preview=true&partner="+hash("none"))
	if !strings.Contains(change.Certificate.String(), "not certified") || len(change.Reasons) != 0 {
		t.Errorf("%+v", change)
	}
}

// A certificate ends when the partner creates a bill with a client that the desk has not seen, until a day after the last such
// bill. It is not certified for a wave, and each place that shows the certificate says so.
func TestCertificateIsForAClient(t *testing.T) {
	t.Parallel()
	year := noon.AddDate(1, 0, 0)
	text := certified(t, map[string]certificate.Certificate{
		"k": {Form: "v2", Major: certificate.Major, Expires: year, Clients: []string{"shop/1"}},
		"l": {Form: "v2", Major: certificate.Major, Expires: year},
		"m": {Form: "v2", Major: certificate.Major, Expires: year, Clients: []string{"shop/1"}},
	})
	w := newWaveOf(t, separate+text, "&certified=true", "k", "l", "m")
	calls := func(key, agent string, creates, succeeded bool) {
		call := rollout.Call{Operation: "bill.create", Creates: creates, Partner: partner.Of(key)}
		w.Router.Count(call, rollout.Route{Upstream: "legacy"}, agent, evidence.End{Code: "0000", Succeeded: succeeded})
	}
	shows := func(certified bool, says string) {
		t.Helper()
		next := answers[operate.Change](w.testOperator, "POST", "/rollout/next?by=anna&preview=true&partner="+hash("k"))
		one := answers[operate.Status](w.testOperator, "GET", "/rollout?partner="+hash("k")).Partners[0]
		page := answers[operate.PartnerList](w.testOperator, "GET", "/rollout/partners?partner="+hash("k")).Partners[0]
		proxytest.Equal(t, []bool{one.Certified, page.Certified}, []bool{certified, certified})
		for _, text := range []string{next.Certificate.String(), one.Certificate.String(), page.Certificate.String()} {
			proxytest.Has(t, text, says)
		}
	}
	calls("k", "shop/1", true, true)
	calls("k", "curl/8", false, true)
	calls("k", "curl/9", true, false)
	calls("l", "any", true, true)
	calls("m", "", true, true)
	shows(true, "certified for v2 until ")
	calls("k", "shop/2\u009b\xff", true, true)
	must(t, w.Router.Counts().Flush(t.Context()))
	shows(false, "certified for another client: shop/2__ created a bill at "+noon.Format(time.RFC3339))
	w.after(time.Minute)
	w.after(time.Minute)
	w.stages("old, canary 10 %, old", "k", "l", "m")
	for _, row := range w.info().Partners {
		client := map[string]string{"Clinic k": "shop/2__", "Clinic m": "no User-Agent"}[row.Name]
		if reasons := row.Step.Reasons; client != "" && (len(reasons) != 1 || reasons[0].Kind != "certificate" ||
			!strings.Contains(reasons[0].Text.String(), "another client: "+client+" created")) {
			t.Errorf("%s: %+v", row.Name, reasons)
		}
	}
	w.after(24 * time.Hour)
	shows(true, "certified for v2 until ")
}

// Without a key of a desk no partner has a valid certificate, and this is shown only in a wave that asks for it.
func TestCertificatesNeedADesk(t *testing.T) {
	t.Parallel()
	w := newWaveOf(t, separate, "&certified=true", "k")
	w.after(time.Hour)
	w.stages("old", "k")
	proxytest.Has(t, w.info().Partners[0].Step.Reasons[0].Text.String(), "the config has no key of a desk")
	one := answers[operate.PartnerList](w.testOperator, "GET", "/rollout/partners?partner="+hash("k")).Partners[0]
	proxytest.Equal(t, one.Certificate.String(), "")
}
