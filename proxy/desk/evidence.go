package desk

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/sandbox"
)

// A Head signs all records before it.
type Head struct {
	Key       []byte `json:"public_key"`
	Signature []byte `json:"signature"` // Ed25519, of the record's prev
}

// evidence is the log of a run. It only grows.
type evidence struct {
	out    io.Writer
	key    ed25519.PrivateKey // nil in practice
	secret []byte             // of the fingerprints; it is never written

	mu   sync.Mutex
	prev string
	list []Record
	err  error // of the first write that failed
}

func newEvidence(out io.Writer, key ed25519.PrivateKey) *evidence {
	return &evidence{out: out, key: key, secret: []byte(rand.Text())}
}

// append adds a record, which is written before append returns.
func (e *evidence) append(r Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(r)
}

// add is append under the lock.
func (e *evidence) add(r Record) {
	r.N, r.Prev, r.At = len(e.list)+1, e.prev, plainTime(time.Now())
	line, err := json.Marshal(r)
	if err == nil {
		_, err = e.out.Write(append(line, '\n'))
	}
	e.err = errors.Join(e.err, err)
	e.prev, e.list = lineHash(line), append(e.list, r)
}

// sign adds a head, unless the run is a practice.
func (e *evidence) sign() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.key != nil {
		public := e.key.Public().(ed25519.PublicKey)
		e.add(Record{Kind: kindHead, Head: &Head{public, ed25519.Sign(e.key, []byte(e.prev))}})
	}
}

// records returns the records until now.
func (e *evidence) records() []Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

func lineHash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// plainTime is a time as the evidence has it, so that verdicts do not depend on what a file cannot have.
func plainTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// fingerprint replaces a secret. Equal secrets of a run have equal fingerprints.
func (e *evidence) fingerprint(secret string) string {
	mac := hmac.New(sha256.New, e.secret)
	mac.Write([]byte(secret))
	return "fp:" + hex.EncodeToString(mac.Sum(nil)[:8])
}

// readable are the fields whose values the evidence has as they are. All other values are fingerprints.
var readable = strings.Fields("billid price code apprstate apprdt approrigindt apprprice apprpaytype apprcanceldt " +
	"apprrescd sendtype expiredt mappingstatus")

// masked returns a body without secrets.
func (e *evidence) masked(body []byte) json.RawMessage {
	if len(body) == 0 {
		return nil
	}
	v := parse(body)
	if v == nil {
		v = map[string]any{"not_json": e.fingerprint(string(body)), "bytes": len(body)}
	}
	text, _ := json.Marshal(e.mask("", v)) // it has maps, texts and numbers only
	return text
}

// parse returns a JSON object, or nil.
func parse(body []byte) (v map[string]any) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	_ = dec.Decode(&v)
	return v
}

func (e *evidence) mask(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = e.mask(k, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = e.mask(name, inner)
		}
	case string, json.Number:
		if text := fmt.Sprint(v); text != "" && name != "not_json" && !slices.Contains(readable, plain(name)) {
			return e.fingerprint(text)
		}
	}
	return v
}

// call returns an exchange of the sandbox without secrets.
func (e *evidence) call(x sandbox.Exchange) *Call {
	text, _ := json.Marshal(x.Fault) // it has texts, numbers and booleans only
	fault := parse(text)
	for _, name := range []string{"operation", "count", "partner", "bill"} {
		delete(fault, name)
	}
	if x.Fault.Body != "" {
		fault["body"] = len(x.Fault.Body)
	}
	if x.Fault.Delay > 0 {
		fault["delay"] = x.Fault.Delay.String()
	}
	hashed := strings.Split(x.HashText, ",")
	if len(hashed) == 3 {
		hashed[1] = e.fingerprint(hashed[1])
	}
	facts := x.Facts
	for _, at := range []*time.Time{&facts.Began, &facts.Ended, &facts.Clock} {
		*at = plainTime(*at)
	}
	return &Call{
		Facts: facts, Request: e.masked(x.Request), Reply: e.masked(x.Reply), Fault: fault,
		Hashed: strings.Join(hashed, ","),
	}
}

// A Result is what a log proves.
type Result struct {
	Plan     Plan
	Verdicts []Verdict // of all attempts
	Signer   ed25519.PublicKey
	Records  []Record

	ended time.Time // of the run; zero before
	last  string    // the hash of the last line
}

// Verify checks a log: its chain, its signatures, and that each verdict follows from the records before it. If public
// is nil, any signer is accepted. A practice has no signature.
func Verify(log io.Reader, public ed25519.PublicKey) (res Result, err error) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		var r Record
		n := len(res.Records) + 1
		if err != nil || json.Unmarshal(line, &r) != nil {
			return res, fmt.Errorf("line %d is not a complete record", n)
		}
		if r.N != n || r.Prev != res.last {
			return res, fmt.Errorf("line %d: the chain is broken: a record was changed, removed or moved", n)
		}
		if err := res.check(r, public); err != nil {
			return res, fmt.Errorf("line %d: %w", n, err)
		}
		res.last = lineHash(bytes.TrimSuffix(line, []byte("\n")))
		res.Records = append(res.Records, r)
	}
	switch n := len(res.Records); {
	case res.ended.IsZero():
		return res, errors.New("the log has no end: records are missing, or the run was stopped")
	case !res.Plan.Practice && res.Records[n-1].Kind != kindHead:
		return res, errors.New("the signature of the end is missing")
	case res.Plan.Practice && res.Signer != nil:
		return res, errors.New("a practice must not be signed")
	}
	return res, nil
}

// check checks one record against those before it.
func (res *Result) check(r Record, public ed25519.PublicKey) error {
	switch {
	case !res.ended.IsZero() && r.Kind != kindHead && r.Kind != kindReview:
		return errors.New("the run has ended before")
	case (r.Kind == kindPlan) != (r.N == 1) || (r.Plan != nil) != (r.N == 1):
		return errors.New("the plan must be the first record, and only that")
	case r.Plan != nil:
		res.Plan = *r.Plan
		if r.Plan.Cases != casesHash {
			return fmt.Errorf("the list of cases is %s, this build has %s: verify with build %s",
				r.Plan.Cases, casesHash, r.Plan.Build)
		}
	case r.Kind == kindHead:
		h := r.Head
		if h == nil || len(h.Key) != ed25519.PublicKeySize || !ed25519.Verify(h.Key, []byte(r.Prev), h.Signature) {
			return errors.New("the signature is wrong")
		}
		if public != nil && !public.Equal(ed25519.PublicKey(h.Key)) ||
			res.Signer != nil && !bytes.Equal(res.Signer, h.Key) {
			return errors.New("it is signed with another key")
		}
		res.Signer = h.Key
	case r.Kind == kindVerdict:
		c, ok := caseOf(r.Case)
		if !ok || r.Verdict == nil ||
			!reflect.DeepEqual(*r.Verdict, judge(res.Plan, c, r.Attempt, attemptOf(res.Records, r.Case, r.Attempt))) {
			return fmt.Errorf("the verdict of case %s does not follow from the log", r.Case)
		}
	case r.Kind == kindEnd:
		res.ended, res.Verdicts = r.At, judgeAll(res.Plan, res.Records)
		if r.Text != Outcome(res.Plan, res.Verdicts) {
			return errors.New("the outcome does not follow from the log")
		}
	case r.Kind == kindReview:
		if r.Review == nil || r.Case != r.Review.Case || res.ended.IsZero() {
			return errors.New("a review must follow the end of the run")
		}
		return res.reviewed(*r.Review)
	}
	return nil
}
