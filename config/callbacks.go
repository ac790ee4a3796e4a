package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// Callbacks says how callbacks of upstreams are delivered to partners (INTERFACE.md, Events).
type Callbacks struct {
	// the address of this gateway for upstreams; callbacks come to public_url/callback/ID
	PublicURL Address `yaml:"public_url" config:"required" missing:", such as https://bridge.example.com"`
	// a separate listener for callbacks; "" for none
	Listen string `yaml:"listen" config:"restart"`

	// which answer of a partner counts as delivered
	Success Success `yaml:"success" words:"documented any-2xx" default:"documented"`
	// of one attempt
	Timeout Duration `yaml:"timeout" range:",45s" default:"15s"`
	// the time before each attempt, since the attempt before it; its length is the number of attempts
	Schedule []DurationOrZero `yaml:"schedule" default:"[0s, 5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h, 24h]"`
	Attempts

	// refuse http in addresses of partners and in public_url
	HTTPSOnly bool `yaml:"https_only"`
	// allowed in addresses of partners; [] for any
	Ports []int `yaml:"ports" range:"1,65535" default:"[80, 443, 8080, 8443]"`
	// networks that may be called although they are not public
	Allow []Network `yaml:"allow"`

	RequireKey bool `yaml:"require_key"` // refuse callbacks without the partner's key in the body

	// within this time a callback that repeats the last one of its bill or merchant is not delivered again: backends
	// repeat a callback for a day
	Window time.Duration `yaml:"-" constant:"25h"`
	// how long addresses are stored after the last day of the bill: 400 days, since it can be cancelled for a year
	Retention time.Duration `yaml:"-" constant:"9600h"`
	// how long the body of a callback is stored after its delivery: a week for a replay, since it has personal data
	KeepBodies time.Duration `yaml:"-" constant:"168h"`

	Reconcile *Reconcile `yaml:"reconcile"` // nil: bills are not read
}

// Attempts are how many attempts to deliver a callback run at once, and how far apart those after failures are spread.
type Attempts struct {
	// the fraction by which a time of Schedule is randomly shortened or extended: attempts that failed together come
	// apart
	Jitter  float64 `yaml:"-" constant:"0.1"`
	AtOnce  int     `yaml:"-" constant:"256"` // the maximum number of concurrent attempts
	PerHost int     `yaml:"-" constant:"4"`   // of these, the maximum for one host: a slow receiver holds few
}

// Reconcile says how the gateway reads bills whose callbacks may be lost.
type Reconcile struct {
	// how long a callback can come after the state of its bill has moved: two reads this far apart show that it is
	// missing
	After time.Duration `yaml:"-" constant:"30m"`
	// how long a bill is not read after a read or a callback, since reads are load for the backend; for an older bill,
	// a quarter of its age
	Every time.Duration `yaml:"-" constant:"6h"`
	// whether a missing callback is made from the read
	Deliver bool `yaml:"deliver"`
}

// DefaultCallbacks returns the defaults of the section. public_url has none.
func DefaultCallbacks() (c Callbacks) {
	nothing := &yaml.Node{Kind: yaml.MappingNode}
	(&source{root: nothing}).load(nothing, reflect.ValueOf(&c).Elem(), "", "")
	return c
}

// Success says which answer of a partner ends the delivery of a callback.
type Success string

// Documented is HTTP 200 with the code of a success (INTERFACE.md, Events). Any2xx is every 2xx status with
// any body.
const (
	Documented Success = "documented"
	Any2xx     Success = "any-2xx"
)

// A Network is a range of addresses in CIDR notation, or one address.
type Network struct{ netip.Prefix }

func (w *Network) set(text string) (err error) {
	if one, err := netip.ParseAddr(text); err == nil && one.Zone() == "" {
		one = one.Unmap()
		w.Prefix = netip.PrefixFrom(one, one.BitLen())
		return nil
	}
	if w.Prefix, err = netip.ParsePrefix(text); err != nil || w.Prefix != w.Masked() || w.Addr().Is4In6() {
		return errors.New("must be a network such as 10.0.0.0/8, or an IP address")
	}
	return nil
}

// String returns one address without the length of its prefix.
func (w Network) String() string {
	if w.IsSingleIP() {
		return w.Addr().String()
	}
	return w.Prefix.String()
}

