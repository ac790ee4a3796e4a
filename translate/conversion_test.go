package translate_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// Decimals of any size are moved exactly: the number in the other form is the same number, and comes back.
func TestShiftIsExact(t *testing.T) {
	t.Parallel()
	o := tableOf(t, "values").Operation("put")
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?`).Draw(t, "number")
		for _, field := range []struct {
			from, to, in, out string
			scale             int64
		}{{"old", "new", "rate", "percent", 100}, {"old", "new", "price", "price", 1}, {"old", "new", "grams", "kilos", -1000}} {
			out, err := o.Translation("old", "new").Start().Request(nil, []byte(`{"`+field.in+`":"`+number+`"}`))
			if err != nil {
				if field.in != "grams" || !strings.ContainsAny(number, "-.") {
					t.Fatalf("%s: %v", number, err)
				}
				continue
			}
			moved := strings.TrimSuffix(strings.TrimPrefix(string(out), `{"`+field.out+`":`), "}")
			was, ok := new(big.Rat).SetString(number)
			is, ok2 := new(big.Rat).SetString(moved)
			if !ok || !ok2 {
				t.Fatalf("%s became %s", number, out)
			}
			if field.scale > 0 {
				was.Mul(was, big.NewRat(field.scale, 1))
			} else {
				was.Quo(was, big.NewRat(-field.scale, 1))
			}
			if was.Cmp(is) != 0 {
				t.Fatalf("%s became %s", number, moved)
			}
			back, err := o.Translation("new", "old").Start().Request(nil, out)
			var again string
			if _, scan := fmt.Sscanf(string(back), `{"`+field.in+`":%q`, &again); err != nil || scan != nil {
				t.Fatalf("%s came back as %s, %v %v", number, back, err, scan)
			}
			before, _ := new(big.Rat).SetString(number)
			after, _ := new(big.Rat).SetString(again)
			if before.Cmp(after) != 0 || field.scale == 1 && number != again {
				t.Fatalf("%s came back as %s", number, again)
			}
		}
	})
}

// missing and other are words of the table only without quotes, also in a table that was written.
func TestWordsInQuotesAreTexts(t *testing.T) {
	t.Parallel()
	table := written(t, overlaid(t, `operations: {bill.read: {reply: {apprCashTrader: {values: [{v2: "missing", legacy: "other"}]}}}}`))
	call := table.Operation("bill.read").Translation("legacy", "v2").Start()
	out, err := call.Reply(nil, 200, []byte(`{"code":"0000","data":{"apprCashTrader":"missing"}}`))
	must(t, err)
	equal(t, gjson.GetBytes(out, "appr_cash_trader").String(), "other", string(out))
}
