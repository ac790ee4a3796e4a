package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
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
	sum := sha256.Sum256([]byte(hashText(billID, phone, price)))
	return hex.EncodeToString(sum[:])
}
