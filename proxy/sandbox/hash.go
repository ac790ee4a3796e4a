package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
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

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
