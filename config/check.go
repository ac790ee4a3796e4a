package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"billbridge/translate"
)

// check checks what the tags of the config cannot: references, files, and values that depend on each other.
func (c *Config) check() {
	c.checkListeners()
	c.checkAdmin()
	c.checkLimits()
	c.compile()
	c.checkUpstreams()
	for _, pair := range c.KeyPairs() {
		if _, err := pair.Certificate(); err != nil {
			c.add(pair.key, c.fileText(err))
		}
	}
	c.checkStore()
	c.checkCallbacks()
	c.checkRollout()
	c.checkPartners()
	if c.Table != nil {
		c.checkTable()
	}
}

func (c *Config) checkLimits() {
	l := &c.Limits
	if l.Memory == 0 {
		l.Memory = max(256<<20, 2*l.Body, 8*l.Reply)
	}
	if l.Memory < 2*l.Body || l.Memory < 1<<20 {
		c.addf("limits.memory", "must be at least twice limits.body, %s, and 1MiB, but is %s", l.Body, l.Memory)
	}
	// With a lower rate, the partners whose calls must be remembered could be too many: callers can invent keys.
	if rate := l.Partner.Rate; math.IsNaN(rate) || rate != 0 && (rate < 0.1 || rate > 1_000_000) {
		c.addf("limits.partner.rate",
			"must be 0 for no limit, or from 0.1 to 1000000 calls per second, but is %v", rate)
	}
	l.Partner.Burst = max(1, int(l.Partner.Rate))
	c.Drain.Whole = child(child(c.root, "drain"), "delay") != nil
}

func (c *Config) checkListeners() {
	// The path of a request is matched with its escapes, so an escaped character would never match.
	escaped := (&url.URL{Path: c.BasePath}).EscapedPath()
	if c.BasePath != "" && (path.Clean(c.BasePath) != "/"+strings.Trim(c.BasePath, "/") || escaped != c.BasePath) {
		c.add("base_path", "must be a plain path such as /partner")
	}
	c.BasePath = strings.TrimRight(c.BasePath, "/")
	c.checkListener("listen", c.Listen)
	c.checkListener("admin.listen", c.Admin.Listen, c.Listen)
}

// checkListener checks an address, and that no other listener has it. Port 0 is any free port.
func (c *Config) checkListener(key, address string, others ...string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) || strings.ContainsAny(host, "@/?#") {
		c.add(key, "must be HOST:PORT such as 127.0.0.1:8080")
	} else if port != "0" && slices.Contains(others, address) {
		c.add(key, "must differ from the addresses of the other listeners")
	}
}

var upstreamName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (c *Config) checkUpstreams() {
	for i := range c.Upstreams {
		c.checkUpstream(&c.Upstreams[i])
	}
	if c.Route.Default == "" && len(c.Upstreams) == 1 {
		c.Route.Default = c.Upstreams[0].Name
	}
	if c.Route.Default == "" {
		c.add("route", "default is needed, since there is more than one upstream")
	} else {
		c.checkReference("route.default", c.Route.Default)
	}
}

func (c *Config) checkUpstream(u *Upstream) {
	key := "upstreams." + escape(u.Name)
	if !upstreamName.MatchString(u.Name) || u.Name == "none" {
		c.add(key, "an upstream's name can have up to 32 lower-case letters, digits, - and _, and cannot be none")
	}
	if c.Table != nil {
		var known []string
		for _, form := range c.Table.BackendForms() {
			known = append(known, string(form))
		}
		if !slices.Contains(known, string(u.Form)) {
			c.add(key+".form", "must be "+orList(known)+translate.DidYouMean(string(u.Form), known))
		}
	}
	u.PartnerConnections = max(1, u.Connections/4)
	if u.TLS == nil {
		return
	}
	if u.Address.Scheme != "https" {
		c.add(key+".tls", "needs an https url")
	}
	if u.TLS.CA != "" {
		u.TLS.Roots = x509.NewCertPool()
		pem := c.readFile(u.TLS.CA, key+".tls.ca")
		if !u.TLS.Roots.AppendCertsFromPEM(pem) && pem != nil {
			c.add(key+".tls.ca", "there is no PEM certificate in the file")
		}
	}
}

// checkReference returns the upstream that a key names, or nil.
func (c *Config) checkReference(key, name string) *Upstream {
	found := c.Upstreams.Find(name)
	if found == nil {
		var names []string // an invalid name may be a secret in the wrong place
		for _, u := range c.Upstreams {
			if upstreamName.MatchString(u.Name) {
				names = append(names, u.Name)
			}
		}
		c.add(key, "there is no such upstream"+suggest(name, "; the upstreams are ", names))
	}
	return found
}

// plainPath matches paths without escapes, path parameters and dots, which a server could change.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/?$`)

// checkPass checks that the paths of route.pass are not in the table, and that each has an upstream of its form.
func (c *Config) checkPass() {
	for i, p := range c.Route.Pass {
		key := fmt.Sprintf("route.pass[%d]", i)
		if !plainPath.MatchString(p) {
			c.add(key, "must be a path such as /if/read/open, or a prefix such as /cash-receipt/")
			continue
		}
		if o := c.OperationWithSimilarPath(p); o != nil {
			c.add(key, "is the path of "+o.Name+" in the table, or so similar that a server may treat it as the same")
		}
		if form := c.Table.FormOf(p); c.UpstreamOfForm(form) == nil {
			c.addf(key, "is a path of the %s form, but no upstream has this form", form)
		}
	}
}

var reference = regexp.MustCompile(`^\$\{(env|file):(.+)\}$`)

// resolve replaces a reference by the secret.
func (s *source) resolve(secret *Secret) error {
	match := reference.FindStringSubmatch(secret.Reveal())
	if match == nil && strings.HasPrefix(secret.Reveal(), "${") {
		return errors.New("must be text, ${env:NAME} or ${file:PATH}")
	} else if match == nil {
		return nil
	}
	place, missing := "the environment variable ", "is not set"
	value, _ := s.lookup(match[2])
	if match[1] == "file" {
		place, missing = "the file ", "is empty"
		data, err := os.ReadFile(s.resolvePath(match[2]))
		if err != nil {
			return errors.New(s.fileText(err))
		}
		value = string(data)
	}
	text, err := SecretText(value)
	if err != nil {
		return fmt.Errorf("%s%w", place, err)
	} else if text == "" {
		return errors.New(place + missing)
	}
	*secret = NewSecret(text)
	return nil
}

// isPort reports whether text is a port number.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// Loopback reports whether only this machine can reach the host. Of names, only localhost counts.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
