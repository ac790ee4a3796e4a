package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// HashText is the text that a bill's integrity value is built from
// ("Authentication", 3): `bill_id,phone,price` when phone is set, else
// `bill_id,price`. Only a create carries a phone. price is the digits as they
// are sent: a price that was printed again is another text.
func HashText(billID, phone, price string) string {
	if phone == "" {
		return billID + "," + price
	}
	return billID + "," + phone + "," + price
}

// Hash is the integrity value of both forms: the SHA-256 of HashText in
// lower-case hexadecimal. The document does not show the algorithm; this is
// what public integrations compute.
func Hash(billID, phone, price string) string {
	return sha256Hex(HashText(billID, phone, price))
}

// Signed is the integrity value of a request, and how it comes about.
type Signed struct {
	Text    string // what is hashed
	Hash    string
	Carried string // the hash that the request itself has; empty if it has none
}

// Sign computes the integrity value of a request of bill.create, bill.destroy or
// bill.cancel, form being "legacy" or "v2". The request may have none, or a wrong
// one. An error names the field that stands in the way.
func Sign(op, form string, request []byte) (Signed, error) {
	f := formV2
	if form == formLegacy.String() {
		f = formLegacy
	}
	root, ok := parseObject(request)
	if !ok {
		return Signed{}, errors.New("the request is no JSON object, or has a name twice")
	}
	c := decode(operation(op), f, root)
	need := func(name string) error {
		return fmt.Errorf("%s: the hash of %s in the %s form needs it", c.fieldPath(name), op, f)
	}
	switch {
	case c.op != opCreate && c.op != opDestroy && c.op != opCancel:
		return Signed{}, fmt.Errorf("%s carries no hash", op)
	case c.wrongType != "":
		return Signed{}, fmt.Errorf("%s: it is not of its documented type", c.wrongType)
	case c.billID == "":
		return Signed{}, need(c.names.billID)
	case c.price == "":
		return Signed{}, need(c.names.price)
	case !isDigits(c.price):
		return Signed{}, fmt.Errorf("%s: expected digits but got: %q", c.fieldPath(c.names.price), c.price)
	}
	return Signed{HashText(c.billID, c.phone, c.price), Hash(c.billID, c.phone, c.price), c.hash}, nil
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
