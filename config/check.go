package config

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// check finds what the types cannot: names that dangle, files that are not there, values that do not go
// together. It also brings paths and secrets to their final form.
func (c *Config) check() {
	s := c.source
	c.checkListeners()

	if !strings.HasPrefix(c.BasePath, "/") && c.BasePath != "" {
		s.problem(fmt.Sprintf("must start with a slash, but is %q", c.BasePath), "base_path")
	} else if c.BasePath != "" {
		// Requests are matched as they were sent: a character that is escaped there would never match.
		escaped := (&url.URL{Path: c.BasePath}).EscapedPath()
		if path.Clean(c.BasePath) != "/"+strings.Trim(c.BasePath, "/") || escaped != c.BasePath {
			s.problem(fmt.Sprintf("must be a plain path, but is %q", c.BasePath), "base_path")
		}
		c.BasePath = strings.TrimRight(c.BasePath, "/")
	}
	if n := c.Limits.Connections; n < 1 || n > 1_000_000 {
		s.problem(fmt.Sprintf("must be from 1 to 1000000, but is %d", n), "limits", "connections")
	}
	if n := c.Limits.AddressConnections; n < 1 || n > 1_000_000 {
		s.problem(fmt.Sprintf("must be from 1 to 1000000, but is %d", n), "limits", "address_connections")
	}
	if f := c.Limits.Framing; f != Strict && f != Lenient {
		s.problem(fmt.Sprintf("must be strict or lenient, but is %q", f), "limits", "framing")
	}
	if c.Limits.Depth < 2 || c.Limits.Depth > 1000 {
		s.problem(fmt.Sprintf("must be from 2 to 1000, but is %d", c.Limits.Depth), "limits", "depth")
	}

	if longest := Gap(time.Minute); c.Failures.Explain > longest {
		s.problem("must be at most 1m, since its caller waits for it", "failures", "explain")
	}

	for _, l := range []struct {
		size Size
		key  string
	}{{c.Limits.Body, "body"}, {c.Limits.Reply, "reply"}} {
		if l.size > 1<<30 {
			s.problem(fmt.Sprintf("must be at most 1024MiB, but is %s", l.size), "limits", l.key)
		}
	}

	if c.Limits.Memory == 0 {
		c.Limits.Memory = max(256<<20, 2*c.Limits.Body)
	}
	if m := c.Limits.Memory; m < 2*c.Limits.Body || m < 1<<20 {
		s.problem(fmt.Sprintf("must be at least twice limits.body, %s, and 1MiB, but is %s", c.Limits.Body, m), "limits", "memory")
	}

	c.TableFiles.File, c.TableFiles.Overlay = c.beside(c.TableFiles.File), c.beside(c.TableFiles.Overlay)
	c.compile()
	c.checkUpstreams()
	c.checkPass()
	if longest := c.LongestCall(); c.Drain.AtMost != 0 && time.Duration(c.Drain.AtMost) < longest {
		s.problem(fmt.Sprintf("must be at least %s, the longest that a call can take, but is %s: a write that is cut off has an unknown outcome", longest, c.Drain.AtMost), "drain", "at_most")
	}
	if longest := Gap(10 * time.Minute); c.Drain.Delay > longest {
		s.problem("must be at most 10m", "drain", "delay")
	}
	c.checkCallbacks()
	c.checkRollout()
	if c.Table != nil {
		c.checkReader()
	}
}

// checkReader holds the table to what the gateway needs of it to read bills: for a rollout, and for what became of a write
// that has no answer.
func (c *Config) checkReader() {
	s := c.source
	explained := false // whether there is a write that such a read is made for
	for _, o := range c.Table.Operations() {
		explained = explained || c.Failures.Explain > 0 && o.Effect == translate.Write && billing.AboutBill(o) && o.Explain
	}
	switch _, err := billing.ReadOperation(c.Table); {
	case err == nil:
	case c.Rollout != nil:
		s.problem(err.Error(), "rollout")
	case explained:
		s.problem(err.Error()+"; or set failures.explain: 0s, and no bill is read after a write without an answer", "failures", "explain")
	}
}

func (c *Config) checkListeners() {
	s := c.source
	for _, l := range []struct {
		address string
		path    []string
	}{{c.Listen, []string{"listen"}}, {c.Admin.Listen, []string{"admin", "listen"}}} {
		c.checkListener(l.address, l.path...)
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Listen == c.Admin.Listen && port != "0" {
		s.problem(fmt.Sprintf("is the partners' listener too: %s", c.Listen), "admin", "listen")
	}
	written := c.Admin.Token.Reveal()
	resolved := c.resolve(&c.Admin.Token, "admin", "token")
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && resolved && !c.Admin.Token.IsSet() && !Loopback(host) {
		text := "a token is needed, since admin.listen is not loopback: " + c.Admin.Listen
		if written != "" { // a reference, or it would be the token
			text += "; " + written + " is not set"
		}
		s.problem(text, "admin", "token")
	}
	if c.TLS != nil {
		c.checkKeyPair(c.TLS, "tls")
	}
}

func (c *Config) checkListener(address string, at ...string) {
	if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
		c.source.problem(fmt.Sprintf("must be HOST:PORT such as 127.0.0.1:8080, but is %q", address), at...)
	}
}

