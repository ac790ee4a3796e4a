package proxy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Random calls are made to one service directly, and through the gateway to another one. Both services get the same
// events. After every call the codes, the fields of the answers and the stored bills must be equal, except for the
// differences in differences_test.go.
func TestCallsThroughTheGatewayEqualDirectCalls(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, upstream string) {
		newLockstep := newComparisons(t, client, upstream)
		rapid.Check(t, func(t *rapid.T) {
			l := newLockstep()
			defer l.close()
			t.Repeat(map[string]func(*rapid.T){"": func(t *rapid.T) { l.compareBills(t) }, "event": l.event})
			if a, b := partners(l.direct), partners(l.behindGateway); a != b {
				t.Fatalf("partners of the direct service are %s, of the one behind the gateway %s", a, b)
			}
		})
	})
}

// newComparisons starts a gateway and returns a function that puts a new service behind it, and another one beside it
// for direct calls.
func newComparisons(t *testing.T, client, upstream string) func() *comparison {
	var behind atomic.Pointer[sandbox.Service]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { behind.Load().ServeHTTP(w, r) }))
	gateway, err := proxy.New(proxytest.Config(t, oneUpstream(upstream, server.URL)), proxy.Options{})
	must(t, err)
	front, caller := httptest.NewServer(gateway), newClient(t, nil)
	t.Cleanup(func() { caller.CloseIdleConnections(); front.Close(); gateway.Close(); server.Close() })
	return func() *comparison {
		l := &comparison{client: client, upstream: upstream, url: front.URL, caller: caller, direct: newService(), behindGateway: newService()}
		behind.Store(l.behindGateway)
		for _, s := range []*sandbox.Service{l.direct, l.behindGateway} {
			_ = s.SetPoints("demo-nopoint-key", 2)
		}
		return l
	}
}

// A comparison is two services that must stay equal.
type comparison struct {
	client, upstream      string
	url                   string // of the gateway
	caller                *http.Client
	direct, behindGateway *sandbox.Service // called directly, and through the gateway
	wantCalls             int              // that the gateway must have made
}

func (l *comparison) close() {
	_ = l.direct.Close()
	_ = l.behindGateway.Close()
}

// event makes a call or changes both services. Earlier items of the list are drawn more often.
func (l *comparison) event(t *rapid.T) {
	switch what := rapid.SampledFrom([]string{"create", "pay", "read", "cancel", "resend", "destroy", "decline", "clock", "points"}).Draw(t, "event"); what {
	case "pay":
		at := l.pickBill(t, "W")
		p := rapid.SampledFrom([]sandbox.Payment{
			{},
			{Method: "KEYIN", Months: 3},
			{Method: "SIMPLE_PAY", CashReceipt: "personal", CashNumber: "01012345678"},
			{Method: "OFFLINE_CASH", CashReceipt: "business", CashNumber: "1234567890"},
			{Method: "OFFLINE_CARD", Months: 12},
			{Method: "OFFLINE_CASH"},
		}).Draw(t, "payment")
		l.applyToBoth(t, func(s *sandbox.Service) error {
			_, err := s.PayWith(at.key, at.text(), p)
			return err
		})
	case "decline":
		l.applyToBoth(t, func(s *sandbox.Service) error {
			return s.AddFault(sandbox.Fault{Operation: "payment", Code: "PAYMENT_001"})
		})
	case "clock":
		by := rapid.SampledFrom([]time.Duration{time.Second, 12 * time.Hour, 48 * time.Hour}).Draw(t, "by")
		l.applyToBoth(t, func(s *sandbox.Service) error { return s.SetClock(s.Now().Add(by)) })
	case "points":
		points := rapid.IntRange(0, 3).Draw(t, "points")
		l.applyToBoth(t, func(s *sandbox.Service) error { return s.SetPoints("demo-nopoint-key", points) })
	default:
		q, difference := l.drawCall(t, what)
		codes := []string{"", "", "PAYMENT_002", "PAYMENT_004", "BILL_004", "MAINTAINED_METHOD"}
		if code := rapid.SampledFrom(codes).Draw(t, "refused with"); code != "" && what == "cancel" && difference.code == "" {
			l.applyToBoth(t, func(s *sandbox.Service) error {
				return s.AddFault(sandbox.Fault{Operation: "bill.cancel", Code: code})
			})
		}
		l.compareCall(t, q, difference)
	}
}

func (l *comparison) applyToBoth(t *rapid.T, do func(*sandbox.Service) error) {
	if a, b := fmt.Sprint(do(l.direct)), fmt.Sprint(do(l.behindGateway)); a != b {
		t.Fatalf("the direct service returns %s, the other %s", a, b)
	}
}

