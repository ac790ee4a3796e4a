package sandbox_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

const (
	demoKey = "demo-partner-key"
	billID  = "1234567890ABCDEFGHIJ"
)

var forms = []string{"v2", "legacy"}

// noon is 12:34:56 in Seoul, given in another zone.
var noon = time.Date(2026, 3, 2, 3, 34, 56, 0, time.UTC)

// A rig is a sandbox with HTTP servers for partners and for the control API.
type rig struct {
	*sandbox.Service
	t            *testing.T
	url, control string
}

func start(t *testing.T, options ...sandbox.Options) *rig {
	t.Helper()
	return open(t, "", append(options, sandbox.Options{})[0])
}

// open starts a service with a data file, if it is named.
func open(t *testing.T, file string, o sandbox.Options) *rig {
	t.Helper()
	if o.Clock == nil {
		o.Clock = func() time.Time { return noon }
	}
	if o.Transport == nil {
		o.Transport = loopbackTransport{}
	}
	if file != "" {
		o.BaseURL = "https://pay.example.com"
	}
	s, err := sandbox.Open(file, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	calls, control := httptest.NewServer(s), httptest.NewServer(s.Control())
	t.Cleanup(calls.Close)
	t.Cleanup(control.Close)
	return &rig{Service: s, t: t, url: calls.URL, control: control.URL}
}

// loopbackTransport sends callbacks to this machine only. Others fail at once.
type loopbackTransport struct{}

func (loopbackTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() != "127.0.0.1" {
		return nil, fmt.Errorf("%s is not this machine", r.URL.Hostname())
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (r *rig) post(path, body string) (int, string) {
	r.t.Helper()
	return send(r.t, http.MethodPost, r.url+path, body)
}

func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
		t.Errorf("%s %s: content type %q", method, url, got)
	}
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(b)
}

// do makes a call, checks that its status is 200, and returns its code. A legacy read without a code counts as 0000.
func (r *rig) do(q testCall) (code, body string) {
	r.t.Helper()
	path, request := q.encode()
	status, body := r.post(path, request)
	equal(r.t, status, http.StatusOK, path, body)
	return codeOf(r.t, q.form, body), body
}

func (r *rig) must(q testCall) string {
	r.t.Helper()
	code, body := r.do(q)
	if code != "0000" {
		r.t.Fatalf("%s %s: %s", q.form, q.op, body)
	}
	return body
}

// codeOf checks the envelope of a reply and returns the code.
func codeOf(t testing.TB, form, body string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if _, bare := m["appr_state"]; bare && form == "legacy" && m["code"] == nil && m["msg"] == nil {
		return "0000"
	}
	var code, text string
	name := map[string]string{"v2": "message", "legacy": "msg"}[form]
	if json.Unmarshal(m["code"], &code) != nil || json.Unmarshal(m[name], &text) != nil || text == "" {
		t.Fatalf("no %s envelope: %s", form, body)
	}
	if code != "0000" {
		want := 2
		if form == "v2" {
			want = 3
			equal(t, string(m["data"]), "null", m["data"])
		}
		equal(t, len(m), want, body)
	}
	return code
}

// A testCall is a call with v2 names, for either form.
type testCall struct {
	form, op, key, member, merchant string
	bill                            map[string]any // the price is a string of digits
}

type omitted struct{} // a value that omits the field

func newCall(form, op string) testCall {
	q := testCall{form: form, op: op, key: demoKey, member: "demo-member", merchant: "demo-store", bill: map[string]any{"billId": billID}}
	switch op {
	case "create":
		maps.Copy(q.bill, map[string]any{
			"sendType": "TALK", "billIssuer": "데모상사", "productName": "3월 수강료", "price": "30000",
			"memberName": "홍길동", "phone": "01012345678", "message": "납부 바랍니다", "expireDt": "2026-03-31",
			"callbackUrl": "https://partner.example.com/cb",
		})
	case "destroy", "cancel":
		q.bill["price"] = "30000"
	}
	return q
}

// with returns the call with another value of a field.
func (q testCall) with(name string, v any) testCall {
	text, _ := v.(string)
	switch name {
	case "apiKey":
		q.key = text
	case "member":
		q.member = text
	case "merchant":
		q.merchant = text
	default:
		q.bill = maps.Clone(q.bill)
		q.bill[name] = v
	}
	return q
}

var legacyName = map[string]string{
	"billId": "bill_id", "billIssuer": "bill_issuer", "productName": "product_nm", "memberName": "member_nm",
	"phone": "phone", "message": "message", "expireDt": "expire_dt", "price": "price", "hash": "hash",
	"callbackUrl": "callbackURL",
}

// encode returns the path and body of the call. It adds the hash unless the call has one.
func (q testCall) encode() (path, body string) {
	bill := map[string]any{}
	for name, v := range q.bill {
		if _, out := v.(omitted); !out {
			bill[name] = v
		}
	}
	price, _ := bill["price"].(string)
	if number, ok := bill["price"].(json.RawMessage); ok {
		price = string(number)
	}
	if _, set := q.bill["hash"]; !set && q.bill["price"] != nil {
		phone, _ := bill["phone"].(string)
		id, _ := bill["billId"].(string)
		bill["hash"] = sign(id, phone, price)
	}
	root := map[string]any{"member": q.member, "merchant": q.merchant}
	if q.form == "v2" {
		if price != "" {
			bill["price"] = json.RawMessage(price)
		}
		root["apiKey"], root["bill"] = q.key, bill
		return map[string]string{"create": "/bill"}[q.op] + map[bool]string{false: "/bill/" + q.op}[q.op == "create"], encode(root)
	}
	spelled := map[string]any{}
	for name, v := range bill {
		if legacyName[name] != "" {
			spelled[legacyName[name]] = v
		}
	}
	root["apikey"] = q.key
	if q.op == "create" {
		root["bill"] = spelled
		return "/if/bill/send", encode(root)
	}
	maps.Copy(root, spelled)
	return "/if/bill/" + q.op, encode(root)
}

// at makes the call without a socket, and returns the reply. Its bill does not expire.
func (q testCall) at(s http.Handler) string {
	path, body := q.with("expireDt", omitted{}).encode()
	reply := httptest.NewRecorder()
	s.ServeHTTP(reply, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return reply.Body.String()
}

// changedBy returns the call with changes, as in price=99; member="". "no price" omits a field, "hashed TEXT" has the hash
// of another text, and "HASHED TEXT" has it in capitals.
func (q testCall) changedBy(t *testing.T, changes string) testCall {
	t.Helper()
	for change := range strings.SplitSeq(changes, "; ") {
		if name, ok := strings.CutPrefix(change, "no "); ok {
			q = q.with(name, omitted{})
			continue
		}
		if how, text, ok := strings.Cut(change, " "); ok && strings.EqualFold(how, "hashed") {
			hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
			if how == "HASHED" {
				hash = strings.ToUpper(hash)
			}
			q = q.with("hash", hash)
			continue
		}
		name, raw, ok := strings.Cut(change, "=")
		if !ok {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		if _, text := v.(string); !text {
			v = json.RawMessage(raw)
		}
		q = q.with(name, v)
	}
	return q
}

// sign computes the hash, independently of package sandbox.
func sign(id, phone, price string) string {
	text := id + "," + phone + "," + price
	if phone == "" {
		text = id + "," + price
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

func (r *rig) ctl(method, path, body string) (int, string) {
	r.t.Helper()
	return send(r.t, method, r.control+path, body)
}

// runControl makes requests to the control API, one a line: method, path and body, and after > the status and a part of
// the answer. {bill} is the bill of newCall.
func (r *rig) runControl(requests string) {
	r.t.Helper()
	for line := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(requests, "{bill}", billID))) {
		request, answer, _ := strings.Cut(strings.TrimSpace(line), " > ")
		words := append(strings.SplitN(request, " ", 3), "")
		want, part, _ := strings.Cut(answer, " ")
		status, body := r.ctl(words[0], words[1], words[2])
		if fmt.Sprint(status) != want || !strings.Contains(body, part) {
			r.t.Errorf("%s: got %d %s, want %s", request, status, body, answer)
		}
	}
}

// log returns the exchanges of an operation.
func (r *rig) log(operation string) []sandbox.Exchange {
	return slices.DeleteFunc(r.Exchanges(), func(x sandbox.Exchange) bool { return x.Operation != operation })
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	proxytest.Eventually(t, done, nil)
}

// createInState creates a bill and changes it to a state.
func (r *rig) createInState(state string) {
	r.t.Helper()
	r.must(newCall("v2", "create"))
	switch state {
	case "F", "C":
		must(r.t, r.Pay(demoKey, billID))
		if state == "C" {
			r.must(newCall("v2", "cancel"))
		}
	case "D":
		r.must(newCall("v2", "destroy"))
	}
	if got := r.state(); got != state {
		r.t.Fatalf("the bill is in state %s, not %s", got, state)
	}
}

func (r *rig) state() string {
	r.t.Helper()
	b, err := r.Bill(demoKey, billID)
	must(r.t, err)
	return b.State
}

// dataOf returns the data of a v2 reply.
func dataOf(t *testing.T, reply json.RawMessage) json.RawMessage {
	t.Helper()
	var envelope struct{ Data json.RawMessage }
	must(t, json.Unmarshal(reply, &envelope))
	return envelope.Data
}

var (
	must, works  = proxytest.Must, proxytest.Works
	has, lacks   = proxytest.Has, proxytest.Lacks
	gives, fails = proxytest.Gives, proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
