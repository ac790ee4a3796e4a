// Package config reads and checks the configuration of a gateway, one YAML file.
//
//	c, err := config.Load("billbridge.yaml", os.LookupEnv)
//
// Unknown keys, duplicate keys, unknown names and values out of range are errors, each with file, line and column.
// First all keys and values are checked, then, if they are valid, how they go together. A [Config] contains the
// compiled table, and the files that it names have been read. Relative paths start at the folder of the config file.
package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A Config is a checked configuration. It is not modified after Load.
//
// The tags of the fields describe the keys, for Load, [Schema] and [Config.NeedsRestart]: see keys.
type Config struct {
	Listeners

	Upstreams Upstreams `yaml:"upstreams" config:"required" missing:", as in new: {form: v2, url: https://example.com}"`
	Route     Route     `yaml:"route"`

	Serving

	Callbacks *Callbacks `yaml:"callbacks"` // nil: partners get callbacks directly from the upstream
	Store     Store      `yaml:"store"`
	Rollout   *Rollout   `yaml:"rollout" config:"restart"` // nil: route decides on every call
	Partners  Partners   `yaml:"partners"`                 // names for people

	File       string           `yaml:"-"` // the name of the config file, "built-in" without one
	TableFiles TableFiles       `yaml:"table"`
	Table      *translate.Table `yaml:"-"` // compiled from TableFiles

	further  map[string]string  // by the hash of a key in [Partner.Keys]: the hash of the partner's first key
	warnings translate.Problems // those that [Config.Warnings] cannot find later

	*source // until it is loaded
}

// Listeners are where the gateway is reached.
type Listeners struct {
	Listen string `yaml:"listen" config:"restart" default:"127.0.0.1:8080"`
	// the document's {base_url} path, without a slash at its end: "" or "/partner"
	BasePath string `yaml:"base_path"`
	// where partners reach Listen, without BasePath, for their OpenAPI document; its URL is nil if it is not known
	PublicURL Address  `yaml:"public_url"`
	TLS       *KeyPair `yaml:"tls" config:"restart"` // of the listener for partners; nil for plain HTTP
	Admin     Admin    `yaml:"admin"`
}

// Serving is how the gateway serves calls.
type Serving struct {
	CORS     []Origin `yaml:"cors"` // of pages that may call from a browser
	Limits   Limits   `yaml:"limits"`
	Timeouts Timeouts `yaml:"-" constant:"{header: 5s, body: 30s, write: 30s, idle: 2m}"`
	Drain    Drain    `yaml:"drain"`
	Ready    Ready    `yaml:"ready"`
	Failures Failures `yaml:"failures"`
	Log      Log      `yaml:"log"`
}

// PartnerURL returns the address before the paths of the table, as partners see it. It has no host if PublicURL has
// none.
func (c *Config) PartnerURL() string {
	if c.PublicURL.URL == nil {
		return c.BasePath
	}
	return strings.TrimSuffix(c.PublicURL.String(), "/") + c.BasePath
}

// An Upstream is a billing backend.
type Upstream struct {
	Name string         `yaml:"-" name:"NAME"`
	Form translate.Form `yaml:"form" config:"required"`
	// the base URL; its path is a prefix
	Address Address `yaml:"url" config:"required" missing:", such as https://billing.example.com/partner"`
	// of one call, from getting a connection to the last byte of the reply
	Timeout Duration `yaml:"timeout" default:"40s"`
	// the maximum number; further calls wait for one
	Connections int          `yaml:"connections" range:"1," default:"256"`
	TLS         *UpstreamTLS `yaml:"tls"`

	// the maximum for a connection; after that nothing is sent, and the caller can repeat the call
	Wait time.Duration `yaml:"-" constant:"2s"`
	// the maximum for the calls of one partner: if they hang, the others have connections left
	PartnerConnections int `yaml:"-"`
}

// Upstreams are in the order of the file.
type Upstreams []Upstream

// Find returns the named upstream, or nil.
func (u Upstreams) Find(name string) *Upstream {
	return u.first(func(one *Upstream) bool { return one.Name == name })
}

// first returns the first upstream for which is returns true, or nil.
func (u Upstreams) first(is func(*Upstream) bool) *Upstream {
	for i := range u {
		if is(&u[i]) {
			return &u[i]
		}
	}
	return nil
}

// StoreTimeout is the maximum time that a call waits for the store. After that the call is refused.
const StoreTimeout = 5 * time.Second

// SendWithin is the time after which a write is not sent: a caller that gave up may create the bill again.
const SendWithin = 3 * time.Second

