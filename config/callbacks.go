package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"

	"go.yaml.in/yaml/v4"
)

// Callbacks says how callbacks of upstreams are delivered to partners (translate/README.md, Events).
type Callbacks struct {
	PublicURL Address `yaml:"public_url" config:"required"` // the address of this gateway for upstreams; callbacks come to public_url/callback/ID
	Listen    string  `yaml:"listen"`                       // a separate listener for callbacks; "" for none

	Success  Success          `yaml:"success"`                  // which answer of a partner counts as delivered
	Timeout  Duration         `yaml:"timeout"`                  // of one attempt
	Schedule []DurationOrZero `yaml:"schedule"`                 // the time before each attempt, since the attempt before it; its length is the number of attempts
	Jitter   Fraction         `yaml:"jitter"`                   // the fraction by which a time of Schedule is randomly shortened or extended
	AtOnce   int              `yaml:"at_once" range:"1,10000"`  // the maximum number of concurrent attempts
	PerHost  int              `yaml:"per_host" range:"1,10000"` // of these, the maximum for one host

	LocalAddress LocalAddress `yaml:"local_address"` // the source address of attempts

	HTTPSOnly bool      `yaml:"https_only"` // refuse http in addresses of partners and in public_url
	Ports     []int     `yaml:"ports"`      // allowed in addresses of partners; [] for any
	Allow     []Network `yaml:"allow"`      // networks that may be called although they are not public

	InvalidAddress InvalidAddress `yaml:"invalid_address"` // what happens to a call with an invalid callback address

	RequireKey bool `yaml:"require_key"` // refuse callbacks without the partner's key in the body

	Window    Duration `yaml:"window"`    // within this time a callback that repeats the last one of its bill or merchant is not delivered again
	Retention Duration `yaml:"retention"` // how long addresses are kept after the last day of the bill

	KeepBodies Duration `yaml:"keep_bodies"` // how long the body of a callback is kept after its delivery
}

// UnmarshalYAML reads the section. Missing keys keep their defaults.
func (c *Callbacks) UnmarshalYAML(n *yaml.Node) error {
	type plain Callbacks // without this method
	filled := plain(DefaultCallbacks())
	if err := n.Load(&filled, yaml.WithKnownFields()); err != nil {
		return err
	}
	*c = Callbacks(filled)
	return nil
}

// DefaultCallbacks returns the defaults of the section. public_url has none.
func DefaultCallbacks() Callbacks {
	c := Callbacks{
		Success: Documented, Timeout: Duration(15 * time.Second), Jitter: 0.1, AtOnce: 256, PerHost: 4,
		InvalidAddress: RefuseInvalid,
		Ports:          []int{80, 443, 8080, 8443}, Window: Duration(25 * time.Hour), Retention: Duration(400 * 24 * time.Hour),
		KeepBodies: Duration(7 * 24 * time.Hour),
	}
	for _, wait := range []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	} {
		c.Schedule = append(c.Schedule, DurationOrZero(wait))
	}
	return c
}

// maxAttempt is the highest callbacks.timeout. With it, the attempts of a killed process are repeated within a minute.
const maxAttempt = 45 * time.Second

// Success says which answer of a partner ends the delivery of a callback.
type Success string

// Documented is HTTP 200 with the code of a success (translate/README.md, Events). Any2xx is every 2xx status with any body.
const (
	Documented Success = "documented"
	Any2xx     Success = "any-2xx"
)

func (Success) words() []string { return texts(Documented, Any2xx) }

// UnmarshalYAML reads documented or any-2xx.
func (s *Success) UnmarshalYAML(n *yaml.Node) error { return loadWord(n, s) }

// InvalidAddress says what happens to a bill or a registration whose callback address the gateway does not call.
type InvalidAddress string

// RefuseInvalid refuses the call. LeaveInvalid sends it with the partner's address.
const (
	RefuseInvalid InvalidAddress = "refuse"
	LeaveInvalid  InvalidAddress = "leave"
)

func (InvalidAddress) words() []string { return texts(RefuseInvalid, LeaveInvalid) }

// UnmarshalYAML reads refuse or leave.
func (a *InvalidAddress) UnmarshalYAML(n *yaml.Node) error { return loadWord(n, a) }

// A DurationOrZero is a Duration that may be 0s.
type DurationOrZero time.Duration

