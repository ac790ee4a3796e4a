package desk

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/desk/certificate"
)

func signedBy(id string) certificate.Signed {
	return certificate.Signed{Case: id, By: "Kim", With: "Lee", Text: "seen"}
}

// A full run is certified when each review is signed and each warning accepted; not before.
func TestFullRunIsCertifiedWhenAllReviewsAreSigned(t *testing.T) {
	t.Parallel()
	key, sign := signed(t)
	public := key.Public().(ed25519.PublicKey)
	_, log := runShop(t, "v2", "unknown-field", func(c *Config) { sign(c) })
	res, err := Verify(bytes.NewReader(log), public)
	must(t, err)
	equal(t, Outcome(res.Plan, res.Verdicts), Review)
	var open []string
	for _, v := range Last(res.Verdicts) {
		if v.Open(res.Plan) {
			open = append(open, v.Case)
		}
	}
	equal(t, strings.Join(open, " "), "A1 A10a U10 N1 R1 K4 A2 U13 K0 H1 H2 H3 H4")
	for _, id := range open {
		_, err = res.Certificate()
		equal(t, err != nil, true)
		added, err := Sign(log, key, signedBy(id))
		must(t, err)
		log = append(log, added...)
		res, err = Verify(bytes.NewReader(log), public)
		must(t, err)
	}
	equal(t, Outcome(res.Plan, res.Verdicts), Passed)
	one, err := res.Certificate()
	must(t, err)
	text, err := one.Sign(key)
	must(t, err)
	read, err := certificate.Parse(text, public)
	must(t, err)
	equal(t, *read, one)
	equal(t, len(read.Signed), len(open))
	equal(t, read.Clients, []string{"Go-http-client/1.1"}) // not the desk's own, as the bank
	equal(t, read.Expires, res.ended.AddDate(1, 0, 0))
	var page bytes.Buffer
	must(t, Report(&page, res))
	has(t, page.String(), "Kim and Lee: seen")
	has(t, page.String(), ", for the client Go-http-client/1.1.</p>")
	// A review that was changed, or that nobody signed, is refused.
	lines := linesOf(log)
	at := len(lines) - 2
	for want, changed := range map[string]string{
		"the chain is broken":    strings.Join(lines[:at], "") + strings.Replace(lines[at], "Kim", "Choi", 1) + lines[at+1] + "\n",
		"the signature is wrong": rechain(t, append(append([]string{}, lines[:at]...), strings.Replace(lines[at], "Kim", "Choi", 1), lines[at+1])),
		"signature of the end":   strings.Join(lines[:at+1], ""),
	} {
		fails(t, want)(Verify(strings.NewReader(changed), public))
	}
}

// Only what a person can decide is signed, by whom it needs.
func TestSignRefuses(t *testing.T) {
	t.Parallel()
	key, sign := signed(t)
	_, log := runShop(t, "v2", "declined-is-refunded", func(c *Config) {
		sign(c)
		c.Plan.Only = []string{"A1", "A9", "A2", "H1"}
	})
	_, practice := runShop(t, "v2", "", func(c *Config) { c.Plan.Only = []string{"A1"} })
	_, stranger, _ := ed25519.GenerateKey(nil)
	for want, c := range map[string]struct {
		log    []byte
		key    ed25519.PrivateKey
		review certificate.Signed
	}{
		"case A9 is FAILED":              {log, key, signedBy("A9")},
		"case A1 is PASSED":              {log, key, signedBy("A1")},
		`the run has no case "H2"`:       {log, key, signedBy("H2")},
		"H1: the review needs two":       {log, key, certificate.Signed{Case: "H1", By: "Kim", Text: "seen"}},
		"A2: the review needs two":       {log, key, certificate.Signed{Case: "A2", By: "Kim", With: " kim", Text: "seen"}},
		"A2: the review needs a name":    {log, key, certificate.Signed{Case: "A2", Text: "seen", With: "Lee"}},
		"signed with another key":        {log, stranger, signedBy("A2")},
		"a practice is not signed":       {practice, key, signedBy("A1")},
		"line 1 is not a complete recor": {[]byte("{"), key, signedBy("A1")},
	} {
		fails(t, want)(Sign(c.log, c.key, c.review))
	}
	works(t)(Sign(log, key, certificate.Signed{Case: "A2", By: "Kim", Text: "seen"}))
	res, err := Verify(bytes.NewReader(log), nil)
	must(t, err)
	for want, change := range map[string]func(*Result){
		"a practice":             func(r *Result) { r.Plan.Practice = true },
		"only a part":            func(*Result) {},
		"the run is FAILED":      func(r *Result) { r.Plan.Only = nil },
		"the run is INTERRUPTED": func(r *Result) { r.Plan.Only, r.Verdicts = nil, []Verdict{{Case: "A1", Result: Unknown}} },
	} {
		changed := res
		change(&changed)
		fails(t, want)(changed.Certificate())
	}
}

