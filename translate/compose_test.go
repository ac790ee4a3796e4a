package translate_test

import (
	"testing"

	"billbridge/translate"
)

// What the gateway asks of itself is what a partner would ask, and crosses as that would.
func TestCompose(t *testing.T) {
	t.Parallel()
	said := translate.Said{Partner: `a "key"`, Member: "member", Merchant: "가게", Bill: "A1"}
	for _, row := range []struct {
		operation string
		form      translate.Form
		said      translate.Said
		want      string
	}{
		{"bill.read", "v2", said, `{"apiKey":"a \"key\"","member":"member","merchant":"가게","bill":{"billId":"A1"}}`},
		{"bill.read", "legacy", said, `{"apikey":"a \"key\"","member":"member","merchant":"가게","bill_id":"A1"}`},
		{"bill.read", "v2", translate.Said{Partner: "k"}, `{"apiKey":"k"}`},
		{"bill.read", "legacy", translate.Said{}, `{}`},
	} {
		o := billing().Operation(row.operation)
		composed := string(o.Compose([]byte("…"), row.form, row.said))
		if composed != "…"+row.want {
			t.Errorf("%s in %s: got %s, want %s", row.operation, row.form, composed, row.want)
		}
		for _, to := range forms {
			call := o.Crossing(row.form, to).Start()
			out, err := call.Request(nil, []byte(row.want))
			if err != nil {
				t.Errorf("%s to %s: %v", row.want, to, err)
				continue
			}
			member, merchant := call.Store()
			if got := (translate.Said{Partner: call.Partner(), Member: member, Merchant: merchant, Bill: call.Bill()}); got != row.said {
				t.Errorf("it says %+v, want %+v", got, row.said)
			}
			if want := string(o.Compose(nil, to, row.said)); string(out) != want {
				t.Errorf("%s crosses to %s as %s, want %s", row.want, to, out, want)
			}
			call.Release()
		}
	}
}
