package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// Callbacks say how the callbacks of upstreams are brought to partners (translate/README.md, Events).
type Callbacks struct {
	PublicURL Address `yaml:"public_url"` // where upstreams reach this gateway; /callback/ID hangs below it
	Listen    string  `yaml:"listen"`     // a listener of their own beside the partners'; "" is none

	Success  Success  `yaml:"success"`  // what counts as delivered
	Timeout  Duration `yaml:"timeout"`  // of one attempt
	Schedule []Gap    `yaml:"schedule"` // before each attempt, since the one before; the number of them is that of attempts
	Jitter   Fraction `yaml:"jitter"`   // by how much of itself a gap is longer or shorter at random
	AtOnce   int      `yaml:"at_once"`  // attempts at the same time
	PerHost  int      `yaml:"per_host"` // of these, to one host

	LocalAddress LocalAddress `yaml:"local_address"` // that partners are called from

	HTTPSOnly bool      `yaml:"https_only"` // neither partners' addresses nor public_url may be http
	Ports     []int     `yaml:"ports"`      // that a partner's address may name; [] is any
	Allow     []Network `yaml:"allow"`      // networks that are no public addresses, and reached all the same

	InvalidAddress InvalidAddress `yaml:"invalid_address"` // what becomes of a call with an address that is never called

	RequireKey bool `yaml:"require_key"` // refuse callbacks whose body names no partner's key

	Window    Duration `yaml:"window"`    // within which a callback that repeats the last one of its bill or merchant is not delivered again
	Retention Duration `yaml:"retention"` // how long addresses are kept after their bill is over
}

// UnmarshalYAML begins with the defaults.
func (c *Callbacks) UnmarshalYAML(n *yaml.Node) error {
	type plain Callbacks // without this method
	filled := plain(DefaultCallbacks())
	if err := n.Load(&filled, yaml.WithKnownFields()); err != nil {
		return err
	}
	*c = Callbacks(filled)
	return nil
}

// DefaultCallbacks is what a section that says nothing but public_url gets.
func DefaultCallbacks() Callbacks {
	c := Callbacks{
		Success: Documented, Timeout: Duration(15 * time.Second), Jitter: 0.1, AtOnce: 256, PerHost: 4,
		InvalidAddress: RefuseInvalid,
		Ports:          []int{80, 443, 8080, 8443}, Window: Duration(25 * time.Hour), Retention: Duration(400 * 24 * time.Hour),
	}
	for _, gap := range []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	} {
		c.Schedule = append(c.Schedule, Gap(gap))
	}
	return c
}

// longestAttempt keeps what a killed process had under way from waiting for longer than a minute.
const longestAttempt = 45 * time.Second

// Success says which answer of a partner ends the delivery of a callback.
type Success string

// Documented is HTTP 200 with the code of a success (translate/README.md, Events), Any2xx
// every 2xx, whatever its body.
const (
	Documented Success = "documented"
	Any2xx     Success = "any-2xx"
)

// UnmarshalYAML reads one of the two words.
func (s *Success) UnmarshalYAML(n *yaml.Node) error {
	switch v := Success(n.Value); v {
	case Documented, Any2xx:
		*s = v
		return nil
	}
	return fmt.Errorf("must be documented or any-2xx, but is %q", n.Value)
}

// InvalidAddress says what becomes of a bill or a registration with a callback address that is never called from here.
type InvalidAddress string

// RefuseInvalid refuses the call. LeaveInvalid sends it with the address as it is: the upstream may do with it what it does
// without a relay.
const (
	RefuseInvalid InvalidAddress = "refuse"
	LeaveInvalid  InvalidAddress = "leave"
)

// UnmarshalYAML reads one of the two words.
func (a *InvalidAddress) UnmarshalYAML(n *yaml.Node) error {
	switch v := InvalidAddress(n.Value); v {
	case RefuseInvalid, LeaveInvalid:
		*a = v
		return nil
	}
	return fmt.Errorf("must be refuse or leave, but is %q", n.Value)
}

// A Gap is a Duration that may be 0s.
type Gap time.Duration

// UnmarshalYAML reads a gap.
func (g *Gap) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("must be a time such as 5m or 0s, but is %q", n.Value)
	}
	*g = Gap(v)
	return nil
}