// LongestCall returns the longest time from the end of a request to its answer: for the upstream, for the store, and
// for the reads that the gateway makes before the call.
func (c *Config) LongestCall() time.Duration {
	longest := StoreTimeout + c.Upstreams.LongestCall()
	if c.Rollout != nil {
		// to find the route, to record that there is no such bill, and to record the outcome
		longest += 3*StoreTimeout + c.Rollout.ProbeTimeout
	}
	return longest
}

// AnswerWithin returns the longest time from the end of a request's header to the end of its answer: for reading the
// body, for the longest call, and for writing the answer.
func (c *Config) AnswerWithin() time.Duration {
	return c.Timeouts.Body + c.LongestCall() + c.Timeouts.Write
}

// LongestCall returns the longest time of a call at any upstream, including the wait for a connection.
func (u Upstreams) LongestCall() time.Duration {
	var longest time.Duration
	for i := range u {
		longest = max(longest, u[i].Wait+time.Duration(u[i].Timeout))
	}
	return longest
}

// Route says which upstream a call goes to.
type Route struct {
	Default string `yaml:"default"` // may be left out if there is only one upstream

	// Pass lists paths below base_path that the table does not have: exact paths, and prefixes, which end in a slash.
	// Calls to them go byte for byte to the upstream of the path's form.
	Pass []string `yaml:"pass"`
}

// Limits bound what callers and upstreams can make the gateway hold.
type Limits struct {
	Body  Size `yaml:"body" range:",1GiB" default:"1MiB"`  // of a request
	Depth int  `yaml:"depth" range:"2,1000" default:"32"`  // of nesting, in requests and replies
	Reply Size `yaml:"reply" range:",1GiB" default:"4MiB"` // of an upstream's reply, also after decompression

	// of the bodies of requests that are held at the same time; if not set, 256MiB or twice Body, whatever is more
	Memory Size `yaml:"memory"`

	Partner PartnerLimit `yaml:"partner"`

	// of bills, that the gateway makes by itself in a second; they are load for the backends
	Reads int `yaml:"-" constant:"10"`
	// requests in progress at the same time; this and the next are within the open files and memory of a small machine
	InFlight int `yaml:"-" constant:"10000"`
	// open at the same time, of partners and of upstreams that call back
	Connections int `yaml:"-" constant:"10000"`
	// of these, from one source address, which cannot use them up; also its most requests in progress
	AddressConnections int `yaml:"-" constant:"1000"`
	// source addresses without that limit, such as a load balancer's
	Trusted []Network `yaml:"trusted"`
	// proxies whose X-Forwarded-For says where a request comes from; they are trusted too
	TrustedProxies []Network `yaml:"trusted_proxies"`
}

// PartnerLimit is the limit of each partner's calls. All calls without a key count as those of one partner.
type PartnerLimit struct {
	// calls in progress at the same time; 0 for no limit
	InFlight int     `yaml:"in_flight" range:"0,1000000" default:"64"`
	Rate     float64 `yaml:"rate"` // calls per second; 0 for no limit
	Burst    int     `yaml:"-"`    // calls beyond Rate that may come at once: those of one second
}

// Timeouts are those of a partner's connection. A partner's program sends and reads at once. The times are those of a
// slow line, not of a person.
type Timeouts struct {
	Header time.Duration `yaml:"header"` // for reading the header of a request
	Body   time.Duration `yaml:"body"`   // for reading the whole request
	Write  time.Duration `yaml:"write"`  // for writing the answer
	Idle   time.Duration `yaml:"idle"`   // between two requests
}

// Drain says how the gateway stops.
type Drain struct {
	Delay DurationOrZero `yaml:"delay" range:",10m" default:"2s"` // not ready but serving, until callers have noticed
	Whole bool           // the file has delay: load balancers need all of it, also if no connection is open
}

// Ready says when /-/ready answers 200.
type Ready struct {
	Store StoreReadiness `yaml:"store" words:"required reported" default:"required"`
}

// StoreReadiness says whether the gateway is ready during an outage of the store.
type StoreReadiness string

// With Required the gateway is not ready while the store cannot be written to. With Reported it stays ready, so that
// calls that need no store are still served. The outage is shown in /-/ready?verbose and in billbridge_store_up.
const (
	Required StoreReadiness = "required"
	Reported StoreReadiness = "reported"
)

// Failures says how failures are answered.
type Failures struct {
	Status Status `yaml:"status" words:"own always-200" default:"own"`
	// of the gateway's own texts for partners
	Language Language `yaml:"language" words:"ko en both" default:"ko"`
	// replace hosts and addresses in an upstream's failure text by …
	MaskHosts bool `yaml:"mask_hosts" default:"true"`
}

