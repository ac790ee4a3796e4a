package sandbox_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

func TestHashValues(t *testing.T) {
	t.Parallel()
	equal(t, sandbox.Hash(billID, "01012345678", "30000"), createHash)
	equal(t, sandbox.Hash(billID, "", "30000"), endHash)
}

// hashRows are the rows of TestWrongHashIsRefused: a name, the operation, which may have a form, the price and the phone as
// JSON, the text whose hash the call has, and the code.
const hashRows = `
phone set | create | "30000" | "01012345678" | 1234567890ABCDEFGHIJ,01012345678,30000 | 0000
phone set, left out of the text | create | "30000" | "01012345678" | 1234567890ABCDEFGHIJ,30000 | VALIDATION_002
phone not set | create | "30000" | | 1234567890ABCDEFGHIJ,30000 | 0000
phone empty | create | "30000" | "" | 1234567890ABCDEFGHIJ,30000 | 0000
phone null | create | "30000" | null | 1234567890ABCDEFGHIJ,30000 | 0000
phone as sent | create | "30000" | "010-1234-5678" | 1234567890ABCDEFGHIJ,010-1234-5678,30000 | 0000
phone without its hyphens | create | "30000" | "010-1234-5678" | 1234567890ABCDEFGHIJ,01012345678,30000 | VALIDATION_002
upper case | create | "30000" | "01012345678" | 1234567890ABCDEFGHIJ,01012345678,30000 in capitals | VALIDATION_002
another price | create | "30000" | "01012345678" | 1234567890ABCDEFGHIJ,01012345678,30001 | VALIDATION_002
another id | create | "30000" | "01012345678" | X,01012345678,30000 | VALIDATION_002
spaces in the text | create | "30000" | | 1234567890ABCDEFGHIJ, 30000 | VALIDATION_002
leading zero as sent | create | "030000" | | 1234567890ABCDEFGHIJ,030000 | 0000
leading zero printed again | create | "030000" | | 1234567890ABCDEFGHIJ,30000 | VALIDATION_002
huge price | create | "9007199254740993000001" | | 1234567890ABCDEFGHIJ,9007199254740993000001 | 0000
huge price as a number | create v2 | 9007199254740993000001 | | 1234567890ABCDEFGHIJ,9007199254740993000001 | 0000
number | create v2 | 30000 | "01012345678" | 1234567890ABCDEFGHIJ,01012345678,30000 | 0000
destroy | destroy | "30000" | | 1234567890ABCDEFGHIJ,30000 | 0000
destroy with a number | destroy v2 | 30000 | | 1234567890ABCDEFGHIJ,30000 | 0000
destroy with the phone text | destroy | "30000" | | 1234567890ABCDEFGHIJ,01012345678,30000 | VALIDATION_002
destroy that carries a phone | destroy | "30000" | "01012345678" | 1234567890ABCDEFGHIJ,30000 | 0000
destroy with a leading zero | destroy | "030000" | | 1234567890ABCDEFGHIJ,030000 | 0000
cancel | cancel | "30000" | | 1234567890ABCDEFGHIJ,30000 | 0000
cancel with the phone text | cancel | "30000" | | 1234567890ABCDEFGHIJ,01012345678,30000 | VALIDATION_002
`

// The hash rule of both forms. A hash of a similar text is refused and changes nothing.
func TestWrongHashIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOf(hashRows) {
		op, only, _ := strings.Cut(row[1], " ")
		for _, form := range forms {
			if only != "" && only != form {
				continue
			}
			t.Run(form+"/"+row[0], func(t *testing.T) {
				t.Parallel()
				r := start(t)
				switch op {
				case "destroy":
					r.createInState("W")
				case "cancel":
					r.createInState("F")
				}
				text, capitals := strings.CutSuffix(row[4], " in capitals")
				hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
				if capitals {
					hash = strings.ToUpper(hash)
				}
				q := newCall(form, op).with("phone", omitted{}).with("price", json.RawMessage(row[2])).with("hash", hash)
				if row[3] != "" {
					q = q.changed(t, "phone="+row[3])
				}
				before := encode(r.Bills())
				code, body := r.do(q)
				equal(t, code, row[5], body)
				if code != "0000" && encode(r.Bills()) != before {
					t.Error("a refused hash changed the store")
				}
			})
		}
	}
}
