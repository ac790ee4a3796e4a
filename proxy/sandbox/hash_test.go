package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

func TestHashValues(t *testing.T) {
	t.Parallel()
	if got := sandbox.Hash(billID, "01012345678", "30000"); got != createHash {
		t.Error(got)
	}
	if got := sandbox.Hash(billID, "", "30000"); got != endHash {
		t.Error(got)
	}
}

// The hash rule of both forms. A hash of a similar text is refused and changes nothing.
func TestWrongHashIsRefused(t *testing.T) {
	t.Parallel()
	raw := func(s string) any { return json.RawMessage(s) }
	const phone = "01012345678"
	huge := strings.Repeat("9007199254740993", 2) // a float cannot represent it
	rows := []struct {
		name, op string
		price    any
		phone    any
		hash     string
		want     string
		only     string
	}{
		{"phone set", "create", raw(`"30000"`), phone, sign(billID, phone, "30000"), "0000", ""},
		{"phone set, left out of the text", "create", raw(`"30000"`), phone, sign(billID, "", "30000"), "VALIDATION_002", ""},
		{"phone not set", "create", raw(`"30000"`), omitted{}, sign(billID, "", "30000"), "0000", ""},
		{"phone empty", "create", raw(`"30000"`), "", sign(billID, "", "30000"), "0000", ""},
		{"phone null", "create", raw(`"30000"`), raw("null"), sign(billID, "", "30000"), "0000", ""},
		{"phone as sent", "create", raw(`"30000"`), "010-1234-5678", sign(billID, "010-1234-5678", "30000"), "0000", ""},
		{"phone without its hyphens", "create", raw(`"30000"`), "010-1234-5678", sign(billID, phone, "30000"), "VALIDATION_002", ""},
		{"upper case", "create", raw(`"30000"`), phone, strings.ToUpper(sign(billID, phone, "30000")), "VALIDATION_002", ""},
		{"another price", "create", raw(`"30000"`), phone, sign(billID, phone, "30001"), "VALIDATION_002", ""},
		{"another id", "create", raw(`"30000"`), phone, sign("X", phone, "30000"), "VALIDATION_002", ""},
		{"spaces in the text", "create", raw(`"30000"`), omitted{}, sign(billID, "", " 30000"), "VALIDATION_002", ""},
		{"leading zero as sent", "create", raw(`"030000"`), omitted{}, sign(billID, "", "030000"), "0000", ""},
		{"leading zero printed again", "create", raw(`"030000"`), omitted{}, sign(billID, "", "30000"), "VALIDATION_002", ""},
		{"huge price", "create", raw(`"` + huge + `"`), omitted{}, sign(billID, "", huge), "0000", ""},
		{"huge price as a number", "create", raw(huge), omitted{}, sign(billID, "", huge), "0000", "v2"},
		{"number", "create", raw("30000"), phone, sign(billID, phone, "30000"), "0000", "v2"},
		{"destroy", "destroy", raw(`"30000"`), omitted{}, sign(billID, "", "30000"), "0000", ""},
		{"destroy with a number", "destroy", raw("30000"), omitted{}, sign(billID, "", "30000"), "0000", "v2"},
		{"destroy with the phone text", "destroy", raw(`"30000"`), omitted{}, sign(billID, phone, "30000"), "VALIDATION_002", ""},
		{"destroy that carries a phone", "destroy", raw(`"30000"`), phone, sign(billID, "", "30000"), "0000", ""},
		{"destroy with a leading zero", "destroy", raw(`"030000"`), omitted{}, sign(billID, "", "030000"), "0000", ""},
		{"cancel", "cancel", raw(`"30000"`), omitted{}, sign(billID, "", "30000"), "0000", ""},
		{"cancel with the phone text", "cancel", raw(`"30000"`), omitted{}, sign(billID, phone, "30000"), "VALIDATION_002", ""},
	}
	for _, row := range rows {
		for _, form := range forms {
			if row.only != "" && row.only != form {
				continue
			}
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				switch row.op {
				case "destroy":
					r.createInState("W")
				case "cancel":
					r.createInState("F")
				}
				before := encode(r.Bills())
				code, body := r.do(newCall(form, row.op).with("price", row.price).with("phone", row.phone).with("hash", row.hash))
				if code != row.want {
					t.Errorf("got %s, want %s", body, row.want)
				}
				if code != "0000" && encode(r.Bills()) != before {
					t.Error("a refused hash changed the store")
				}
			})
		}
	}
}
