package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// HashText returns the text that is hashed ("Authentication", 3): `bill_id,phone,price`, or `bill_id,price` if phone is
// empty. Only a create has a phone. price must have the digits as sent.
func HashText(billID, phone, price string) string {
	if phone == "" {
		return billID + "," + price
	}
	return billID + "," + phone + "," + price
}

// Hash returns the hash of both forms: SHA-256 of HashText in lower-case hex. The document does not name the algorithm;
// public integrations use this one.
func Hash(billID, phone, price string) string {
	return sha256Hex(HashText(billID, phone, price))
}

// Signed has the hash of a request and the text that is hashed.
type Signed struct {
	Text    string // what is hashed
	Hash    string
	Carried string // the hash in the request; empty if it has none
}

// Sign computes the hash of a request of bill.create, bill.destroy or bill.cancel. form is "legacy" or "v2". The request
// may have no hash or a wrong one. An error names the field that is missing or wrong.
func Sign(op, form string, request []byte) (Signed, error) {
	f := formV2
	if form == formLegacy.String() {
		f = formLegacy
	}
	root, ok := parseObject(request)
	if !ok {
		return Signed{}, errors.New("the request is not a JSON object, or has a duplicate name")
	}
	c := decode(operation(op), f, root)
	need := func(name string) error {
		return fmt.Errorf("%s is missing: the hash of %s in the %s form requires it", c.fieldPath(name), op, f)
	}
	switch {
	case c.op != opCreate && c.op != opDestroy && c.op != opCancel:
		return Signed{}, fmt.Errorf("%s carries no hash", op)
	case c.wrongType != "":
		return Signed{}, fmt.Errorf("%s does not have its documented type", c.wrongType)
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
