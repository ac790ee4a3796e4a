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
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// KeyLength is the number of bytes of a key.
const KeyLength = 32

// keyring are the keys of the store: what must be sent later (callback addresses and bodies) is encrypted with the
// first of them, by AES-256-GCM. The others only decrypt.
type keyring struct {
	current string // the id of the first key; "" if there is none: then nothing is encrypted
	ciphers map[string]cipher.AEAD
	sealing [][]byte // what seals callback addresses: the first one, the others, and the secret of the store

	plainUntil atomic.Int64 // until when rows may be plain, if there is a first key; milliseconds since 1970
	refused    atomic.Int64 // rows that were changed without the key, each time they were read
}

// keyID is the name of a key in rows and errors. It says nothing of the key.
func keyID(key []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte("billbridge store key "), key...)))[:8]
}

func newKeyring(keys Keys) (*keyring, error) {
	k := &keyring{ciphers: map[string]cipher.AEAD{}}
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
func (k *keyring) ids() string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(k.ciphers)), ", "), "none")
}

// seal encrypts a value with the current key, if there is one. place says which value of which row it is: elsewhere
// it cannot be decrypted.
func (k *keyring) seal(value []byte, place string) []byte {
	if k.current == "" {
		return value
	}
	return k.ciphers[k.current].Seal(nil, nil, value, []byte(place))
}

// open decrypts a value that a key has encrypted; "" is none. Once the store is encrypted, a plain value is refused:
// whoever can write to the database could send callbacks, with keys of partners, to an address of its own.
func (k *keyring) open(id string, value []byte, place string) ([]byte, error) {
	if id == "" {
		if k.current != "" && time.Now().UnixMilli() >= k.plainUntil.Load() {
			return nil, k.changed(place, " is not encrypted, but the store is")
		}
		return value, nil
	}
	with, ok := k.ciphers[id]
	if !ok {
		return nil, &keyError{id, k.ids()}
	}
	plain, err := with.Open(nil, nil, value, []byte(place))
	if err != nil {
		return nil, k.changed(place, " cannot be decrypted with the key "+id)
	}
	return plain, nil
}

// A changedError is about a row that was changed without the key.
type changedError string

func (e changedError) Error() string { return string(e) + ": the row was changed" }

// changed shows the first digits of an address: whoever has all of them can send callbacks.
func (k *keyring) changed(place, how string) error {
	k.refused.Add(1)
	if id, of := strings.CutPrefix(place, urlOfAddress("")); of {
		place = urlOfAddress(id[:min(len(id), SharedDigits)])
	}
	return changedError(place + how)
}

// Refused is how often rows were refused because they were changed without the key.
func (s *Store) Refused() int64 { return s.keys.refused.Load() }

// sealText and openText are seal and open for a text column.
func (k *keyring) sealText(value, place string) string {
	if k.current == "" {
		return value
	}
	return base64.StdEncoding.EncodeToString(k.seal([]byte(value), place))
}

func (k *keyring) openText(id, value, place string) (string, error) {
	sealed := []byte(value)
	if id != "" {
		var err error
		if sealed, err = base64.StdEncoding.DecodeString(value); err != nil {
			return "", k.changed(place, " is not what was encrypted")
		}
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

// plainFor is how long rows may be without encryption after the first start with a key: gateways without it may still
// run, and what they wrote is encrypted within the hour.
const plainFor = 24 * time.Hour

// permission is what the store has of until, so that nobody without the key can choose another one.
func (k *keyring) permission(until int64) string {
	text := strconv.FormatInt(until, 10)
	return text + " " + keyedHash(k.sealing[0], "rows may be plain until", text)
}

// permit returns until when rows may be without encryption. Without a permission of the key, a store that has
// encrypted rows is encrypted, and so is a new one.
func (k *keyring) permit(q tx) (until int64) {
	if k.current == "" {
		return 0
	}
	stored := value[string](q, "SELECT plain FROM billbridge_secret")
	text, _, _ := strings.Cut(stored, " ")
	if until, _ := strconv.ParseInt(text, 10, 64); stored == k.permission(until) {
		return until
	}
	if len(keyIDs(q)) == 0 && (keyless(q) || value[bool](q, "SELECT EXISTS (SELECT 1 FROM billbridge_addresses) "+
		"OR EXISTS (SELECT 1 FROM billbridge_callbacks)")) {
		until = time.Now().Add(plainFor).UnixMilli()
	}
	q.exec("UPDATE billbridge_secret SET plain = $1", k.permission(until))
	return until
}

// keyless reports whether a gateway without a key runs: its name has no dot.
func keyless(q tx) bool {
	return value[int](q, `
		SELECT count(*) FROM billbridge_gateways WHERE gateway NOT LIKE '%.%'
			AND at >= (SELECT max(at) FROM billbridge_gateways) - $1`, aliveWithin.Milliseconds()) > 0
}

// check refuses a database with rows that no key can decrypt.
func (k *keyring) check(q tx) {
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