// UnmarshalYAML reads a duration, which must not be negative.
func (d *DurationOrZero) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("must be a duration such as 5m or 0s, but is %q", n.Value)
	}
	*d = DurationOrZero(v)
	return nil
}

func (d DurationOrZero) String() string { return time.Duration(d).String() }

// A Fraction is from 0 to 1.
type Fraction float64

// UnmarshalYAML reads a fraction.
func (f *Fraction) UnmarshalYAML(n *yaml.Node) error {
	var v float64
	if err := n.Decode(&v); err != nil || !(v >= 0 && v <= 1) { // NaN is not
		return fmt.Errorf("must be from 0 to 1, but is %q", n.Value)
	}
	*f = Fraction(v)
	return nil
}

// A Network is a range of addresses in CIDR notation.
type Network struct{ netip.Prefix }

// UnmarshalYAML reads a network.
func (w *Network) UnmarshalYAML(n *yaml.Node) error {
	v, err := netip.ParsePrefix(n.Value)
	if err != nil || v != v.Masked() {
		return fmt.Errorf("must be a network such as 10.0.0.0/8, but is %q", n.Value)
	}
	w.Prefix = v
	return nil
}

// Store is the database of the gateway.
type Store struct {
	// URL is sqlite:PATH or postgres://…, which may contain a password. It may be empty if nothing needs a store.
	URL Secret `yaml:"url"`
	// Key encrypts callback addresses and bodies: 32 bytes as 64 hex digits or base64. If it is empty, they are not encrypted.
	Key Secret `yaml:"key"`
	// OldKeys are keys that were Key before. They only decrypt.
	OldKeys []Secret `yaml:"old_keys"`
	// Wait is how long the gateway waits at its start for a PostgreSQL server that cannot be reached.
	Wait DurationOrZero `yaml:"wait"`

	// Failover is whether a fail-over of PostgreSQL can lose what was acknowledged.
	Failover Failover `yaml:"failover"`

	// Position is the position of the URL in the file, for problems that are found when the store is opened. Its Text is empty.
	Position translate.Problem `yaml:"-"`
}

// Failover is what a standby of PostgreSQL has when it is promoted.
type Failover string

// After a lossy fail-over the new server may lack the last writes. After a lossless one it has all that were acknowledged.
const (
	Lossy    Failover = "lossy"
	Lossless Failover = "lossless"
)

func (Failover) words() []string { return texts(Lossy, Lossless) }

// Memory is the URL of a store in memory, which is lost when the process ends. A config cannot have it.
const Memory = "memory:"

func (c *Config) checkStore() {
	s := c.source
	c.Store.Position = s.position("store", "url")
	c.checkStoreKeys()
	inFile := c.Store.URL.Reveal()
	resolved := c.resolveSecret(&c.Store.URL, "store", "url")
	switch engine, rest, _ := strings.Cut(c.Store.URL.Reveal(), ":"); {
	case !resolved: // has been reported
	case !c.Store.URL.IsSet() && inFile != "": // it is a reference, since the URL itself is empty
		s.addProblem(inFile+" is not set", "store", "url")
	case !c.Store.URL.IsSet():
		if c.Callbacks != nil {
			s.addProblem("callbacks must be stored before they are acknowledged; set store: {url: sqlite:billbridge.db} or {url: postgres://…}", "store", "url")
		}
	case engine == "sqlite" && rest != "":
		c.Store.URL = NewSecret("sqlite:" + c.resolvePath(rest))
		folder := filepath.Dir(c.resolvePath(rest))
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			s.addProblem("there is no folder "+folder, "store", "url")
		}
	case engine == "postgres", engine == "postgresql":
	case engine == "memory":
		s.addProblem("a store in memory is lost when the process ends; use sqlite:PATH or postgres://…", "store", "url")
	default: // the value may be a password
		s.addProblem("must be sqlite:PATH or postgres://…", "store", "url")
	}
	if c.Store.URL.IsSet() && c.Table != nil && c.Table.Callback() == nil {
		s.addProblem("the table has no callback, so the callbacks in the store cannot be delivered", "store")
	}
}

// storeKeyLength is the number of bytes of a key of the store.
const storeKeyLength = 32

