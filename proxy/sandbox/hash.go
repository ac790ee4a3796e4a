package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// hashText returns the text that is hashed ("Authentication", 3): `bill_id,phone,price`, or `bill_id,price` if phone is
// empty. Only a create has a phone. price must have the digits as sent.
func hashText(billID, phone, price string) string {
	if phone == "" {
		return billID + "," + price
	}
	return billID + "," + phone + "," + price
}

// Hash returns the hash of both forms: SHA-256 of hashText in lower-case hex. The document does not name the algorithm;
// public integrations use this one.
func Hash(billID, phone, price string) string {
	return sha256Hex(hashText(billID, phone, price))
}

// Signed has the hash of a request and the text that is hashed.
type Signed struct {
	Text    string // what is hashed
	Hash    string
	Carried string // the hash in the request; empty if it has none
}

// Sign computes the hash of a request of bill.create, bill.destroy or bill.cancel. formName is "legacy" or "v2". The
// request may have no hash or a wrong one. An error names the field that is missing or wrong.
func Sign(op, formName string, request []byte) (Signed, error) {
	c := decode(operationOf(op), form(formName), request)
	if c.notObject {
		return Signed{}, errors.New("the request is not a JSON object, or has a duplicate name")
	}
	need := func(name string) error {
		return fmt.Errorf("%s is missing: the hash of %s in the %s form requires it", c.path(name), op, formName)
	}
	switch {
	case !strings.HasSuffix(c.op.request, "hash"):
		return Signed{}, fmt.Errorf("%s carries no hash", op)
	case c.wrongType != "":
		return Signed{}, fmt.Errorf("%s does not have its documented type", c.wrongType)
	case c.ID == "":
		return Signed{}, need("billId")
	case c.Price == "":
		return Signed{}, need("price")
	case !isDigits(c.Price):
		return Signed{}, fmt.Errorf("%s: expected digits but got: %q", c.path("price"), c.Price)
	}
	return Signed{hashText(c.ID, c.Phone, c.Price), Hash(c.ID, c.Phone, c.Price), c.hash}, nil
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