// compareCall makes one call to both services and compares the answers.
func (l *comparison) compareCall(t rapid.TB, q rawCall, difference difference) {
	t.Logf("%s %s", q.path(l.client), q.body(l.client))
	got, err := doRequest(l.caller, http.MethodPost, l.url+q.path(l.client), q.body(l.client))
	must(t, err)
	code := codeOf(t, l.client, got.body)
	if difference.code != "" { // refused by the gateway
		if got.status != http.StatusBadRequest || code != difference.code {
			t.Fatalf("HTTP %d with %s, want 400 with %s: %s", got.status, code, difference.code, got.body)
		}
		if difference.gatewayOnly {
			return
		}
		if direct := codeOf(t, l.client, q.direct(l)); direct != code {
			t.Fatalf("the gateway refuses with %s, the service itself with %s", code, direct)
		}
		return
	}
	if q.op != "read" {
		l.wantCalls++
	}
	if got.status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", got.status, got.body)
	}
	if difference.drops {
		q = q.with(difference.field, "")
	}
	direct := q.direct(l)
	if want := codeOf(t, l.client, direct); code != want {
		t.Fatalf("%s through the gateway, %s from the service itself: %s", code, want, direct)
	}
	want := result(t, l.client, direct)
	if code != "0000" {
		// The text of a refusal names the invalid field by its name in the form of the upstream.
		name := inForm(l.client, "message", "msg")
		text, _, _ := strings.Cut(fields(t, got.body)[name].(string), " (")
		if direct, _, _ := strings.Cut(want[name].(string), " ("); text != direct {
			t.Fatalf("the text of %s is %q, want %q", code, text, direct)
		}
		return
	}
	if l.client != l.upstream && q.op == "read" {
		applyReadDifferences(l.client, want)
	}
	if diff := cmp.Diff(want, result(t, l.client, got.body)); diff != "" {
		t.Fatalf("%s (-the service itself, +through the gateway):\n%s", q.op, diff)
	}
}

// compareBills compares the bills of the two services, and the number of calls that the gateway has made.
func (l *comparison) compareBills(t rapid.TB) {
	a, b := l.direct.Bills(), l.behindGateway.Bills()
	for _, all := range [][]sandbox.Bill{a, b} {
		for i := range all {
			if l.client != l.upstream {
				removeStoredDifferences(l.client, &all[i])
			}
		}
	}
	if !reflect.DeepEqual(a, b) { // cheaper than a diff, after every step
		t.Fatalf("the bills differ (-direct, +behind the gateway):\n%s", cmp.Diff(a, b))
	}
	if got := l.upstreamCalls(); got != l.wantCalls {
		t.Fatalf("the gateway has made %d calls, want %d", got, l.wantCalls)
	}
}

// upstreamCalls is the number of calls that the service behind the gateway got, without reads: those that are refused are
// sent a second time if their connection has carried another call.
func (l *comparison) upstreamCalls() (all int) {
	for operation, n := range l.behindGateway.Calls() {
		if operation != "bill.read" {
			all += n
		}
	}
	return all
}

// partners returns the partners of a service with their points, as its control API shows them.
func partners(s *sandbox.Service) string {
	w := httptest.NewRecorder()
	s.Control().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/partners", nil))
	return w.Body.String()
}

// A billRef names a bill, which may not exist. Its id is raw JSON.
type billRef struct{ key, id string }

func (p billRef) text() string { return unquoted(p.id) }

var billRefs = []billRef{
	{demoKey, `"1234567890ABCDEFGHIJ"`},
	{demoKey, `"청구서7"`},
	{"demo-nopoint-key", `"A\u0042C"`},
	{"demo-nopoint-key", `"1234567890ABCDEFGHIJ"`},
}