// A Status says which HTTP status the gateway's own refusals have.
type Status string

// Own is the status of the failure. Always200 is 200, for partners that only read bodies. The answer to a write with
// an unknown outcome never has status 200, and neither has that to a read without an answer.
const (
	Own       Status = "own"
	Always200 Status = "always-200"
)

// A Language is Korean, English, or both: Korean, and then English in fewer words.
type Language string

// The languages of the texts for partners.
const (
	Korean  Language = "ko"
	English Language = "en"
	Both    Language = "both"
)

// TableFiles are the files of the translation table. Both may be empty.
type TableFiles struct {
	File    string `yaml:"file" config:"path"`
	Overlay string `yaml:"overlay" config:"path"`
}

// UpstreamTLS is the TLS configuration of an https upstream.
type UpstreamTLS struct {
	CA     string   `yaml:"ca" config:"path"` // PEM file of a private CA; "" for the system's roots
	Client *KeyPair `yaml:"client"`           // the client certificate; nil for none

	Roots *x509.CertPool `yaml:"-"` // read from CA; nil for the system's roots
}

// Load reads and checks a file. It calls lookup for ${env:NAME}; programs use os.LookupEnv. The error is of type
// [translate.Problems], unless the file cannot be read.
func Load(path string, lookup func(string) (string, bool)) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(translate.File{Name: path, Data: data}, lookup)
}

// Parse is Load for the content of a file. Relative paths start at the folder of its name.
func Parse(file translate.File, lookup func(string) (string, bool)) (*Config, error) {
	root, err := translate.ParseYAML(file)
	if err != nil {
		if problems := translate.Problems(nil); errors.As(err, &problems) {
			for i := range problems {
				problems[i].Text = withoutText(problems[i].Text)
			}
		}
		return nil, err
	}
	c := &Config{File: file.Name, source: &source{file: file.Name, root: root, lookup: lookup}}
	load := func() { c.load(root, reflect.ValueOf(c).Elem(), "", "") }
	for _, step := range []func(){load, c.check, c.warn} {
		if step(); len(c.problems) > 0 {
			return nil, c.problems.Sorted()
		}
	}
	c.source = nil // it may contain a token
	return c, nil
}

// OperationWithSimilarPath returns the operation whose path a server may treat as the same as p, or nil. Servers may
// ignore case, a slash at the end, and a suffix after a dot.
func (c *Config) OperationWithSimilarPath(p string) *translate.Operation {
	fold := func(p string) string {
		p = strings.ToLower(strings.TrimRight(p, "/"))
		return strings.TrimSuffix(p, path.Ext(p))
	}
	for _, o := range c.Table.Operations {
		for _, form := range c.Table.Forms() {
			if known := o.Path(form); known != "" && fold(known) == fold(p) {
				return o
			}
		}
	}
	return nil
}

// UpstreamOfForm returns an upstream of a form: the default one if it has the form, or else the first in the file. It
// returns nil if no upstream has the form.
func (c *Config) UpstreamOfForm(form translate.Form) *Upstream {
	if u := c.Upstreams.Find(c.Route.Default); u != nil && u.Form == form {
		return u
	}
	return c.Upstreams.first(func(u *Upstream) bool { return u.Form == form })
}

// builtInDepth is the default of limits.depth.
const builtInDepth = 32

// builtIn compiles the built-in table once: a table does not change.
var builtIn = sync.OnceValues(func() (*translate.Table, error) {
	return translate.Compile(builtInDepth, billing.Table())
})

// compile reads and compiles the table.
func (c *Config) compile() {
	if c.TableFiles == (TableFiles{}) && c.Limits.Depth == builtInDepth {
		c.Table, _ = builtIn()
		return
	}
	before := len(c.problems)
	base, overlays := billing.Table(), []translate.File(nil)
	if name := c.TableFiles.File; name != "" {
		base = translate.File{Name: name, Data: c.readFile(name, "table.file")}
	}
	if name := c.TableFiles.Overlay; name != "" {
		overlays = append(overlays, translate.File{Name: name, Data: c.readFile(name, "table.overlay")})
	}
	if len(c.problems) > before {
		return
	}
	table, err := translate.Compile(c.Limits.Depth, base, overlays...)
	if problems := translate.Problems(nil); errors.As(err, &problems) {
		c.problems = append(c.problems, problems...)
	}
	c.Table = table
}