// Keys returns the value of Key, nil if there is none, and those of OldKeys.
func (s *Store) Keys() (key []byte, old [][]byte) {
	if s.Key.IsSet() {
		key = storeKey(s.Key)
	}
	for _, secret := range s.OldKeys {
		old = append(old, storeKey(secret))
	}
	return key, old
}

// storeKey returns the bytes of a key, nil if it is not one.
func storeKey(secret Secret) []byte {
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString} {
		if key, err := decode(secret.Reveal()); err == nil && len(key) == storeKeyLength {
			return key
		}
	}
	return nil
}

func (c *Config) checkStoreKeys() {
	all := map[string]*Secret{}
	if c.Store.Key.Reveal() != "" {
		all["key"] = &c.Store.Key
	}
	for i := range c.Store.OldKeys {
		all[fmt.Sprintf("old_keys[%d]", i)] = &c.Store.OldKeys[i]
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		secret, inFile := all[name], all[name].Reveal()
		switch resolved := c.resolveSecret(secret, "store", name); {
		case !resolved: // has been reported
		case !secret.IsSet() && inFile != "":
			c.source.addProblem(inFile+" is not set", "store", name)
		case storeKey(*secret) == nil:
			c.source.addProblem(fmt.Sprintf("must be %d bytes as %d hex digits or base64 (openssl rand -hex %d), but has %d characters",
				storeKeyLength, 2*storeKeyLength, storeKeyLength, len(secret.Reveal())), "store", name)
		}
	}
}

func (c *Config) checkCallbacks() {
	b := c.Callbacks
	if b == nil {
		return
	}
	c.checkCallbackAddresses(b)
	c.checkCallbackTable()
	s := c.source
	if time.Duration(b.Timeout) > maxAttempt {
		s.addProblem(fmt.Sprintf("must be at most %s, but is %s", maxAttempt, b.Timeout), "callbacks", "timeout")
	}
	if b.Retention < b.Window {
		s.addProblem(fmt.Sprintf("must be at least %s, the window, but is %s: repeated callbacks are recognised by what is kept", b.Window, b.Retention), "callbacks", "retention")
	}
	if len(b.Schedule) == 0 || len(b.Schedule) > 100 {
		s.addProblem(fmt.Sprintf("must have from 1 to 100 durations, but has %d", len(b.Schedule)), "callbacks", "schedule")
	}
	for _, port := range b.Ports {
		if port < 1 || port > 65535 {
			s.addProblem(fmt.Sprintf("must be ports from 1 to 65535, but one is %d", port), "callbacks", "ports")
		}
	}
}

// checkCallbackTable checks that the gateway finds the address in the requests. Otherwise the upstream would get the partner's own
// address, and the partner callbacks that nobody stores or translates.
func (c *Config) checkCallbackTable() {
	if c.Table == nil {
		return
	}
	found := false
	for _, o := range c.Table.Operations() {
		found = found || o.HasRole(translate.Request, billing.Callback)
		for _, form := range c.Table.Forms() {
			if billing.Creates(o) && o.Path(form) != "" && !o.HasRole(translate.Request, billing.Callback, form) {
				c.source.addProblem(fmt.Sprintf("the request of %s needs role: callback in %s, by which the gateway finds the address that it replaces; "+
					"otherwise the upstream calls the partner directly", o.Name, form), "callbacks")
				found = true
			}
		}
	}
	if !found {
		c.source.addProblem("no request of the table has role: callback, by which the gateway finds the addresses that it replaces", "callbacks")
	}
}

func (c *Config) checkCallbackAddresses(b *Callbacks) {
	s := c.source
	switch {
	case b.PublicURL.URL == nil:
		s.addProblem("public_url is needed: the address of this gateway for upstreams, such as https://bridge.example.com", "callbacks")
	case b.HTTPSOnly && b.PublicURL.Scheme != "https":
		s.addProblem("must be https, since https_only is set, but is "+b.PublicURL.String(), "callbacks", "public_url")
	}
	if b.Listen != "" {
		c.checkListener(b.Listen, "callbacks", "listen")
		if _, port, _ := net.SplitHostPort(b.Listen); port != "0" && (b.Listen == c.Listen || b.Listen == c.Admin.Listen) {
			s.addProblem("must differ from listen and admin.listen, but is "+b.Listen, "callbacks", "listen")
		}
	}
}
