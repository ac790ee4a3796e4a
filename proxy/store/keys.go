package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
)

// KeyLength is the number of bytes of a key.
const KeyLength = 32

// keyring is the key of the store: what must be sent later (callback addresses and bodies) is encrypted with it, by
// AES-256-GCM. All rows are, from the first start on; only [ChangeKey] changes that.
type keyring struct {
	id      string // of the key; "" if there is none: then nothing is encrypted
	cipher  cipher.AEAD
	sealing [][]byte // what seals callback addresses: the key, if there is one, and the secret of the store

	refused atomic.Int64 // rows that were changed without the key, each time they were read
}

// keyID is the name of a key in the store and in errors. It says nothing of the key.
func keyID(key []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte("billbridge store key "), key...)))[:8]
}

// newKeyring returns the keyring of a key, nil for none.
func newKeyring(key []byte) (*keyring, error) {
	k := &keyring{}
	if key == nil {
		return k, nil
	}
	if len(key) != KeyLength {
		return k, fmt.Errorf("a key has %d bytes, but must have %d", len(key), KeyLength)
	}
	block, err := aes.NewCipher(key)
	if err == nil {
		k.id, k.sealing = keyID(key), [][]byte{key}
		k.cipher, err = cipher.NewGCMWithRandomNonce(block)
	}
	return k, err
}

// seal encrypts a value, if there is a key. place says which value of which row it is: elsewhere it cannot be
// decrypted.
func (k *keyring) seal(value []byte, place string) []byte {
	if k.id == "" {
		return value
	}
	return k.cipher.Seal(nil, nil, value, []byte(place))
}

// open decrypts a value. With a key a plain value is refused: whoever can write to the database could send callbacks,
// with keys of partners, to an address of its own.
func (k *keyring) open(value []byte, place string) ([]byte, error) {
	if k.id == "" {
		return value, nil
	}
	plain, err := k.cipher.Open(nil, nil, value, []byte(place))
	if err != nil {
		return nil, k.changed(place)
	}
	return plain, nil
}

// A changedError is about a row that was changed without the key.
type changedError string

func (e changedError) Error() string { return string(e) }

// changed shows the first digits of an address: whoever has all of them can send callbacks.
func (k *keyring) changed(place string) error {
	k.refused.Add(1)
	if id, of := strings.CutPrefix(place, urlOfAddress("")); of {
		place = urlOfAddress(id[:min(len(id), SharedDigits)])
	}
	return changedError(place + " is not encrypted with the key " + k.id + ": the row was changed")
}

// Refused is how often rows were refused because they were changed without the key.
func (k *keyring) Refused() int64 { return k.refused.Load() }

// sealText and openText are seal and open for a text column.
func (k *keyring) sealText(value, place string) string {
	if k.id == "" {
		return value
	}
	return base64.StdEncoding.EncodeToString(k.seal([]byte(value), place))
}

func (k *keyring) openText(value, place string) (string, error) {
	if k.id == "" {
		return value, nil
	}
	sealed, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return "", k.changed(place)
	}
	plain, err := k.open(sealed, place)
	return string(plain), err
}

// keyedHash is 64 bits in hex that only a holder of the key can make of a text.
func keyedHash(key []byte, of ...string) string {
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "billbridge callback address %q", of)
	return hex.EncodeToString(m.Sum(nil)[:8])
}

// The places of the encrypted values.
func urlOfAddress(id string) string   { return "the url of address " + id }
func urlOfCallback(id string) string  { return "the url of callback " + id }
func bodyOfCallback(id string) string { return "the body of callback " + id }

// A keyError is a store that is encrypted with another key than the given one. An id is "" for no key.
type keyError struct{ is, given string }

func (e *keyError) Error() string {
	const change = "; or, to change the key, stop all gateways and run billbridge store key"
	switch {
	case e.is == "":
		return "store.key is set, but the store is not encrypted: stop all gateways and run billbridge store key, " +
			"which encrypts it"
	case e.given == "":
		return "the store is encrypted with the key " + e.is + ", but store.key is not set: set it" + change
	}
	return "the store is encrypted with the key " + e.is + ", but store.key is the key " + e.given + ": set the key " +
		e.is + change
}

// check refuses a store that is encrypted with another key. It changes nothing.
func (k *keyring) check(q tx) {
	if is, made := find[string](q, "SELECT key_id FROM billbridge_secret"); made && is != k.id {
		q.fail(&keyError{is, k.id})
	}
}

// begin makes the secret of a new store, which is encrypted from now on if there is a key, and checks it.
func (k *keyring) begin(q tx) {
	q.exec("INSERT INTO billbridge_secret (one, value, key_id) VALUES (1, $1, $2) ON CONFLICT DO NOTHING", rand.Text(),
		k.id)
	k.check(q)
}
