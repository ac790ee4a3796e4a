package billing_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// The gateway reads bills by the operation whose reply has the state, even if an overlay adds other reads of a bill.
func TestReadOperation(t *testing.T) {
	t.Parallel()
	const (
		none     = "the table has no operation that reads a bill; it needs one with effect: read and a path in both forms, with role: partner and role: bill in the request and role: state in the reply"
		noMethod = "apprPayType: {no_value_while: null}" // the state decides it
		check    = `+bill.check: {v2: /bill/check, legacy: /if/bill/check, effect: read, ` +
			`request: {apiKey: {legacy: apikey, role: partner}, bill.billId: {legacy: bill_id, role: bill}}, reply: {billId: bill_id`
		means = "role: state, means: {W: unpaid, F: paid, C: cancelled, D: destroyed}}"
		row   = "apprState: {legacy: appr_state, " + means
	)
	for name, row := range map[string]struct{ overlay, want, err string }{
		"the table":             {"", "bill.read", ""},
		"one more without":      {"operations: {" + check + "}}}", "bill.read", ""},
		"one more of one form":  {"operations: {+bill.check: {v2: /bill/check, effect: read, request: {apiKey: {role: partner}, billId: {role: bill}}, reply: {apprState: {" + means + "}}}", "bill.read", ""},
		"one more with state":   {"operations: {" + check + ", " + row + "}}}", "", "the table has several operations that read a bill, bill.read and bill.check; remove role: state from the reply of all but one"},
		"a write with state":    {"operations: {bill.cancel: {reply: {+" + row + "}}}", "bill.read", ""},
		"no state":              {"operations: {bill.read: {reply: {apprState: null, " + noMethod + "}}}", "", none},
		"no bill":               {"operations: {bill.read: {request: {bill.billId: {role: expiry}}}}", "", none},
		"another meaning":       {"{roles: {state: {moves: [unpaid to paid, paid to cancelled, unpaid to destroyed, unpaid to lost]}}, operations: {bill.read: {reply: {apprState: {means: {L: lost}}}}}}", "bill.read", ""},
		"nothing is done":       {"{roles: {state: {done: [cancelled]}}}", "", "role: state needs a meaning that is neither done nor final, and one that is done and not final, as in moves: [open to paid, paid to cancelled], done: [paid, cancelled]; it has unpaid, paid, cancelled, destroyed"},
		"no partner":            {"operations: {bill.read: {request: {apiKey: {role: expiry}}}}", "", none},
		"the other one instead": {"operations: {bill.read: {reply: {apprState: {role: null, means: null}, " + noMethod + "}}, " + check + ", " + row + "}}}", "bill.check", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, err := translate.Compile(32, billing.Table(), translate.File{Name: "overlay.yaml", Data: []byte(row.overlay)})
			if err != nil {
				t.Fatal(err)
			}
			read, err := billing.ReadOperation(table)
			if row.err != "" {
				if err == nil || err.Error() != row.err || read != nil {
					t.Errorf("got %v, %v, want %s", read, err, row.err)
				}
				return
			}
			if err != nil || read.Name != row.want {
				t.Errorf("got %v, %v, want %s", read, err, row.want)
			}
		})
	}
}

// What states say comes from the table.
func TestStates(t *testing.T) {
	t.Parallel()
	courier, err := os.ReadFile("../examples/courier.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		file  translate.File
		state map[string]string // by meaning: what it says, and the later ones
	}{
		{billing.Table(), map[string]string{
			"unpaid": "unpaid never-paid: unpaid paid cancelled destroyed", "paid": "paid: paid cancelled", "cancelled": "final: cancelled",
			"destroyed": "never-paid final: destroyed", "another": ": unpaid paid cancelled destroyed",
		}},
		{translate.File{Name: "courier.yaml", Data: courier}, map[string]string{
			"created": "unpaid never-paid: created moving cancelled delivered", "moving": "paid: moving cancelled delivered", "delivered": "final: delivered",
			"cancelled": "never-paid final: cancelled",
		}},
	} {
		table, err := translate.Compile(32, row.file)
		if err != nil {
			t.Fatal(err)
		}
		for meaning, want := range row.state {
			var says []string
			for i, is := range []bool{
				billing.Unpaid(table, meaning), billing.Paid(table, meaning), billing.NeverPaid(table, meaning), billing.Final(table, meaning),
			} {
				if is {
					says = append(says, []string{"unpaid", "paid", "never-paid", "final"}[i])
				}
			}
			if got := strings.Join(says, " ") + ": " + strings.Join(table.States(billing.State).After(meaning), " "); got != want {
				t.Errorf("%s: %s, want %s", meaning, got, want)
			}
		}
	}
}

// The id of a bill that is a JSON number counts in its one spelling only: else two spellings would be two bills. A text is
// what it is.
func TestIDHasOneSpelling(t *testing.T) {
	t.Parallel()
	table, err := translate.Compile(32, billing.Table())
	if err != nil {
		t.Fatal(err)
	}
	for id, refused := range map[string]bool{
		"123": false, `"123"`: false, `"123.0"`: false, `"0123"`: false, "0": false, "12345678901234567890": false,
		"123.0": true, "123e0": true, "1.23e2": true, "123E+0": true, "-1": true, "-0": true,
	} {
		for _, from := range table.Forms() {
			for _, to := range table.Forms() {
				for _, operation := range []string{"bill.read", "bill.cancel"} {
					path, request := map[translate.Form]string{"v2": "bill.billId", "legacy": "bill_id"}[from], `{"apikey":"k","member":"m","merchant":"s","bill_id":`+id+`}`
					if from == "v2" {
						request = `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":` + id + `}}`
					}
					_, err := table.Operation(operation).Translation(from, to).Start().Request(nil, []byte(request))
					refusal, _ := errors.AsType[*translate.Refusal](err)
					if got := refusal != nil && refusal.Code == "VALIDATION_001" && refusal.Field == path; got != refused {
						t.Errorf("%s of %s to %s, %s: %v, refused: want %v", operation, from, to, id, err, refused)
					}
				}
			}
		}
	}
}
