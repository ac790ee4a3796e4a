package proxy_test

import (
	_ "embed"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/sandbox"

	"pgregory.net/rapid"
)

// texts are values that a partner may write into a text field.
var texts = []string{
	`"3월 수강료"`, `"a"`, `""`, "null", "", `"\"<&>'\\ \/ 😀"`, `"\ud83d\ude00 \u0041\n\t\u0000"`, `"` + strings.Repeat("긴 글 ", 200) + `"`,
	`"{\"price\":1}"`, `"전화 10.0.0.1:8080"`,
}

// unusualValues are values that the document does not allow, or that the two forms treat differently. "bare" is the
// price of the bill as a number.
type unusualValues struct {
	ops, fields string
	raws        []string
}

var unusual = unusualRows(unusualText)

//go:embed testdata/unusual.txt
var unusualText string

func unusualRows(table string) (all []unusualValues) {
	for _, row := range rows(table) {
		all = append(all, unusualValues{row[0], row[1], raws(row[2])})
	}
	return all
}

// raws returns the values of a cell, nil for none.
func raws(cell string) []string {
	if cell == "" {
		return nil
	}
	words := strings.NewReplacer("NONE", "", "LONG", strings.Repeat("k", 33), "WIDE", strings.Repeat("가", 61), "BYTE", "\xff")
	return strings.Split(words.Replace(cell), " · ")
}

// unusualFields yields the unusual values of an operation with their fields.
func unusualFields(op string) iter.Seq2[string, string] {
	return func(yield func(field, raw string) bool) {
		for _, o := range unusual {
			for field := range strings.FieldsSeq(o.fields) {
				for _, raw := range o.raws {
					if appliesTo(o.ops, op) && !yield(field, raw) {
						return
					}
				}
			}
		}
	}
}

// Every operation is called with every unusual value, between all forms. Each declared difference must occur.
func TestUnusualValues(t *testing.T) {
	t.Parallel()
	var occurred sync.Map
	t.Cleanup(func() {
		for _, d := range differences {
			if _, did := occurred.Load(d.why); !did {
				t.Errorf("no call has this declared difference: %s", d.why)
			}
		}
	})
	eachPair(t, func(t *testing.T, client, upstream string) {
		newLockstep := newComparisons(t, client, upstream)
		for _, op := range operations {
			for field, raw := range unusualFields(op) {
				l := newLockstep()
				for _, s := range []*sandbox.Service{l.direct, l.behindGateway} {
					prepareBill(t, s, stateBefore[op], demoBill)
				}
				l.wantCalls = l.upstreamCalls()
				difference := l.differenceFor(op, field, raw)
				occurred.Store(difference.why, true)
				l.compareCall(t, usualCall(op).withUnusual(field, raw), difference)
				l.compareBills(t)
				l.close()
				if t.Failed() {
					t.Fatalf("%s with %s: %s", op, field, raw)
				}
			}
		}
	})
}

// usualCall returns a call without unusual values.
func usualCall(op string) rawCall {
	c := v2(op)
	q := rawCall{op, map[string]string{"apiKey": encode(c.key), "member": encode(c.member), "merchant": encode(c.merchant)}}
	for name, v := range c.bill {
		q.fields[name] = encode(v)
	}
	return q.signed()
}

// A difference is a declared one between a call through the gateway and the same call to the service itself.
type difference struct {
	why         string
	ops         string // empty: all
	from, to    string // forms of caller and upstream; empty: any two that differ
	field       string // one or more, v2 names
	raws        []string
	code        string // the gateway refuses with this code and sends nothing
	gatewayOnly bool   // the service itself accepts the value
	drops       bool   // the direct call must leave the field out
}

// differences are all that are declared for calls: intake checks, also between equal forms (design, Rules of
// translation), shapes, digits, and fields that legacy does not have.
var differences = differenceRows(differencesText)

//go:embed testdata/differences.txt
var differencesText string

func differenceRows(table string) (all []difference) {
	for _, row := range rows(table) {
		c := append(row, "")
		all = append(all, difference{c[0], c[1], c[2], c[3], c[4], raws(c[5]), c[6], c[7] == "gateway", c[7] == "drops"})
	}
	return all
}

// differenceFor returns the declared difference for a value in a call.
func (l *comparison) differenceFor(op, field, raw string) difference {
	for _, d := range differences {
		pair := d.from == "any" || l.client != l.upstream && (d.from == "" || d.from == l.client)
		if pair && appliesTo(d.ops, op) && containsWord(d.field, field) && (d.raws == nil || slices.Contains(d.raws, raw)) {
			d.field = field
			return d
		}
	}
	return difference{}
}

// appliesTo reports whether a list of operations has one; any and an empty list have each.
func appliesTo(ops, op string) bool { return ops == "" || ops == "any" || containsWord(ops, op) }

func containsWord(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// readDifferences are the declared differences of reads, by the form of the caller: the value that the service itself
// shows ("unpaid" for a bill that was never paid), and the value that the gateway shows instead.
var readDifferences = map[string]map[string]map[string]any{
	"legacy": {
		// No public document pairs the words of legacy with the numbers of v2, or the classes of a cash receipt with
		// words.
		"appr_pay_type":    {"unpaid": "", "SIMPLE_PAY": "0", "CARD_VAN": "1", "KEYIN": "2", "OFFLINE_CARD": "3", "OFFLINE_CASH": "4"},
		"appr_cash_trader": {"0": "PERSONAL", "1": "BUSINESS"},
	},
	"v2": {
		"apprPayType":    {"unpaid": nil, "0": "SIMPLE_PAY", "1": "CARD_VAN", "2": "KEYIN", "3": "OFFLINE_CARD", "4": "OFFLINE_CASH"},
		"apprCashTrader": {"PERSONAL": "0", "BUSINESS": "1"},
	},
}

// applyReadDifferences changes the reply of the service itself into the expected reply of the gateway.
func applyReadDifferences(client string, show map[string]any) {
	state := show[inForm(client, "apprState", "appr_state")]
	for field, pairs := range readDifferences[client] {
		value := fmt.Sprint(show[field])
		if _, known := pairs["unpaid"]; known && (state == "W" || state == "D") {
			value = "unpaid"
		}
		if paired, known := pairs[value]; known {
			show[field] = paired
		}
	}
	if client == "v2" {
		for _, field := range v2Only { // legacy does not have them
			delete(show, field)
		}
	}
}

// removeStoredDifferences removes what the two services may store differently: the form of the create, and the fields
// that the table drops.
func removeStoredDifferences(client string, b *sandbox.Bill) {
	b.Form = ""
	if client != "v2" {
		return
	}
	b.PageRedirectURL = ""
	if b.Cancel != nil {
		cancel := *b.Cancel
		cancel.Reason = ""
		b.Cancel = &cancel
	}
}

// v2Only are the fields of a v2 read that a legacy upstream does not have.
var v2Only = []string{"apprCardMerchantNum", "dscTxNum", "cardType", "apprSign", "udItem"}

// result returns an answer as one flat map: for v2 the fields of data together with code and message.
func result(t rapid.TB, form, body string) map[string]any {
	t.Helper()
	m := fields(t, body)
	if form == "v2" {
		data, _ := m["data"].(map[string]any)
		delete(m, "data")
		maps.Copy(m, data)
	}
	return m
}
