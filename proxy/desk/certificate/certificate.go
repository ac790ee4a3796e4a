// Package certificate has the certificates of the operator's desk. A gateway reads them without the desk:
//
//	text, err := certificate.Certificate{Partner: "shop", Form: "v2"}.Sign(key)
//	c, err := certificate.Parse(text, public)
//	err = c.Valid(time.Now())
package certificate

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Major is the major version of the list of cases. It grows when an integration that was certified may fail.
const Major = 1

// Months is how long a certificate is valid.
const Months = 12

// A Certificate says that an integration passed a run of the desk.
type Certificate struct {
	Partner string   `json:"partner"`
	Form    string   `json:"form"` // that the partner speaks
	Options []string `json:"options,omitempty"`
	Via     bool     `json:"via"`   // through a gateway to the other form
	Major   int      `json:"major"` // of the list of cases
	Cases   string   `json:"cases"` // hash of the list of cases
	Run     string   `json:"run"`
	Build   string   `json:"build"` // of the desk
	// Evidence is the SHA-256 of the last line of the evidence, which proves all of it.
	Evidence string `json:"evidence"`
	// Clients are the programs that the partner created bills with; see Client. If empty, every client is certified.
	Clients  []string  `json:"clients,omitempty"`
	Signed   []Signed  `json:"signed,omitempty"`   // reviews and accepted warnings
	Expected []Failure `json:"expected,omitempty"` // failures that the operator expects
	Passed   time.Time `json:"passed"`             // the end of the run
	Expires  time.Time `json:"expires"`
}

// A Signed result is one that a person answers for.
type Signed struct {
	Case string `json:"case"`
	By   string `json:"by"`
	With string `json:"with,omitempty"` // the second person
	Text string `json:"text"`
}

// A Failure of a case is expected, for a reason and until a day.
type Failure struct {
	Case   string    `json:"case"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}

// file is a certificate with its signature, which is over prefix and the bytes of the certificate.
type file struct {
	Certificate json.RawMessage `json:"certificate"`
	Signature   []byte          `json:"signature"`
}

// prefix tells the signature from others by the same key.
const prefix = "billbridge desk certificate\n"

// Sign returns the file of a certificate.
func (c Certificate) Sign(key ed25519.PrivateKey) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(file{text, ed25519.Sign(key, append([]byte(prefix), text...))})
}

// Parse returns the certificate in a file. One that is not signed with the key, or was changed, is an error.
func Parse(text []byte, public ed25519.PublicKey) (*Certificate, error) {
	var f file
	var c Certificate
	if json.Unmarshal(text, &f) != nil || len(f.Certificate) == 0 {
		return nil, errors.New("is not a certificate: create it with billbridge desk certificate")
	}
	if !ed25519.Verify(public, append([]byte(prefix), f.Certificate...), f.Signature) {
		return nil, errors.New("is not signed with the key of the desk, or was changed")
	}
	dec := json.NewDecoder(bytes.NewReader(f.Certificate))
	dec.DisallowUnknownFields()
	if dec.Decode(&c) != nil {
		return nil, errors.New("is of a newer version of billbridge")
	}
	return &c, nil
}

// Client names the program of a call by its User-Agent, so that people can read it.
func Client(agent string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, agent[:min(len(agent), 200)]), "no User-Agent")
}

// Has reports whether the certificate is for a client.
func (c *Certificate) Has(client string) bool {
	return len(c.Clients) == 0 || slices.Contains(c.Clients, client)
}

// Errors of Valid.
var (
	ErrExpired = errors.New("expired")
	ErrCases   = errors.New("another list of cases")
)

// Valid reports whether a certificate is valid at a time: it ends, and with another major version of the list of cases
// it says nothing.
func (c *Certificate) Valid(now time.Time) error {
	switch {
	case !now.Before(c.Expires):
		return ErrExpired
	case c.Major != Major:
		return ErrCases
	}
	return nil
}

// PublicKey returns the Ed25519 key in a PEM file.
func PublicKey(text []byte) (ed25519.PublicKey, error) {
	if block, _ := pem.Decode(text); block != nil {
		parsed, _ := x509.ParsePKIXPublicKey(block.Bytes) // nil if it is not one
		if key, ok := parsed.(ed25519.PublicKey); ok {
			return key, nil
		}
	}
	return nil, errors.New("has no Ed25519 public key in PEM: openssl pkey -in desk.pem -pubout writes it")
}
