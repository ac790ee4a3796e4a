// Package config turns one YAML file into one checked value.
//
//	c, err := config.Load("billbridge.yaml", os.LookupEnv)
//
// It is strict: unknown keys, duplicate keys, dangling names and values out of range are errors, each with
// file, line and column. All keys and values are judged in one run, and, once they are good, how they fit
// together in another. What can be compiled is compiled here: the
// [Config] carries the table, and the files it names have been found. Relative paths in the file start at the
// file's folder.
package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"

	"go.yaml.in/yaml/v4"
)

// A Config is the checked configuration of a gateway. It is not modified after Load.
type Config struct {
	Listen   string   `yaml:"listen"`
	BasePath string   `yaml:"base_path"` // the document's {base_url} path, without a slash at its end: "" or "/partner"
	TLS      *KeyPair `yaml:"tls"`       // of the partners' listener; nil is cleartext
	Admin    Admin    `yaml:"admin"`

	Upstreams Upstreams `yaml:"upstreams"`
	Route     Route     `yaml:"route"`

	Limits   Limits   `yaml:"limits"`
	Timeouts Timeouts `yaml:"timeouts"`
	Drain    Drain    `yaml:"drain"`
	Ready    Ready    `yaml:"ready"`
	Failures Failures `yaml:"failures"`

	Callbacks *Callbacks `yaml:"callbacks"` // nil: partners get them straight from the upstream
	Store     Store      `yaml:"store"`
	Rollout   *Rollout   `yaml:"rollout"` // nil: every call goes where route says

	TableFiles TableFiles       `yaml:"table"`
	Table      *translate.Table `yaml:"-"` // compiled from TableFiles

	source *source
}

// Admin is the operator's listener.
type Admin struct {
	Listen string `yaml:"listen"`
	Token  Secret `yaml:"token"` // bearer token; needed when Listen is not loopback
}

// An Upstream is a billing backend.
type Upstream struct {
	Name        string         `yaml:"-"`
	Form        translate.Form `yaml:"form"`
	Address     Address        `yaml:"url"`         // a path prefix is kept
	Timeout     Duration       `yaml:"timeout"`     // of one call, from when it has a connection to the last byte of the reply
	Connections int            `yaml:"connections"` // at most so many at once; further calls wait
	Wait        Duration       `yaml:"wait"`        // at most so long for a connection; then nothing is sent
	TLS         *UpstreamTLS   `yaml:"tls"`
	Local       LocalAddress   `yaml:"local_address"` // that connections come from

	// PartnerConnections is how many of the connections one partner's calls may have. 0 is a quarter.
	PartnerConnections int `yaml:"partner_connections"`
}

// Upstreams keep the order of the file.
type Upstreams []Upstream

// Find is the named upstream, or nil.
func (u Upstreams) Find(name string) *Upstream {
	for i := range u {
		if u[i].Name == name {
			return &u[i]
		}
	}
	return nil
}

// names are the names of the upstreams.
func (u Upstreams) names() []string {
	names := make([]string, len(u))
	for i := range u {
		names[i] = u[i].Name
	}
	return names
}

// StoreWithin is how long a call waits for the store before it is refused.
const StoreWithin = 5 * time.Second

// LongestCall is the time that a call can take from when its body is there: for the store, which keeps an address or how a
// create ended, for the upstream, and for what is asked before and after.
func (c *Config) LongestCall() time.Duration {
	longest := StoreWithin + c.Upstreams.LongestCall() + time.Duration(c.Failures.Explain)
	if c.Rollout != nil {
		longest += 3*StoreWithin + time.Duration(c.Rollout.Ask) // to find the route, to record that there is no such bill, and how it ended
	}
	return longest
}

// AnswerWithin is the time from the end of a request's header to the end of its answer: for its body, the longest call, and the
// answer to be taken.
func (c *Config) AnswerWithin() time.Duration {
	return time.Duration(c.Timeouts.Body) + c.LongestCall() + time.Duration(c.Timeouts.Write)
}

