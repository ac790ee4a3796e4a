package translate_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"billbridge/translate"
)

// odd is how an upstream of v2 writes its form.
const odd = `
codes: [{v2: BILL_003, own: NO_BILL}, {v2: BILL_001, own: "17"}]
operations:
  bill.create:
    own: /invoices
    request:
      - {v2: bill.price, own: bill.amounts.total}
      - {v2: bill.billId, own: invoice}
      - {v2: bill.expireDt, own: bill.until, pattern: {v2: YYYYMMDD, own: YYYY-MM-DD}}
      - {v2: bill.productName, own: bill.productName, values: [{v2: A, own: B}, {v2: C, own: A}]}
  bill.read:
    reply:
      - {v2: billId, own: invoice}
      - {v2: apprState, own: state.now, values: [{v2: F, own: PAID}, {v2: W, own: OPEN}]}
      - {v2: apprDt, own: state.at, pattern: {v2: YYYYMMDDhhmmss, own: "YYYY-MM-DDThh:mm:ss+09:00"}}
callbacks:
  callback.payment:
    request:
      - {v2: apprState, own: state, values: [{v2: F, own: PAID}]}
`

func dialect(t testing.TB, form translate.Form, overlay string) *translate.Dialect {
	t.Helper()
	d, err := shipped().Dialect(form, translate.File{Name: "odd.yaml", Data: []byte(overlay)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDialect(t *testing.T) {
	t.Parallel()
	d := dialect(t, "v2", odd)
	request := func(doc string) (string, error) {
		out, _, err := d.Request("bill.create", []byte(doc))
		return string(out), err
	}
	reply := func(doc string) (string, error) {
		out, _, err := d.Reply("bill.read", []byte(doc))
		return string(out), err
	}
	callback := func(doc string) (string, error) {
		out, _, err := d.Callback("callback.payment", []byte(doc))
		return string(out), err
	}
	for name, c := range map[string]struct {
		by       func(string) (string, error)
		in, want string // or a part of the error
	}{
		"names":             {request, `{"bill":{"billId":"1","price":10.50,"x":[1]},"y":1e2}`, `{"bill":{"amounts":{"total":10.50},"x":[1]},"invoice":"1","y":1e2}`},
		"dates":             {request, `{"bill":{"expireDt":"20260131"}}`, `{"bill":{"until":"2026-01-31"}}`},
		"no date":           {request, `{"bill":{"expireDt":"31.1."}}`, "expireDt"},
		"values":            {request, `{"bill":{"productName":"A"}}`, `{"bill":{"productName":"B"}}`},
		"value of its own":  {request, `{"bill":{"productName":"D"}}`, `{"bill":{"productName":"D"}}`},
		"value taken":       {request, `{"bill":{"productName":"B"}}`, "without a counterpart"},
		"name taken":        {request, `{"bill":{"billId":"1"},"invoice":"2"}`, "another field of this name"},
		"null":              {request, `{"bill":null}`, "want an object"},
		"empty object":      {request, `{"bill":{}}`, `{"bill":{}}`},
		"not JSON":          {request, `{"bill":`, "not JSON"},
		"reply":             {reply, `{"code":"0000","message":"ok","data":{"invoice":"1","state":{"now":"PAID","at":"2026-01-31T10:00:00+09:00","by":"x"},"apprPrice":10}}`, `{"code":"0000","data":{"billId":"1","apprState":"F","apprDt":"20260131100000","state":{"by":"x"},"apprPrice":10},"message":"ok"}`},
		"failure":           {reply, `{"code":"NO_BILL","message":"none","data":null}`, `{"code":"BILL_003","message":"none","data":null}`},
		"another failure":   {reply, `{"code":"BILL_009","message":"none"}`, `{"code":"BILL_009","message":"none"}`},
		"code of the table": {reply, `{"code":"BILL_003","message":"none"}`, "code has a value"},
		"state of the table": {
			reply, `{"code":"0000","data":{"state":{"now":"F"}}}`, "without a counterpart",
		},
		"state without a pair": {reply, `{"code":"0000","data":{"state":{"now":"C"}}}`, `{"code":"0000","data":{"apprState":"C"}}`},
		"name of the table":    {reply, `{"code":"0000","data":{"invoice":"1","billId":"internal"}}`, `{"code":"0000","data":{"billId":"1"}}`},
		"callback":             {callback, `{"billId":"1","state":"PAID"}`, `{"apprState":"F","billId":"1"}`},
		"callback, taken":      {callback, `{"billId":"1","state":"F"}`, "without a counterpart"},
		"unreadable callback":  {callback, `billId=1`, `billId=1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.by(c.in)
			if err != nil {
				got = err.Error()
			}
			if canonical(got) != canonical(c.want) && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("%s\nbecame %s\nwant   %s", c.in, got, c.want)
			}
		})
	}
	unusable, _ := errors.AsType[*translate.UnusableReply](second(reply(`{"code":"BILL_003"}`)))
	refused, _ := errors.AsType[*translate.Refusal](second(request(`{"bill":{"productName":"B"}}`)))
	if unusable == nil || refused == nil || refused.Code == "" {
		t.Error(unusable, refused)
	}
	if d.Path("bill.create") != "/invoices" || d.Path("bill.read") != "/bill/read" || d.Version("bill.destroy") == "" ||
		dialect(t, "v2", "operations: {bill.read: {own: /see}}").Version("bill.destroy") != "" {
		t.Error(d.Path("bill.create"), d.Path("bill.read"), d.Version("bill.destroy"))
	}
}

// An upstream of legacy answers reads without an envelope, and forms can have a flag and a code in an object.
func TestDialectOfEachForm(t *testing.T) {
	t.Parallel()
	d := dialect(t, "legacy", `
codes: [{legacy: BILL_003, own: "9980"}]
operations: {bill.read: {reply: [{legacy: bill_id, own: no}, {legacy: appr_state, own: st, values: [{legacy: F, own: P}]}]}}`)
	for in, want := range map[string]string{
		`{"no":"1","st":"P","x":0}`:    `{"bill_id":"1","appr_state":"F","x":0}`,
		`{"code":"9980","msg":"none"}`: `{"code":"BILL_003","msg":"none"}`,
	} {
		if got, _, err := d.Reply("bill.read", []byte(in)); err != nil || canonical(string(got)) != canonical(want) {
			t.Errorf("%s became %s, %v, want %s", in, got, err, want)
		}
	}
	for _, name := range []string{"courier.yaml", "messages.yaml"} {
		base, err := os.ReadFile("examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		table := compiled(t, string(base))
		for _, f := range table.Forms() {
			if _, err := table.Dialect(f, translate.File{Name: "odd.yaml", Data: []byte("operations: {}")}); err != nil {
				t.Errorf("%s, %s: %v", name, f, err)
			}
		}
	}
}

func canonical(doc string) string { return string(translate.Canonical(nil, []byte(doc))) }

func second(_ string, err error) error { return err }

// The overlay in README.md does what its text says.
func TestReadmeShowsADialect(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	must(t, err)
	_, shown, _ := strings.Cut(string(data), "```yaml\n# overlay of an upstream")
	shown, _, _ = strings.Cut(shown, "```")
	d := dialect(t, "v2", "#"+shown)
	out, _, err := d.Reply("bill.read", []byte(`{"code":"0000","data":{"status":"PAID","approvedAt":"2026-01-31T10:00:00+09:00"}}`))
	if want := `{"code":"0000","data":{"apprDt":"20260131100000","apprState":"F"}}`; err != nil || canonical(string(out)) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
	for _, doc := range []string{`{"code":"0000","data":{"status":"F"}}`, `{"code":"BILL_003"}`} {
		if out, _, err := d.Reply("bill.read", []byte(doc)); err == nil {
			t.Errorf("%s became %s", doc, out)
		}
	}
}

func TestBadDialects(t *testing.T) {
	t.Parallel()
	for overlay, want := range map[string]string{
		"forms: {}": "cannot have forms here",
		"operations: {bill.create: {effect: read}}":                                                               "cannot have effect here",
		"operations: {bill.crate: {own: /x}}":                                                                     "did you mean bill.create",
		"operations: {bill.create: {request: [{v2: bill.prise, own: x}]}}":                                        "no path bill.prise in v2; did you mean bill.price",
		"operations: {bill.create: {request: [{v2: bill.price, own: x, role: amount}]}}":                          "role",
		"operations: {bill.create: {request: [{v2: bill.price, own: x, required: true}]}}":                        "cannot have required",
		"operations: {bill.create: {request: [{v2: bill.price}]}}":                                                "loss",
		"operations: {bill.create: {request: [{v2: bill.price, own: x}, {v2: bill.hash, own: x}]}}":               "already has the path",
		"operations: {bill.read: {reply: [{v2: apprState, own: s, values: [{v2: F, own: P}, {v2: W, own: P}]}]}}": "several pairs",
		"codes: [{v2: A, own: X}, {v2: B, own: X}]":                                                               "several pairs",
		`codes: [{v2: A, own: "0000"}]`:                                                                           "code of a success",
		"callbacks: {callback.payment: {request: [{v2: apprStat, own: x}]}}":                                      "no path apprStat",
	} {
		_, err := shipped().Dialect("v2", translate.File{Name: "odd.yaml", Data: []byte(overlay)})
		problems, _ := errors.AsType[translate.Problems](err)
		if problems == nil || !strings.Contains(err.Error(), want) || problems[0].File != "odd.yaml" {
			t.Errorf("%s: %v, want %s", overlay, err, want)
		}
	}
}

// oddOrders is how an upstream of form new writes the lists of orders.
const oddOrders = `
operations:
  order.add:
    request:
      - new: order.lines
        own: positions
        each:
          - {new: item.size, own: size, values: [{new: S, own: small}, {new: L, own: large}]}
          - {new: parts, own: parts, each: [{new: count, own: pieces}]}
      - {new: recipients, own: phones, each: [{new: phone, own: number}]}
    reply:
      - {new: lines, own: positions, each: [{new: number, own: nr}]}`

func TestDialectOfLists(t *testing.T) {
	t.Parallel()
	d := dialectOfOrders(t)
	const in = `{"order":{"no":"1","lines":[{"item":{"size":"S","name":"x"},"parts":[{"count":2},{"count":1e1}],"y":null},{"item":{"size":"XL"}}]},"recipients":[]}`
	const want = `{"order":{"no":"1"},"phones":[],"positions":[{"item":{"name":"x"},"parts":[{"pieces":2},{"pieces":1e1}],"size":"small","y":null},{"size":"XL"}]}`
	if out, _, err := d.Request("order.add", []byte(in)); err != nil || canonical(string(out)) != canonical(want) {
		t.Errorf("became %s, %v\nwant   %s", out, err, want)
	}
	many := `{"recipients":[` + strings.Repeat(`{},`, 10_000) + `{}]}`
	reply := `{"data":{"positions":[` + strings.Repeat(`{},`, 10_000) + `{}]}}`
	if out, _, err := d.Reply("order.add", []byte(reply)); err == nil {
		t.Errorf("became %.99s", out)
	}
	for in, want := range map[string]string{
		`{"order":{"lines":[{"item":{"size":"small"}}]}}`: "order.lines[0].item.size: has a value without a counterpart in own",
		many: "more than 10000 items",
	} {
		if out, _, err := d.Request("order.add", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.99s became %.99s, %v, want %s", in, out, err, want)
		}
	}
}

func dialectOfOrders(t testing.TB) *translate.Dialect {
	d, err := orderTable(t).Dialect("new", translate.File{Name: "odd.yaml", Data: []byte(oddOrders)})
	must(t, err)
	return d
}

// FuzzDialect checks that a request comes back from the form of an upstream as it was, or is refused.
func FuzzDialect(f *testing.F) {
	seeds(f, func(_, _ uint8, doc, _ []byte) { f.Add(doc) })
	f.Add([]byte(`{"order":{"no":"1","lines":[{"item":{"size":"S","name":"x"},"parts":[{"count":2}],"y":null}]},"recipients":[{}]}`))
	bills, orders := dialect(f, "v2", odd), dialectOfOrders(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, operation := bills, "bill.create"
		if bytes.Contains(doc, []byte("order")) {
			d, operation = orders, "order.add"
		}
		out, _, err := d.Request(operation, doc)
		if err != nil {
			return
		}
		back, err := d.Back(operation, out)
		if err != nil {
			t.Fatalf("%s became %s, which is refused: %v", doc, out, err)
		}
		if !bytes.Equal(translate.Canonical(nil, back), translate.Canonical(nil, doc)) {
			t.Fatalf("%s became %s, and that %s", doc, out, back)
		}
	})
}