var upstreamName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (c *Config) checkUpstreams() {
	s := c.source
	if len(c.Upstreams) == 0 {
		s.problem("at least one upstream is needed, such as upstreams: {new: {form: v2, url: https://billing.example.com}}", "upstreams")
		return
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		at := func(key string) []string { return []string{"upstreams", u.Name, key} }
		if !upstreamName.MatchString(u.Name) || u.Name == "none" {
			s.problem(fmt.Sprintf("an upstream's name has up to 32 small letters, digits, - and _, and is not none, but this is %q", u.Name), "upstreams", u.Name)
		}
		if c.Table != nil {
			forms := c.Table.Forms()
			if !slices.Contains(forms[:], u.Form) {
				s.problem(fmt.Sprintf("must be %s or %s, but is %q", forms[0], forms[1], u.Form), at("form")...)
			}
		}
		if u.Address.URL == nil {
			s.problem("a url is needed, such as https://billing.example.com/partner", at("url")...)
		}
		if u.Connections < 1 {
			s.problem(fmt.Sprintf("must be at least 1, but is %d", u.Connections), at("connections")...)
		}
		switch {
		case u.PartnerConnections == 0:
			u.PartnerConnections = max(1, u.Connections/4)
		case u.PartnerConnections < 0 || u.PartnerConnections > u.Connections:
			s.problem(fmt.Sprintf("must be from 1 to the upstream's connections, %d, but is %d", u.Connections, u.PartnerConnections), at("partner_connections")...)
		}
		if u.TLS != nil {
			if u.Address.URL != nil && u.Address.Scheme != "https" {
				s.problem("is for an https url, but this one is "+u.Address.String(), at("tls")...)
			}
			c.checkUpstreamTLS(u, at("tls"))
		}
	}
	switch {
	case c.Route.Default == "" && len(c.Upstreams) == 1:
		c.Route.Default = c.Upstreams[0].Name
	case c.Route.Default == "":
		s.problem("default is needed: there is more than one upstream", "route")
	case c.Upstreams.Find(c.Route.Default) == nil:
		s.problem(fmt.Sprintf("there is no upstream %q%s", c.Route.Default, translate.DidYouMean(c.Route.Default, c.Upstreams.names())), "route", "default")
	}
}

// plainPath has no escape, no path parameter and nothing that a server would clean.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/?$`)

// checkPass wants paths that are not the table's, and for each an upstream of its form.
func (c *Config) checkPass() {
	for _, p := range c.Route.Pass {
		if !plainPath.MatchString(p) {
			c.source.problem(fmt.Sprintf("must be paths such as /if/read/open, or prefixes such as /cash-receipt/, but one is %q", p), "route", "pass")
			continue
		}
		if c.Table == nil {
			continue
		}
		if o := c.TablePath(p); o != nil {
			c.source.problem(fmt.Sprintf("%s is the path of %s in the table, or like it: a server may take the one for the other", p, o.Name), "route", "pass")
		}
		if form := c.Table.FormOf(p); c.UpstreamOf(form) == nil {
			c.source.problem(fmt.Sprintf("%s is a path of the %s form, and no upstream speaks it", p, form), "route", "pass")
		}
	}
}

func (c *Config) checkUpstreamTLS(u *Upstream, at []string) {
	if u.TLS.CA = c.beside(u.TLS.CA); u.TLS.CA != "" {
		pem, ok := c.source.readFile(u.TLS.CA, append(at, "ca")...)
		u.TLS.Roots = x509.NewCertPool()
		if !u.TLS.Roots.AppendCertsFromPEM(pem) && ok {
			c.source.problem("no PEM certificate in "+u.TLS.CA, append(at, "ca")...)
		}
	}
	if u.TLS.Client != nil {
		c.checkKeyPair(u.TLS.Client, append(at, "client")...)
	}
}

func (c *Config) checkKeyPair(pair *KeyPair, at ...string) {
	if pair.Cert == "" || pair.Key == "" {
		c.source.problem("cert and key are both needed", at...)
		return
	}
	pair.Cert, pair.Key = c.beside(pair.Cert), c.beside(pair.Key)
	if _, err := pair.Certificate(); err != nil {
		c.source.problem(err.Error(), append(at, "cert")...)
	}
}

var reference = regexp.MustCompile(`^\$\{(env|file):(.+)\}$`)

// resolve replaces a reference by what it refers to, and tells whether it could. A variable that is not set
// leaves the secret unset: a config with a token for the day when the listener opens up also works before.
func (c *Config) resolve(secret *Secret, at ...string) bool {
	match := reference.FindStringSubmatch(secret.Reveal())
	switch {
	case match == nil && strings.HasPrefix(secret.Reveal(), "${"):
		c.source.problem("must be a word, ${env:NAME} or ${file:PATH}", at...)
		return false
	case match == nil:
	case match[1] == "env":
		value, _ := c.source.lookup(match[2])
		*secret = NewSecret(value)
	default:
		data, ok := c.source.readFile(c.beside(match[2]), at...)
		if *secret = NewSecret(strings.TrimSpace(string(data))); ok && !secret.IsSet() {
			c.source.problem("is empty: "+match[2], at...)
		}
		return secret.IsSet()
	}
	return true
}

// isPort tells whether net.Listen and a URL can take the text as a port.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// Loopback tells whether only this machine can reach the host. A name other than localhost may be anything.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