// LongestCall is the time that a call can take at any upstream, the wait for a connection included.
func (u Upstreams) LongestCall() time.Duration {
	var longest time.Duration
	for i := range u {
		longest = max(longest, time.Duration(u[i].Wait)+time.Duration(u[i].Timeout))
	}
	return longest
}

// Route says which upstream a call goes to.
type Route struct {
	Default string `yaml:"default"` // may be left out with one upstream only

	// Pass are paths that the table does not have, below base_path: exact ones, and prefixes, which end in a slash. Their calls
	// go to the upstream of the path's form, byte for byte.
	Pass []string `yaml:"pass"`
}

// Limits bound what callers and upstreams can make the gateway hold.
type Limits struct {
	Body  Size `yaml:"body"`  // of a request
	Depth int  `yaml:"depth"` // of nesting, in requests and replies
	Reply Size `yaml:"reply"` // of an upstream's reply, also after decompression

	Memory Size `yaml:"memory"` // of the bodies of requests that are held at the same time; if not set, 256MiB or twice Body, whatever is more

	Connections        int       `yaml:"connections"`         // open at the same time, of partners and of upstreams that call back
	AddressConnections int       `yaml:"address_connections"` // of these, from one source address
	Trusted            []Network `yaml:"trusted"`             // source addresses without that limit, such as a load balancer's

	Framing Framing `yaml:"framing"` // of requests in HTTP/1
}

// Framing says which requests are refused because two servers could disagree about where they end.
type Framing string

// Lenient takes lines that end with LF alone, and Content-Length twice if both are equal.
const (
	Strict  Framing = "strict"
	Lenient Framing = "lenient"
)

// Timeouts bound what a partner's connection can make us wait.
type Timeouts struct {
	Header Duration `yaml:"header"` // until the header of a request is there
	Body   Duration `yaml:"body"`   // until the whole request is there
	Write  Duration `yaml:"write"`  // for the answer to be taken
	Idle   Duration `yaml:"idle"`   // between two requests
}

// Drain says how the gateway stops.
type Drain struct {
	Delay  Gap      `yaml:"delay"`   // it is not ready and still serves, until load balancers know
	AtMost Duration `yaml:"at_most"` // then for calls under way; 0 means: enough for the longest call that the config allows
}

// Ready says when /-/ready answers 200.
type Ready struct {
	Store StoreReadiness `yaml:"store"`
}

// StoreReadiness says what an outage of the store means for /-/ready.
type StoreReadiness string

// Required is not ready while the store cannot be written to. Reported stays ready, so that reads and calls that need no store go
// on, and shows the outage in /-/ready?verbose and in billbridge_store_up.
const (
	Required StoreReadiness = "required"
	Reported StoreReadiness = "reported"
)

// UnmarshalYAML reads one of the two words.
func (r *StoreReadiness) UnmarshalYAML(n *yaml.Node) error {
	switch v := StoreReadiness(n.Value); v {
	case Required, Reported:
		*r = v
		return nil
	}
	return fmt.Errorf("must be required or reported, but is %q", n.Value)
}

// Failures says how failures are told.
type Failures struct {
	Status    Status `yaml:"status"`
	MaskHosts bool   `yaml:"mask_hosts"` // hosts and addresses in an upstream's failure text become …

	Explain Gap `yaml:"explain"` // how long a read may take that says what became of a write without an answer; 0s is never
}

// A Status is the HTTP status of our own refusals.
type Status string

// Own answers with the status of the failure, Always200 with 200: for partners that only read bodies. An
// unknown outcome of a write is never a 200.
const (
	Own       Status = "own"
	Always200 Status = "always-200"
)

// TableFiles name the translation table; both may be empty.
type TableFiles struct {
	File    string `yaml:"file"`
	Overlay string `yaml:"overlay"`
}

// UpstreamTLS is what an https upstream needs beyond the system's roots.
type UpstreamTLS struct {
	CA     string   `yaml:"ca"`     // PEM file of a private CA; "" is the system's roots
	Client *KeyPair `yaml:"client"` // certificate that we show; nil is none

	Roots *x509.CertPool `yaml:"-"` // read from CA; nil is the system's roots
}

