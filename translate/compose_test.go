package translate_test

import (
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A composed request is the one that a partner would send, and is translated like it.
func TestCompose(t *testing.T) {
	t.Parallel()
	identity := billing.Identity{Partner: `a "key"`, Member: "member", Merchant: "가게", Bill: "A1"}
	for _, row := range []struct {
		operation string
		form      translate.Form
		identity  billing.Identity
		want      string
	}{
		{"bill.read", "v2", identity, `{"apiKey":"a \"key\"","member":"member","merchant":"가게","bill":{"billId":"A1"}}`},
		{"bill.read", "legacy", identity, `{"apikey":"a \"key\"","member":"member","merchant":"가게","bill_id":"A1"}`},
		{"bill.read", "v2", billing.Identity{Partner: "k"}, `{"apiKey":"k"}`},
		{"bill.read", "legacy", billing.Identity{}, `{}`},
	} {
		o := shipped().Operation(row.operation)
		composed, err := o.Compose([]byte("…"), row.form, row.identity.Values())
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
			equal(t,
				(billing.Identity{Partner: call.Value("partner"), Member: member, Merchant: merchant, Bill: call.Value("bill")}), row.identity, row.identity.Values())
			if want, err := o.Compose(nil, to, row.identity.Values()); string(out) != string(want) || err != nil {
				t.Errorf("%s becomes %s in %s, want %s, %v", row.want, out, to, want, err)
			}
			call.Release()
		}
	}
}