// pickBill usually picks a bill in this state, or for "" one that does not exist.
func (l *comparison) pickBill(t *rapid.T, state string) billRef {
	var fit, rest []billRef
	for _, p := range billRefs {
		if b, err := l.direct.Bill(p.key, p.text()); err == nil && b.State == state || err != nil && state == "" {
			fit = append(fit, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(fit) == 0 || len(rest) > 0 && rapid.IntRange(0, 7).Draw(t, "elsewhere") == 7 {
		fit = rest
	}
	return rapid.SampledFrom(fit).Draw(t, "bill")
}

// A rawCall is a call whose fields, by their v2 names, are raw JSON; "" leaves a field out. The field bill replaces
// the whole object, body the whole request.
type rawCall struct {
	op     string
	fields map[string]string
}

func (q rawCall) path(form string) string { return call{form: form, op: q.op}.path() }

// body returns the JSON of the call in a form. A name that the form does not have stays as it is.
func (q rawCall) body(form string) string {
	if broken := q.fields["body"]; broken != "" {
		return broken
	}
	var top, inner []string
	for name, raw := range q.fields {
		spelled := name
		if form == "legacy" && name == "apiKey" {
			spelled = "apikey"
		} else if form == "legacy" && legacyNames[name] != "" {
			spelled = legacyNames[name]
		}
		switch {
		case raw == "":
		case slices.Contains([]string{"apiKey", "member", "merchant", "bill"}, name):
			top = append(top, `"`+spelled+`": `+raw)
		default:
			inner = append(inner, `"`+spelled+`": `+raw)
		}
	}
	_, replaced := q.fields["bill"]
	switch nested := form == "v2" || q.op == "create"; {
	case nested && !replaced:
		slices.Sort(inner)
		top = append(top, `"bill": {`+strings.Join(inner, ", ")+`}`)
	case !nested:
		top = append(top, inner...)
	}
	slices.Sort(top)
	return "{" + strings.Join(top, ", ") + "}"
}

// direct makes the call to the service itself.
func (q rawCall) direct(l *comparison) string {
	w := httptest.NewRecorder()
	l.direct.ServeHTTP(w, httptest.NewRequest(http.MethodPost, q.path(l.client), strings.NewReader(q.body(l.client))))
	return w.Body.String()
}

// with returns the call with a changed field.
func (q rawCall) with(field, raw string) rawCall {
	q.fields = maps.Clone(q.fields)
	q.fields[field] = raw
	return q
}

// signed returns the call with its hash.
func (q rawCall) signed() rawCall {
	phone := ""
	if q.op == "create" {
		phone = unquoted(q.fields["phone"])
	}
	if q.fields["price"] == "" {
		return q
	}
	return q.with("hash", `"`+sandbox.Hash(unquoted(q.fields["billId"]), phone, unquoted(q.fields["price"]))+`"`)
}

// drawCall returns a random call with at most one unusual value, and the declared difference for it.
func (l *comparison) drawCall(t *rapid.T, op string) (rawCall, difference) {
	at := l.pickBill(t, stateBefore[op])
	q := rawCall{op, map[string]string{"apiKey": `"` + at.key + `"`, "member": `"데모 \"회원\""`, "merchant": `"demo-store"`, "billId": at.id}}
	one := func(name string, raws ...string) { q.fields[name] = rapid.SampledFrom(raws).Draw(t, name) }
	price := "30000"
	if known, err := l.direct.Bill(at.key, at.text()); err == nil {
		price = known.Price
	}
	switch op {
	case "create":
		for _, name := range []string{"billIssuer", "productName", "memberName", "message"} {
			one(name, texts...)
		}
		one("phone", `"01012345678"`, `"010-1234-5678"`, `"010\u002d1234-5678"`, `""`, "null", "")
		one("expireDt", `"2026-12-31"`, `"2026-11-21"`, `""`, "null", "")
		one("callbackUrl", `"https://partner.example.com/cb?a=1&b=2"`, `"https:\/\/partner.example.com\/cb"`, "")
		one("sendType", `"TALK"`)
		price = rapid.SampledFrom([]string{"30000", "20000", "123456789012345678901234567890", "20001", "30000", "19999", "99", "0"}).Draw(t, "price")
	case "cancel":
		one("cancelReason", "", `"고객 \"요청\""`)
	}
	if op != "resend" && op != "read" {
		if q.fields["price"] = `"` + price + `"`; l.client == "v2" && price == strings.TrimLeft(price, "0") && rapid.Bool().Draw(t, "price is a number") {
			q.fields["price"] = price
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "odd") < 4 {
		return q.signed(), difference{}
	}
	row := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(unusual), func(o unusualValues) bool { return !appliesTo(o.ops, op) })).Draw(t, "fields")
	field, raw := rapid.SampledFrom(strings.Fields(row.fields)).Draw(t, "field"), rapid.SampledFrom(row.raws).Draw(t, "value")
	return q.withUnusual(field, raw), l.differenceFor(op, field, raw)
}

// withUnusual returns the call with an unusual value, and with a hash over it.
func (q rawCall) withUnusual(field, raw string) rawCall {
	if raw == "bare" {
		for raw = unquoted(q.fields["price"]); len(raw) > 1 && raw[0] == '0'; raw = raw[1:] { // a stored 030000 is no number of JSON
		}
	}
	if field == "hash" {
		return q.signed().with(field, raw)
	}
	return q.with(field, raw).signed()
}

// unquoted returns the text of a JSON string, and any other value as it is.
func unquoted(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return raw
	}
	return text
}
