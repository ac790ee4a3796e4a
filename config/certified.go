package config

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"billbridge/proxy/desk/certificate"
)

// Desk is the operator's desk, which certifies partners.
type Desk struct {
	// PEM file of the Ed25519 key that checks certificates; "" for none
	PublicKey string `yaml:"public_key" config:"path"`
}

// deskKey reads the public key of the desk. It is nil if there is none.
func (c *Config) deskKey() ed25519.PublicKey {
	if c.Desk.PublicKey == "" {
		return nil
	}
	text, ok := c.readFile(c.Desk.PublicKey, "desk", "public_key")
	if !ok {
		return nil
	}
	key, err := certificate.PublicKey(text)
	if err != nil {
		c.addProblem(err.Error(), "desk", "public_key")
	}
	return key
}

// checkCertificate reads the certificate of a partner. One that the desk did not sign, or that is of another partner,
// is an error: it is a mistake or a forgery, and time does not mend it. One that has ended is a warning, because a
// gateway must be able to start on the day after; the partner then counts as not certified.
func (c *Config) checkCertificate(one *Partner, key ed25519.PublicKey, at ...string) {
	if one.Certified == "" {
		return
	}
	if key == nil {
		if c.Desk.PublicKey == "" {
			c.addProblem("needs desk.public_key, which checks it", at...)
		}
		return
	}
	text, ok := c.readFile(one.Certified, at...)
	if !ok {
		return
	}
	read, err := certificate.Parse(text, key)
	switch {
	case err != nil:
		c.addProblem(err.Error(), at...)
		return
	case read.Partner != one.Name:
		c.addProblem("is the certificate of another partner: partner in its plan must be the name here", at...)
		return
	}
	one.Certificate = read
	switch end := read.Expires; {
	case read.Valid(time.Now()) == certificate.ErrCases:
		const other = "the certificate is for another version of the list of cases, and not valid: run the desk again"
		c.addWarning(other, at...)
	case time.Until(end) < 21*24*time.Hour:
		c.addWarning(fmt.Sprintf("the certificate of the partner ends on %s, and is not valid after that: run the desk again",
			end.UTC().Format(time.RFC3339)), at...)
	}
}
