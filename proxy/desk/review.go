package desk

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/desk/certificate"
)

// Sign returns the records that add reviews to the log of a run: of cases in REVIEW, and of cases in WARNING, which
// somebody accepts by name. The key is that of the run.
func Sign(log []byte, key ed25519.PrivateKey, reviews ...certificate.Signed) ([]byte, error) {
	res, err := Verify(bytes.NewReader(log), key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	var added bytes.Buffer
	e := newEvidence(&added, key)
	e.list, e.prev = res.Records, res.last
	for _, review := range reviews {
		if err := res.reviewed(review); err != nil {
			return nil, err
		}
		e.append(Record{Kind: kindReview, Case: review.Case, Review: &review})
	}
	e.sign()
	return added.Bytes(), e.err
}

// reviewed adds a review to the verdicts, if the last verdict of its case has something to review.
func (res *Result) reviewed(review certificate.Signed) error {
	c, known := caseOf(review.Case)
	last := -1
	for i, v := range res.Verdicts {
		if v.Case == review.Case {
			last = i
		}
	}
	same := strings.EqualFold(strings.TrimSpace(review.By), strings.TrimSpace(review.With))
	switch {
	case !known || last < 0:
		return fmt.Errorf("the run has no case %q", review.Case)
	case res.Signer == nil:
		return errors.New("a practice is not signed: there is nothing to review")
	case res.Verdicts[last].Result != Review && res.Verdicts[last].Result != Warning:
		return fmt.Errorf("case %s is %s: only REVIEW and WARNING can be signed", review.Case, res.Verdicts[last].Result)
	case strings.TrimSpace(review.By) == "" || strings.TrimSpace(review.Text) == "":
		return fmt.Errorf("case %s: the review needs a name and a text", review.Case)
	case same || c.People == 2 && strings.TrimSpace(review.With) == "":
		return fmt.Errorf("case %s: the review needs two people", review.Case)
	}
	res.Verdicts = slices.Clone(res.Verdicts)
	res.Verdicts[last].Signed = &review
	return nil
}

// Open reports whether a person has to sign the result. In a practice nobody does.
func (v Verdict) Open(p Plan) bool {
	return v.Signed == nil && (v.Result == Review || v.Result == Warning && !p.Practice)
}

// Certificate returns the certificate of a run, or an error that says what it lacks.
func (res Result) Certificate() (c certificate.Certificate, err error) {
	p := res.Plan
	switch outcome := Outcome(p, res.Verdicts); {
	case p.Practice:
		return c, errors.New("a practice certifies nothing")
	case len(p.Only) > 0:
		return c, errors.New("the run has only a part of the cases")
	case outcome != Passed:
		return c, fmt.Errorf("the run is %s", outcome)
	}
	c = certificate.Certificate{
		Partner: p.Partner, Form: p.Form, Options: p.Options, Via: p.Via, Major: certificate.Major, Cases: p.Cases,
		Run: p.Run, Build: p.Build, Evidence: res.last, Expected: p.Expected, Passed: res.ended,
		Expires: res.ended.AddDate(0, certificate.Months, 0), Clients: clientsIn(res.Records),
	}
	for _, v := range Last(res.Verdicts) {
		if v.Signed != nil {
			c.Signed = append(c.Signed, *v.Signed)
		}
		if at := slices.IndexFunc(p.Expected, func(f certificate.Failure) bool { return f.Case == v.Case }); at >= 0 &&
			v.Result == Expected && p.Expected[at].Until.Before(c.Expires) {
			c.Expires = p.Expected[at].Until
		}
	}
	return c, nil
}

// clientsIn returns the programs that the partner has created bills with.
func clientsIn(recs []Record) (list []string) {
	for _, r := range recs {
		if r.Kind == kindCall && r.Call.Operation == "bill.create" && !r.Call.Behind {
			list = append(list, certificate.Client(r.Call.UserAgent))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// expects reports whether the plan expects the failure of an attempt at a time. A second bill is never expected.
func (p Plan) expects(v Verdict, at time.Time) bool {
	second := slices.ContainsFunc(v.Findings, func(f Finding) bool {
		return f.Condition == "one-bill" || f.Condition == "one-made"
	})
	return !second && slices.ContainsFunc(p.Expected, func(f certificate.Failure) bool {
		return f.Case == v.Case && at.Before(f.Until)
	})
}