// A Fraction is from 0 to 1.
type Fraction float64

// UnmarshalYAML reads a fraction.
func (f *Fraction) UnmarshalYAML(n *yaml.Node) error {
	var v float64
	if err := n.Decode(&v); err != nil || v < 0 || v > 1 {
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

// Store is where what must outlive the process is kept.
type Store struct {
	// URL is sqlite:PATH or postgres://…, which may carry a password. It may be unset where nothing needs a store.
	URL Secret `yaml:"url"`
	// Wait is how long a start waits for a PostgreSQL that cannot be reached.
	Wait Gap `yaml:"wait"`

	// Place is where the file says so, for a problem that only opening the store can show. Its text is empty.
	Place translate.Problem `yaml:"-"`
}

// Memory is the URL of a store that forgets everything. No config can have it, only a start without one.
const Memory = "memory:"

func (c *Config) checkCallbacks() {
	s := c.source
	c.Store.Place = s.place("store", "url")
	written := c.Store.URL.Reveal()
	resolved := c.resolve(&c.Store.URL, "store", "url")
	switch engine, rest, _ := strings.Cut(c.Store.URL.Reveal(), ":"); {
	case !resolved: // has been told
	case !c.Store.URL.IsSet() && written != "": // a reference, or it would be the URL
		s.problem(written+" is not set", "store", "url")
	case !c.Store.URL.IsSet():
		if c.Callbacks != nil {
			s.problem("callbacks must be stored before they are acknowledged; set store: {url: sqlite:billbridge.db} or {url: postgres://…}", "store", "url")
		}
	case engine == "sqlite" && rest != "":
		c.Store.URL = NewSecret("sqlite:" + c.beside(rest))
		folder := filepath.Dir(c.beside(rest))
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			s.problem("there is no folder "+folder, "store", "url")
		}
	case engine == "postgres", engine == "postgresql":
	case engine == "memory":
		s.problem("what is kept in memory is lost with the process: use sqlite:PATH or postgres://…", "store", "url")
	default: // its value may be a password
		s.problem("must be sqlite:PATH or postgres://…", "store", "url")
	}
	if c.Store.URL.IsSet() && c.Table != nil && c.Table.Callback() == nil {
		s.problem("the table has no callback.payment: what the store holds could not be brought on", "store")
	}
	b := c.Callbacks
	if b == nil {
		return
	}
	switch {
	case b.PublicURL.URL == nil:
		s.problem("public_url is needed: where upstreams reach this gateway, such as https://bridge.example.com", "callbacks")
	case b.HTTPSOnly && b.PublicURL.Scheme != "https":
		s.problem("must be https, since https_only is set, but is "+b.PublicURL.String(), "callbacks", "public_url")
	}
	if b.Listen != "" {
		c.checkListener(b.Listen, "callbacks", "listen")
		if _, port, _ := net.SplitHostPort(b.Listen); port != "0" && (b.Listen == c.Listen || b.Listen == c.Admin.Listen) {
			s.problem("is another listener too: "+b.Listen, "callbacks", "listen")
		}
	}
	if time.Duration(b.Timeout) > longestAttempt {
		s.problem(fmt.Sprintf("must be at most %s, but is %s", longestAttempt, b.Timeout), "callbacks", "timeout")
	}
	if b.Retention < b.Window {
		s.problem(fmt.Sprintf("must be at least the window of %s, since what is removed is not known again, but is %s", b.Window, b.Retention), "callbacks", "retention")
	}
	for _, n := range []struct {
		count int
		key   string
	}{{b.AtOnce, "at_once"}, {b.PerHost, "per_host"}} {
		if n.count < 1 || n.count > 10_000 {
			s.problem(fmt.Sprintf("must be from 1 to 10000, but is %d", n.count), "callbacks", n.key)
		}
	}
	if len(b.Schedule) == 0 || len(b.Schedule) > 100 {
		s.problem(fmt.Sprintf("must have 1 to 100 gaps, but has %d", len(b.Schedule)), "callbacks", "schedule")
	}
	for _, port := range b.Ports {
		if port < 1 || port > 65535 {
			s.problem(fmt.Sprintf("must be ports from 1 to 65535, but one is %d", port), "callbacks", "ports")
		}
	}
}