// A failure that is expected does not fail the run until its day, unless it is a second bill. It ends the certificate.
func TestExpectedFailures(t *testing.T) {
	t.Parallel()
	const list = "[{case: A9, reason: the refund page is rebuilt, until: 2000-02-01}, {case: U3, reason: none, until: 2000-02-01}]"
	run := func(habit, only, list string) (Verdict, Result) {
		all, log := runShop(t, "v2", habit, func(c *Config) {
			must(t, c.Plan.Expect([]byte(list)))
			c.Plan.Only = []string{only}
		})
		res, err := Verify(bytes.NewReader(log), nil)
		must(t, err)
		return all[0], res
	}
	v, res := run("declined-is-refunded", "A9", list)
	equal(t, v.Result, Expected)
	equal(t, Outcome(res.Plan, res.Verdicts), Passed)
	res.Plan.Practice, res.Plan.Only = false, nil
	one, err := res.Certificate()
	must(t, err)
	equal(t, one.Expires, time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC))
	equal(t, one.Expected[0].Reason, "the refund page is rebuilt")
	var junit, page bytes.Buffer
	must(t, JUnit(&junit, res))
	has(t, junit.String(), `failures="0" errors="0" skipped="1"`)
	must(t, Report(&page, res))
	has(t, page.String(), "the refund page is rebuilt")
	v, _ = run("new-id-after-504", "U3", list)
	equal(t, v.Result, Failed)
	v, _ = run("declined-is-refunded", "A9", strings.ReplaceAll(list, "2000-02-01", "2000-01-01"))
	equal(t, v.Result, Failed)
	for text, want := range map[string]string{
		"[{case: H1, reason: x, until: 2000-02-01}]": "expected a case without people",
		"[{case: A9, until: 2000-02-01}]":            "case A9: the reason is missing",
		"[{case: A9, reason: x}]":                    "case A9: until is missing",
		"[{case: A9, why: x}]":                       "why",
	} {
		fails(t, want, text)((&Plan{}).Expect([]byte(text)))
	}
}

// A case with another result through a gateway is a finding. Only a direct run and one through a gateway are compared.
func TestCompare(t *testing.T) {
	t.Parallel()
	result := func(via bool, results ...string) (r Result) {
		r.Plan = Plan{Partner: "shop", Form: "v2", Via: via}
		for i, one := range results {
			r.Verdicts = append(r.Verdicts, Verdict{Case: cases[i].ID, Result: one})
		}
		return r
	}
	differs, n, err := Compare(result(false, Passed, Passed, Failed), result(true, Passed, Failed))
	must(t, err)
	equal(t, n, 2)
	equal(t, differs, []Difference{{Verdict{Case: cases[1].ID, Result: Passed}, Verdict{Case: cases[1].ID, Result: Failed}}})
	_, _, err = Compare(result(true, Passed), result(true, Passed))
	equal(t, err.Error(), "expected a direct run and then one through a gateway")
	other := result(true, Passed)
	other.Plan.Form = "legacy"
	_, _, err = Compare(result(false, Passed), other)
	has(t, err.Error(), "expected runs of one plan but got: shop in v2")
}
