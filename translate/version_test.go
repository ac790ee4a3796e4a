package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
)

// Whatever changes a message of an operation, or what it says, changes its version: what was counted before does not count.
// An overlay without effect, or with one on another operation, does not.
func TestVersionOfAnOperation(t *testing.T) {
	t.Parallel()
	in := func(operation, message, row string) string {
		return fmt.Sprintf("operations: {%s: {%s: [%s]}}", operation, message, row)
	}
	const create, read, resend = "bill.create", "bill.read", "bill.resend"
	for name, row := range map[string]struct {
		overlay string
		changed string // the operations with another version, of these three
	}{
		"a comment":               {"# nothing", ""},
		"descriptions":            {"fields: {billId: {about: another}}\nroles: {bill: {about: another}}\nnoun: {en: invoice}", ""},
		"the same row":            {in(read, "reply", "{means: {D: destroyed, C: cancelled, F: paid, W: unpaid}, about: the state, legacy: appr_state, v2: apprState}"), ""},
		"no read to explain":      {"operations: {bill.create: {explain: false}}", ""},
		"a callback":              {"callbacks: {callback.payment: {request: [{v2: apprIssuer, remove: true}]}}", ""},
		"an operation":            {"operations: {points: {new: true, v2: /points, effect: read, request: [], reply: []}}", ""},
		"a path":                  {in(read, "reply", "{v2: billId, legacy: invoice, new: true}"), read},
		"a bound":                 {in(create, "request", "{v2: bill.price, legacy: bill.price, min: 200}"), create},
		"values":                  {in(read, "reply", "{v2: apprCashTrader, legacy: appr_cash_trader, values: [{v2: PERSONAL, legacy: '0'}]}"), read},
		"a pair, as a number":     {in(read, "reply", "{v2: apprCashTrader, legacy: appr_cash_trader, values: [{v2: PERSONAL, legacy: 0}]}"), read},
		"means":                   {in(read, "reply", "{v2: apprState, legacy: appr_state, means: {N: unpaid, W: unpaid, F: paid, C: cancelled, D: destroyed}}"), read},
		"no role":                 {in(read, "reply", "{v2: apprPrice, legacy: appr_price, role: null}"), read},
		"common rows":             {"common: {identity: [{v2: member, legacy: member, max: 59}]}", "bill.create bill.read bill.resend"},
		"the order of rows":       {in(read, "reply", "{v2: billId, remove: true}, {v2: billId, legacy: bill_id, must_equal_request: bill.billId, new: true}"), read},
		"what a role says":        {"roles: {state: {final: [destroyed]}}", read},
		"the hash":                {"operations: {bill.create: {hash: {of: [bill.billId, bill.price]}}}", create},
		"how hashes are made":     {"hash: {join: '|'}", create},
		"a path of the call":      {"operations: {bill.resend: {legacy: /if/resend}}", resend},
		"what is created":         {"operations: {bill.create: {creates: merchant}}", create},
		"rows that are exchanged": {in(create, "reply", "{v2: member, legacy: merchant, replaces: v2}, {v2: merchant, legacy: member, replaces: v2}"), create},
		"a code":                  {"catalogue: [{code: BILL_011, means: exists}]", "bill.create bill.read bill.resend"},
		"what a code means":       {"catalogue: [{code: '9999', form: legacy, means: exists}]", "bill.create bill.read bill.resend"},
		"a pair of codes":         {"codes: [{v2: BILL_003, legacy: '9980'}]", "bill.create bill.read bill.resend"},
		"the code of a success":   {"success: {code: {v2: '0000', legacy: '00'}}", "bill.create bill.read bill.resend"},
		"the envelope":            {"forms: {legacy: {text: message}}", "bill.create bill.read bill.resend"},
		"what stands for nothing": {"forms: {v2: {unused: omit}}", "bill.create bill.read bill.resend"},
		"statuses":                {"forms: {v2: {status: {404: BILL_003}}}", "bill.create bill.read bill.resend"},
		"other fields":            {"unknown: {reply: {v2: pass}}", "bill.create bill.read bill.resend"},
		"who checks the bounds":   {"bounds: enforce", "bill.create bill.read bill.resend"},
		"the code of a refusal":   {"invalid: BILL_007", "bill.create bill.read bill.resend"},
		"the codes of our own":    {"failures: {no_upstream: ERROR}", "bill.create bill.read bill.resend"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, shipped := overlaid(t, row.overlay), shipped()
			var changed []string
			for _, o := range []string{create, read, resend} {
				if table.Operation(o).Version() != shipped.Operation(o).Version() {
					changed = append(changed, o)
				}
			}
			equal(t, strings.Join(changed, " "), row.changed)
		})
	}
}

// The version is that of what the table says, in whatever way it is written: as the printed table, too.
func TestVersionsOfThePrintedTable(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "operations: {bill.create: {hash: {of: [bill.billId, bill.price]}}}")
	text, err := table.YAML()
	must(t, err)
	printed, err := translate.Compile(32, translate.File{Name: "printed.yaml", Data: text})
	must(t, err)
	for _, o := range table.Operations() {
		equal(t, printed.Operation(o.Name).Version(), o.Version(), o.Name)
	}
}

// Of several statuses with one code the first is written, so their order is no order of keys.
func TestVersionHasTheOrderOfStatuses(t *testing.T) {
	t.Parallel()
	one := overlaid(t, "forms: {v2: {status: {404: BILL_003, 410: BILL_003}}}").Operation("bill.read").Version()
	if one == overlaid(t, "forms: {v2: {status: {410: BILL_003, 404: BILL_003}}}").Operation("bill.read").Version() {
		t.Error("another first status has the same version")
	}
}

// Rows of lists count as other rows do, without their descriptions.
func TestVersionWithLists(t *testing.T) {
	t.Parallel()
	const overlay = "operations: {order.add: {request: [%s]}}"
	version := func(row string) string {
		return orderTable(t, fmt.Sprintf(overlay, row)).Operation("order.add").Version()
	}
	same := orderTable(t).Operation("order.add").Version()
	equal(t, version("{old: nums, new: numbers, about: numbers}"), same)
	if version("{old: nums, new: numbers, as: null}") == same {
		t.Error("a changed list has the same version")
	}
}

// The overlay of an upstream has a version of its own, which is that of what it says.
func TestVersionOfTheOverlayOfAnUpstream(t *testing.T) {
	t.Parallel()
	version := func(overlay string) string { return dialect(t, "v2", overlay).Version() }
	const path, row = "{own: /see, ", "reply: [{v2: billId, own: id"
	same := version("operations: {bill.read: " + path + row + "}]}}")
	for overlay, changes := range map[string]bool{
		"# no change\noperations:\n  bill.read:\n    reply: [{own: id, v2: billId, about: the bill}]\n    own: /see\n": false,
		"operations: {bill.read: " + path + row + "x}]}}":                                                              true,
		"operations: {bill.read: {own: /seen, " + row + "}]}}":                                                         true,
		"codes: [{v2: BILL_003, own: '17'}]\noperations: {bill.read: " + path + row + "}]}}":                           true,
		"operations: {bill.read: " + path + row + ", values: [{v2: A, own: B}]}]}}":                                    true,
	} {
		if (version(overlay) != same) != changes {
			t.Errorf("%s: changed: %t", overlay, !changes)
		}
	}
}