// Store is the database of the gateway.
type Store struct {
	// URL is sqlite:PATH or postgres://…, which may contain a password. It may be empty if nothing needs a store.
	URL Secret `yaml:"url" config:"restart"`
	// Key encrypts callback addresses and bodies: 32 bytes as 64 hex digits or base64. If it is empty, they are not
	// encrypted. It is changed with the command store key.
	Key Secret `yaml:"key" config:"restart"`
	// Wait is how long the gateway waits at its start for a PostgreSQL server that cannot be reached. One that starts
	// together with the gateway is there within a minute.
	Wait time.Duration `yaml:"-" constant:"1m"`

	// Failover is whether a fail-over of PostgreSQL can lose what was acknowledged.
	Failover Failover `yaml:"failover" config:"restart" words:"lossy lossless" default:"lossy"`

	// Position is the position of the URL in the file, for problems that are found when the store is opened. Its Text
	// is empty.
	Position translate.Problem `yaml:"-"`
}

// Failover is what a standby of PostgreSQL has when it is promoted.
type Failover string

// After a lossy fail-over the new server may lack the last writes. After a lossless one it has all that were
// acknowledged.
const (
	Lossy    Failover = "lossy"
	Lossless Failover = "lossless"
)

// Memory is the URL of a store in memory, which is lost when the process ends. A config cannot have it.
const Memory = "memory:"

func (c *Config) checkStore() {
	c.Store.Position = c.position("store.url")
	if _, err := StoreKey(c.Store.Key); err != nil {
		c.add("store.key", err.Error())
	}
	problem := ""
	switch engine, rest, _ := strings.Cut(c.Store.URL.Reveal(), ":"); {
	case !c.Store.URL.IsSet():
		if c.Callbacks != nil {
			problem = "callbacks must be stored before they are acknowledged; " + setStore
		}
	case engine == "sqlite" && rest != "":
		path := c.resolvePath(rest)
		c.Store.URL = NewSecret("sqlite:" + path)
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			problem = "the folder of the file does not exist" + c.relative()
		}
	case engine == "postgres", engine == "postgresql":
	case engine == "memory":
		problem = "a store in memory is lost when the process ends; use sqlite:PATH or postgres://…"
	default:
		problem = "must be sqlite:PATH or postgres://…"
	}
	if problem != "" {
		c.add("store.url", problem)
	}
	if c.Store.URL.IsSet() && c.Table != nil && c.Table.Callback == nil {
		c.add("store", "the table has no callback, so the callbacks in the store cannot be delivered")
	}
}

// setStore is the hint of an error about a missing store.
const setStore = "set store: {url: sqlite:billbridge.db} or {url: postgres://…}"

// storeKeyLength is the number of bytes of a key of the store.
const storeKeyLength = 32

// StoreKey decodes a key of the store, which is hex or base64. It returns nil if there is none.
func StoreKey(secret Secret) ([]byte, error) {
	if !secret.IsSet() {
		return nil, nil
	}
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString} {
		if key, err := decode(secret.Reveal()); err == nil && len(key) == storeKeyLength {
			return key, nil
		}
	}
	return nil, fmt.Errorf("must be %d bytes as %d hex digits or base64 (openssl rand -hex %[1]d), "+
		"but has %[3]d characters", storeKeyLength, 2*storeKeyLength, len(secret.Reveal()))
}

// KeyBytes returns the bytes of Key, nil if there is none.
func (s *Store) KeyBytes() []byte {
	key, _ := StoreKey(s.Key) // it was checked
	return key
}

func (c *Config) checkCallbacks() {
	b := c.Callbacks
	if b == nil {
		return
	}
	if b.HTTPSOnly && b.PublicURL.Scheme != "https" {
		c.add("callbacks.public_url", "must be https, since https_only is set")
	}
	if b.Listen != "" {
		c.checkListener("callbacks.listen", b.Listen, c.Listen, c.Admin.Listen)
	}
	if len(b.Schedule) == 0 || len(b.Schedule) > 100 {
		c.addf("callbacks.schedule", "must have from 1 to 100 durations, but has %d", len(b.Schedule))
	}
}
