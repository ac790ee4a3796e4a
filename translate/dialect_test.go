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

// text returns a message or its refusal.
func text(m translate.Rewritten, refusal *translate.Refusal) string {
	if refusal != nil {
		return "REFUSED " + refusal.Error()
	}
	return string(m.Body)
}

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
	request := func(doc string) string {
		out, refusal := d.Request("bill.create", []byte(doc))
		return text(out, refusal)
	}
	received := func(name string) func(string) string {
		return func(doc string) string {
			out, refusal := d.Received(name, []byte(doc))
			return text(out, refusal)
		}
	}
	reply, callback := received("bill.read"), received("callback.payment")
	for name, c := range map[string]struct {
		by       func(string) string
		in, want string // or a part of the error
	}{
		"names":                       {request, `{"bill":{"billId":"1","price":10.50,"x":[1]},"y":1e2}`, `{"bill":{"amounts":{"total":10.50},"x":[1]},"invoice":"1","y":1e2}`},
		"dates":                       {request, `{"bill":{"expireDt":"20260131"}}`, `{"bill":{"until":"2026-01-31"}}`},
		"no date":                     {request, `{"bill":{"expireDt":"31.1."}}`, "expireDt"},
		"values":                      {request, `{"bill":{"productName":"A"}}`, `{"bill":{"productName":"B"}}`},
		"value of its own":            {request, `{"bill":{"productName":"D"}}`, `{"bill":{"productName":"D"}}`},
		"value taken":                 {request, `{"bill":{"productName":"B"}}`, "without a counterpart"},
		"name taken":                  {request, `{"bill":{"billId":"1"},"invoice":"2"}`, "another field of this name"},
		"name taken, in another case": {request, `{"bill":{"price":1,"amounts":{"Total":1}}}`, "another field of this name"},
		"name taken, at the top":      {request, `{"bill":{"billId":"1"},"Invoice":"2"}`, "another field of this name"},
		"escaped value":               {request, `{"bill":{"productName":"\u0042"}}`, "without a counterpart"},
		"code of another type":        {reply, `{"code":17}`, `{"code":17}`},
		"no date in a reply":          {reply, `{"code":"0000","data":{"state":{"at":"yesterday"}}}`, "state.at"},
		"an empty date":               {reply, `{"code":"0000","data":{"state":{"at":""}}}`, `{"code":"0000","data":{"apprDt":""}}`},
		"the number for no date":      {reply, `{"code":"0000","data":{"state":{"at":0}}}`, `{"code":"0000","data":{"apprDt":0}}`},
		"no digits but a number":      {reply, `{"code":"0000","data":{"state":{"at":20260131100000}}}`, "state.at"},
		"null":                        {request, `{"bill":null}`, "want an object"},
		"empty object":                {request, `{"bill":{}}`, `{"bill":{}}`},
		"not JSON":                    {request, `{"bill":`, `{"bill":`},
		"reply":                       {reply, `{"code":"0000","message":"ok","data":{"invoice":"1","state":{"now":"PAID","at":"2026-01-31T10:00:00+09:00","by":"x"},"apprPrice":10}}`, `{"code":"0000","data":{"billId":"1","apprState":"F","apprDt":20260131100000,"state":{"by":"x"},"apprPrice":10},"message":"ok"}`},
		"failure":                     {reply, `{"code":"NO_BILL","message":"none","data":null}`, `{"code":"BILL_003","message":"none","data":null}`},
		"another failure":             {reply, `{"code":"BILL_009","message":"none"}`, `{"code":"BILL_009","message":"none"}`},
		"code of the table":           {reply, `{"code":"BILL_003","message":"none"}`, "code: has a value"},
		"state of the table": {
			reply, `{"code":"0000","data":{"state":{"now":"F"}}}`, "without a counterpart",
		},
		"state without a pair": {reply, `{"code":"0000","data":{"state":{"now":"C"}}}`, `{"code":"0000","data":{"apprState":"C"}}`},
		"name of the table":    {reply, `{"code":"0000","data":{"invoice":"1","billId":"internal"}}`, `{"code":"0000","data":{"billId":"1"}}`},
		"bill of the table":    {reply, `{"code":"0000","data":{"billId":"OTHER"}}`, "data.invoice: is missing, and the reply has a field with its name in v2"},
		"state under its name": {reply, `{"code":"0000","data":{"invoice":"1","apprState":"F"}}`, "data.state.now: is missing"},
		"time of the table":    {reply, `{"code":"0000","data":{"invoice":"1","apprDt":"2"}}`, `{"code":"0000","data":{"billId":"1"}}`},
		"name of the envelope": {reply, `{"code":"0000","data":{"code":"1","invoice":"1"}}`, `{"code":"0000","data":{"billId":"1","code":"1"}}`},
		"callback":             {callback, `{"billId":"1","state":"PAID"}`, `{"apprState":"F","billId":"1"}`},
		"callback, taken":      {callback, `{"billId":"1","state":"F"}`, "without a counterpart"},
		"unreadable callback":  {callback, `billId=1`, `billId=1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.by(c.in)
			if refused := strings.HasPrefix(got, "REFUSED "); canonical(got) != canonical(c.want) && (!refused || !strings.Contains(got, c.want)) {
				t.Errorf("%s\nbecame %s\nwant   %s", c.in, got, c.want)
			}
		})
	}
	var none *translate.Dialect
	if d.Path("bill.create") != "/invoices" || d.Path("bill.read") != "/bill/read" || none.Path("bill.create")+none.Version() != "" ||
		d.Version() == dialect(t, "v2", "operations: {bill.read: {own: /see}}").Version() || !d.HasCode("17") || d.HasCode("BILL_009") {
		t.Error(d.Path("bill.create"), d.Path("bill.read"), d.Version())
	}
}

// An upstream of legacy answers reads without an envelope, and forms can have a flag and a code in an object.
func TestDialectOfEachForm(t *testing.T) {
	t.Parallel()
	d := dialect(t, "legacy", `
codes: [{legacy: BILL_003, own: "9980"}]
operations: {bill.read: {reply: [{legacy: bill_id, own: no}, {legacy: appr_state, own: st, values: [{legacy: F, own: P}]},
  {legacy: appr_dt, own: at, pattern: {legacy: YYYYMMDD, own: YYYY-MM-DD}}]}}`)
	for in, want := range map[string]string{
		`{"no":"1","st":"P","x":0}`:    `{"bill_id":"1","appr_state":"F","x":0}`,
		`{"code":"9980","msg":"none"}`: `{"code":"BILL_003","msg":"none"}`,
		`{"at":"2026-01-31"}`:          `{"appr_dt":"20260131"}`,
		`{"at":"0"}`:                   `{"appr_dt":"0"}`,
	} {
		if got := text(d.Received("bill.read", []byte(in))); canonical(got) != canonical(want) {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	courier, err := os.ReadFile("examples/courier.yaml")
	must(t, err)
	flat, err := compiled(t, string(courier)).Dialect("v2", translate.File{Name: "odd.yaml", Data: []byte(`
callbacks: {label.state: {request: [{v2: data.reference, own: ref}, {v2: data.labelNumber, own: label},
  {v2: data.state, own: state}, {v2: data.stateTime, own: at}]}}`)})
	must(t, err)
	if got := text(flat.Received("label.state", []byte(`{"apiKey":"K1","data":{"reference":"OTHER"}}`))); !strings.Contains(got, "ref: is missing, and") {
		t.Errorf("the whole object has the names of the table: %s", got)
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

// The overlay in README.md does what its text says.
func TestReadmeShowsADialect(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	must(t, err)
	_, shown, _ := strings.Cut(string(data), "```yaml\n# overlay of an upstream")
	shown, _, _ = strings.Cut(shown, "```")
	d := dialect(t, "v2", "#"+shown)
	out := text(d.Received("bill.read", []byte(`{"code":"0000","data":{"status":"PAID","approvedAt":"2026-01-31T10:00:00+09:00"}}`)))
	if want := `{"code":"0000","data":{"apprDt":20260131100000,"apprState":"F"}}`; canonical(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
	for _, doc := range []string{`{"code":"0000","data":{"status":"F"}}`, `{"code":"BILL_003"}`} {
		if out := text(d.Received("bill.read", []byte(doc))); !strings.HasPrefix(out, "REFUSED") {
			t.Errorf("%s became %s", doc, out)
		}
	}
}

func TestBadDialects(t *testing.T) {
	t.Parallel()
	for overlay, want := range map[string]string{
		"forms: {}": "no key forms",
		"operations: {bill.create: {effect: read}}":                                                                                                      "no key effect",
		"operations: {bill.crate: {own: /x}}":                                                                                                            "did you mean bill.create",
		"operations: {bill.create: {request: [{v2: bill.prise, own: x}]}}":                                                                               "no path bill.prise in v2; did you mean bill.price",
		`operations: {bill.create: {request: [{own: key, default: everybody}]}}`:                                                                         "",
		`operations: {bill.create: {request: [{v2: apiKey, own: key, values: [{v2: a, own: b}]}]}}`:                                                      "not allowed with role: partner",
		`operations: {bill.create: {request: [{v2: bill.price, own: x, shift: {own: 2}}]}}`:                                                              "shift",
		`operations: {bill.read: {reply: [{v2: apprPrice, own: x, absent: {own: "0"}}]}}`:                                                                "cannot have absent",
		`operations: {bill.read: {reply: [{v2: apprState, own: x, values: [{v2: PAYED, own: PAID}]}]}}`:                                                  `the table has no value "PAYED"`,
		`operations: {bill.read: {reply: [{v2: apprState, own: x, values: [{v2: F, own: null}]}]}}`:                                                      "cannot have null",
		`operations: {bill.read: {reply: [{v2: apprOriginDt, own: x, pattern: {v2: YYYYMMDD, own: DD/MM/YYYY}, values: [{v2: 20000101, own: never}]}]}}`: "values: 20000101 of v2 is also a value without a pair",
		`codes: [{v2: BIL_003, own: A}]`:                                                                                                                 `the table has no code "BIL_003"`,
		"operations: {callback.payment: {request: []}}":                                                                                                  "no operation callback.payment",
		"callbacks: {callback.payment: {own: /x}}":                                                                                                       "no key own",
		"callbacks: {bill.read: {}}":                                                                                                                     "no callback bill.read",
		"operations: {mapping.list: {reply: []}}":                                                                                                        "no key reply",
		"operations: {bill.create: {request: [{v2: bill.price, own: x, role: amount}]}}":                                                                 "role",
		"operations: {bill.create: {request: [{v2: bill.price, own: x, required: true}]}}":                                                               "cannot have required",
		"operations: {bill.create: {request: [{v2: bill.price}]}}":                                                                                       "loss",
		"operations: {bill.create: {request: [{v2: bill.price, own: x}, {v2: bill.hash, own: x}]}}":                                                      "already has the path",
		"operations: {bill.read: {reply: [{v2: apprState, own: s, values: [{v2: F, own: P}, {v2: W, own: P}]}]}}":                                        "several pairs",
		"codes: [{v2: A, own: X}, {v2: B, own: X}]":                                                                                                      "several pairs",
		`codes: [{v2: A, own: "0000"}]`:                                                                                                                  "code of a success",
		"callbacks: {callback.payment: {request: [{v2: apprStat, own: x}]}}":                                                                             "no path apprStat",
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
	if out := text(d.Request("order.add", []byte(in))); canonical(out) != canonical(want) {
		t.Errorf("became %s\nwant   %s", out, want)
	}
	many := `{"recipients":[` + strings.Repeat(`{},`, 10_000) + `{}]}`
	reply := `{"data":{"positions":[` + strings.Repeat(`{},`, 10_000) + `{}]}}`
	if out := text(d.Received("order.add", []byte(reply))); !strings.HasPrefix(out, "REFUSED") {
		t.Errorf("became %.99s", out)
	}
	for in, want := range map[string]string{
		`{"order":{"lines":[{"item":{"size":"small"}}]}}`: "order.lines[0].item.size: has a value without a counterpart in own",
		many: "more than 10000 items",
	} {
		if out := text(d.Request("order.add", []byte(in))); !strings.Contains(out, want) {
			t.Errorf("%.99s became %.99s, want %s", in, out, want)
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
		sent, refusal := d.Request(operation, doc)
		if refusal != nil {
			return
		}
		out := sent.Body
		back, err := d.Back(operation, out)
		if err != nil {
			t.Fatalf("%s became %s, which is refused: %v", doc, out, err)
		}
		if !bytes.Equal(translate.Canonical(nil, back), translate.Canonical(nil, doc)) {
			t.Fatalf("%s became %s, and that %s", doc, out, back)
		}
	})
}

// What the backend writes in the place of an object of the table must not lose the other fields of a request.
func TestDialectLosesNoField(t *testing.T) {
	t.Parallel()
	for overlay, doc := range map[string]string{
		"[{new: order.no, own: order}]":                                                    `{"order":{"no":"1","tax":5}}`,
		"[{new: recipients, own: recipients, each: [{new: phone, own: phone.n}]}]":         `{"recipients":[{"phone":"1","phone.n":"2","x":{"n":1}}]}`,
		"[{new: order.lines, own: order.lines, each: [{new: item.size, own: item}]}]":      `{"order":{"lines":[{"item":{"size":"S","name":"x"}}]}}`,
		"[{new: order.lines, own: order.lines, each: [{new: item.size, own: item.Name}]}]": `{"order":{"lines":[{"item":{"size":"S","name":"x"}}]}}`,
	} {
		d, err := orderTable(t).Dialect("new", translate.File{Name: "odd.yaml", Data: []byte("operations: {order.add: {request: " + overlay + "}}")})
		must(t, err)
		out := text(d.Request("order.add", []byte(doc)))
		if refused := strings.Contains(out, "another field of this name"); refused == strings.Contains(overlay, "phone.n") {
			t.Errorf("%s: %s became %s", overlay, doc, out)
		}
	}
}

// A form whose codes are numbers has codes in its overlays, too.
func TestDialectWithNumbersAsCodes(t *testing.T) {
	t.Parallel()
	base, err := os.ReadFile("examples/messages.yaml")
	must(t, err)
	table := compiled(t, string(base))
	d, err := table.Dialect("classic", translate.File{Name: "odd.yaml", Data: []byte("codes: [{classic: 204, own: 7}]")})
	must(t, err)
	for _, o := range table.Operations() {
		code := table.ShowsSuccess("classic")
		for in, want := range map[string]string{`{"rspCode":7}`: `{"rspCode":204}`, `{"rspCode":"7"}`: `{"rspCode":"7"}`, `{"rspCode":204}`: "REFUSED"} {
			if out := text(d.Received(o.Name, []byte(in))); !strings.HasPrefix(out, want) {
				t.Errorf("%s %s: %s became %s, want %s", o.Name, code, in, out, want)
			}
		}
	}
}
