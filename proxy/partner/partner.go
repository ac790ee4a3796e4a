// Package partner names partners. A partner's key is a secret that is stored, logged and shown nowhere: the SHA-256 of
// the key stands for the partner.
//
//	id := partner.Of(key)             // in the store and in memory
//	log.Info("…", "partner", id.Short()) // for people
//	id, ok := partner.Parse(typed)    // as an operator names a partner
package partner

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// An ID is the SHA-256 of a partner's key in 64 lower-case hex digits, or the first digits of it, at least 12:
// operators see the first 12, and must type at least 12. The type does not guarantee either: see IsFull and IsPrefix.
// "" is no partner.
type ID string

const (
	fullLength  = 64
	shortLength = 12
)

// Of returns the full ID of the partner with a key.
func Of(key string) ID {
	sum, digits := sha256.Sum256([]byte(key)), [fullLength]byte{}
	hex.Encode(digits[:], sum[:])
	return ID(digits[:])
}

// ShortOf returns Of(key).Short() with less work.
func ShortOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:shortLength/2])
}

// Parse reads an ID as an operator types it: full, or at least the first 12 digits. If ok is false, the text must not
// be repeated in an answer or a log: it may be a key.
func Parse(text string) (id ID, ok bool) {
	id = ID(text)
	return id, len(id) <= fullLength && id.IsPrefix()
}

// IsFull reports whether id has all its digits. Only such an ID may be stored.
func (id ID) IsFull() bool { return len(id) == fullLength && id.IsPrefix() }

// IsPrefix reports whether id has enough digits to select a partner. A full ID is such a prefix.
func (id ID) IsPrefix() bool {
	return len(id) >= shortLength && strings.Trim(string(id), "0123456789abcdef") == ""
}

// Short returns the digits that logs, reports and answers show.
func (id ID) Short() string { return string(id[:min(shortLength, len(id))]) }

// Label returns a partner for people: the first digits of its ID, and its name, if it has one.
func Label(short, name string) string {
	if name == "" {
		return short
	}
	return short + " (" + name + ")"
}
