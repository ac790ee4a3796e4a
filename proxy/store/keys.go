package store

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// KeyLength is the number of bytes of a key.
const KeyLength = 32

// keyring are the keys of the store: what must be sent later (callback addresses and bodies) is encrypted with the
// first of them, by AES-256-GCM. The others only decrypt.
type keyring struct {
	current string // the id of the first key; "" if there is none: then nothing is encrypted
	ciphers map[string]cipher.AEAD
	sealing [][]byte // what seals callback addresses: the first one, the others, and the secret of the store
}

// keyID is the name of a key in rows and errors. It says nothing of the key.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("billbridge store key "), key...))
	return hex.EncodeToString(sum[:4])
}

func newKeyring(keys Keys) (k keyring, err error) {
	k.ciphers = map[string]cipher.AEAD{}
	for i, key := range append([][]byte{keys.Key}, keys.Old...) {
		if i == 0 && key == nil {
			continue
		}
		if len(key) != KeyLength {
			return k, fmt.Errorf("a key has %d bytes, but must have %d", len(key), KeyLength)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return k, err
		}
		if k.ciphers[keyID(key)], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return k, err
		}
		if i == 0 {
			k.current = keyID(key)
		}
		k.sealing = append(k.sealing, key)
	}
	return k, nil
}

// ids are the names of all keys.
func (k keyring) ids() string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(k.ciphers)), ", "), "none")
}

// seal encrypts a value with the current key, if there is one. place says which value of which row it is: elsewhere
// it cannot be decrypted.
func (k keyring) seal(value []byte, place string) []byte {
	if k.current == "" {
		return value
	}
	return k.ciphers[k.current].Seal(nil, nil, value, []byte(place))
}

// open decrypts a value that a key has encrypted; "" is none.
func (k keyring) open(id string, value []byte, place string) ([]byte, error) {
	if id == "" {
		return value, nil
	}
	with, ok := k.ciphers[id]
	if !ok {
		return nil, &keyError{id, k.ids()}
	}
	plain, err := with.Open(nil, nil, value, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be decrypted with the key %s: the row was changed", place, id)
	}
	return plain, nil
}

// sealText and openText are seal and open for a text column.
func (k keyring) sealText(value, place string) string {
	if k.current == "" {
		return value
	}
	return base64.StdEncoding.EncodeToString(k.seal([]byte(value), place))
}

func (k keyring) openText(id, value, place string) (string, error) {
	if id == "" {
		return value, nil
	}
	sealed, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return "", fmt.Errorf("%s is not what was encrypted: the row was changed", place)
	}
	plain, err := k.open(id, sealed, place)
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

// A keyError is a row whose key is not given.
type keyError struct{ id, given string }

func (e *keyError) Error() string {
	return fmt.Sprintf("rows are encrypted with the key %s, which is neither store.key nor one of "+
		"store.old_keys (given: %s)", e.id, e.given)
}

// secret returns the secret of a store, which the first gateway on it makes.
func secret(q tx) string {
	q.exec("INSERT INTO billbridge_secret (one, value) VALUES (1, $1) ON CONFLICT DO NOTHING", rand.Text())
	return value[string](q, "SELECT value FROM billbridge_secret")
}

// check refuses a database with rows that no key can decrypt.
func (k keyring) check(q tx) {
	var err error
	for _, id := range keyIDs(q) {
		if k.ciphers[id] == nil {
			err = errors.Join(err, &keyError{id, k.ids()})
		}
	}
	q.fail(err)
}

// keyIDs are the keys that rows are encrypted with. It reads one entry of an index for each.
func keyIDs(q tx) []string {
	return list[string](q, `
		WITH RECURSIVE a (id) AS (
			SELECT min(key_id) FROM billbridge_addresses WHERE key_id <> ''
			UNION ALL
			SELECT (SELECT min(r.key_id) FROM billbridge_addresses r WHERE r.key_id <> '' AND r.key_id > a.id)
			FROM a WHERE a.id IS NOT NULL
		), c (id) AS (
			SELECT min(key_id) FROM billbridge_callbacks WHERE key_id <> ''
			UNION ALL
			SELECT (SELECT min(r.key_id) FROM billbridge_callbacks r WHERE r.key_id <> '' AND r.key_id > c.id)
			FROM c WHERE c.id IS NOT NULL
		)
		SELECT id FROM a WHERE id IS NOT NULL UNION SELECT id FROM c WHERE id IS NOT NULL ORDER BY id`)
}