// defaults is what a file that says nothing else gets.
func defaults() *Config {
	return &Config{
		Listen:   "127.0.0.1:8080",
		Admin:    Admin{Listen: "127.0.0.1:9090"},
		Limits:   Limits{Body: 1 << 20, Depth: 32, Reply: 4 << 20, Connections: 10_000, AddressConnections: 1000, Framing: Strict},
		Timeouts: Timeouts{Header: Duration(5 * time.Second), Body: Duration(30 * time.Second), Write: Duration(30 * time.Second), Idle: Duration(2 * time.Minute)},
		Failures: Failures{Status: Own, MaskHosts: true, Explain: Gap(3 * time.Second)},
		Store:    Store{Wait: Gap(time.Minute)},
		Ready:    Ready{Store: Required},
	}
}

// Load reads and checks a file. lookup is where ${env:NAME} is found, os.LookupEnv in a program. The error is
// of type [translate.Problems] unless the file cannot be read at all.
func Load(path string, lookup func(string) (string, bool)) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(translate.File{Name: path, Data: data}, lookup)
}

// Parse is Load of a file that is in memory already. Its name says where relative paths start.
func Parse(file translate.File, lookup func(string) (string, bool)) (*Config, error) {
	root, err := translate.ParseYAML(file)
	if err != nil {
		return nil, err
	}
	c := defaults()
	c.source = &source{file: file.Name, root: root, lookup: lookup}
	if err := root.Load(c, yaml.WithKnownFields()); err != nil {
		return nil, c.source.readable(err)
	}
	c.check()
	if len(c.source.problems) > 0 {
		return nil, c.source.problems.Sorted()
	}
	c.source = nil // the file's tree, and a token that is spelled out in it, need not stay
	return c, nil
}

// TablePath is the operation whose path a server might take another path for, nil if there is none: servers may ignore case, a
// slash at the end, or what follows a dot.
func (c *Config) TablePath(p string) *translate.Operation {
	fold := func(p string) string {
		p = strings.ToLower(strings.TrimRight(p, "/"))
		return strings.TrimSuffix(p, path.Ext(p))
	}
	for _, o := range c.Table.Operations() {
		for _, form := range c.Table.Forms() {
			if known := o.Path(form); known != "" && fold(known) == fold(p) {
				return o
			}
		}
	}
	return nil
}

// UpstreamOf is the upstream that takes calls of a form untranslated: the default one, or else the first of the file that
// speaks the form. It is nil if none does.
func (c *Config) UpstreamOf(form translate.Form) *Upstream {
	if u := c.Upstreams.Find(c.Route.Default); u != nil && u.Form == form {
		return u
	}
	for i := range c.Upstreams {
		if c.Upstreams[i].Form == form {
			return &c.Upstreams[i]
		}
	}
	return nil
}

// compile reads the table's files. Depth is part of the compiled table.
func (c *Config) compile() {
	base, found := billing.Table(), true
	if c.TableFiles.File != "" {
		data, ok := c.source.readFile(c.TableFiles.File, "table", "file")
		base, found = translate.File{Name: c.TableFiles.File, Data: data}, ok
	}
	var overlays []translate.File
	if c.TableFiles.Overlay != "" {
		data, ok := c.source.readFile(c.TableFiles.Overlay, "table", "overlay")
		overlays, found = append(overlays, translate.File{Name: c.TableFiles.Overlay, Data: data}), found && ok
	}
	if !found {
		return
	}
	table, err := translate.Compile(c.Limits.Depth, base, overlays...)
	var problems translate.Problems
	if errors.As(err, &problems) {
		c.source.problems = append(c.source.problems, problems...)
	}
	c.Table = table
}

// beside is a path of the file, which starts at the file's folder.
func (c *Config) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.source.file), path)
}

// An Address is an upstream's base URL, with the slash at its end taken away.
type Address struct{ *url.URL }
