package translate_test

import (
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// What the gateway asks of itself is what a partner would ask, and crosses as that would.
func TestCompose(t *testing.T) {
	t.Parallel()
	said := billing.Identity{Partner: `a "key"`, Member: "member", Merchant: "가게", Bill: "A1"}
	for _, row := range []struct {
		operation string
		form      translate.Form
		said      billing.Identity
		want      string
	}{
		{"bill.read", "v2", said, `{"apiKey":"a \"key\"","member":"member","merchant":"가게","bill":{"billId":"A1"}}`},
		{"bill.read", "legacy", said, `{"apikey":"a \"key\"","member":"member","merchant":"가게","bill_id":"A1"}`},
		{"bill.read", "v2", billing.Identity{Partner: "k"}, `{"apiKey":"k"}`},
		{"bill.read", "legacy", billing.Identity{}, `{}`},
	} {
		o := shipped().Operation(row.operation)
		composed, err := o.Compose([]byte("…"), row.form, row.said.Values())
		if string(composed) != "…"+row.want || err != nil {
			t.Errorf("%s in %s: got %s, %v, want %s", row.operation, row.form, composed, err, row.want)
		}
		for _, to := range forms {
			call := o.Translation(row.form, to).Start()
			out, err := call.Request(nil, []byte(row.want))
			if err != nil {
				t.Errorf("%s to %s: %v", row.want, to, err)
				continue
			}
			member, merchant := call.Value("member"), call.Value("merchant")
			if got := (billing.Identity{Partner: call.Value("partner"), Member: member, Merchant: merchant, Bill: call.Value("bill")}); got != row.said {
				t.Errorf("it says %+v, want %+v", got, row.said.Values())
			}
			if want, err := o.Compose(nil, to, row.said.Values()); string(out) != string(want) || err != nil {
				t.Errorf("%s crosses to %s as %s, want %s, %v", row.want, to, out, want, err)
			}
			call.Release()
		}
	}
}

// An operation that one form lacks cannot be composed, which is an error and no panic.
func TestComposeOfOneForm(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		operation string
		form      translate.Form
		want      string
	}{
		{"merchant.list", "v2", "merchant.list cannot be composed in v2: both forms must have the operation"},
		{"merchant.list", "legacy", "merchant.list cannot be composed in legacy: both forms must have the operation"},
		{"bill.read", "third", "bill.read cannot be composed in third: both forms must have the operation"},
	} {
		out, err := shipped().Operation(row.operation).Compose(nil, row.form, map[string]string{"partner": "k"})
		if err == nil || err.Error() != row.want || out != nil {
			t.Errorf("got %s, %v, want %s", out, err, row.want)
		}
	}
}

// The gateway reads bills by the operation that shows their state, whatever other reads of a bill an overlay adds.
func TestReader(t *testing.T) {
	t.Parallel()
	const (
		none  = "the table has no operation that reads a bill; it needs one with effect: read and a path in both forms, with role: partner and role: bill in the request and role: state in the reply"
		check = `{new: true, v2: /bill/check, legacy: /if/bill/check, effect: read, ` +
			`request: [{v2: apiKey, legacy: apikey, role: partner}, {v2: bill.billId, legacy: bill_id, role: bill}], reply: [{v2: billId, legacy: bill_id}`
	)
	for name, row := range map[string]struct{ overlay, want, err string }{
		"the table":             {"", "bill.read", ""},
		"one more without":      {"operations: {bill.check: " + check + "]}}", "bill.read", ""},
		"one more of one form":  {"operations: {bill.check: {new: true, v2: /bill/check, effect: read, request: [{v2: apiKey, role: partner}, {v2: billId, role: bill}], reply: [{v2: apprState, role: state}]}}", "bill.read", ""},
		"one more with state":   {"operations: {bill.check: " + check + ", {v2: apprState, legacy: appr_state, role: state}]}}", "", "the table has several operations that read a bill, bill.read and bill.check; remove role: state from the reply of all but one"},
		"a write with state":    {"operations: {bill.cancel: {reply: [{v2: apprState, legacy: appr_state, role: state, new: true}]}}", "bill.read", ""},
		"no state":              {"operations: {bill.read: {reply: [{v2: apprState, remove: true}]}}", "", none},
		"no bill":               {"operations: {bill.read: {request: [{v2: bill.billId, legacy: bill_id, role: expiry}]}}", "", none},
		"no partner":            {"operations: {bill.read: {request: [{v2: apiKey, legacy: apikey, role: expiry}]}}", "", none},
		"the other one instead": {"operations: {bill.read: {reply: [{v2: apprState, legacy: appr_state, role: amount}]}, bill.check: " + check + ", {v2: apprState, legacy: appr_state, role: state}]}}", "bill.check", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, err := translate.Compile(32, billing.Table(), translate.File{Name: "overlay.yaml", Data: []byte(row.overlay)})
			if err != nil {
				t.Fatal(err)
			}
			reader, err := billing.ReadOperation(table)
			if row.err != "" {
				if err == nil || err.Error() != row.err || reader != nil {
					t.Errorf("got %v, %v, want %s", reader, err, row.err)
				}
				return
			}
			if err != nil || reader.Name != row.want {
				t.Errorf("got %v, %v, want %s", reader, err, row.want)
			}
		})
	}
}
