package config

import (
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// check checks what the types of the config cannot: references, files, and values that depend on each other. It also resolves paths
// and secrets.
func (c *Config) check() {
	c.source.checkRanges(reflect.ValueOf(c))
	c.checkListeners()
	c.checkBasePath()
	c.checkLimits()
	c.TableFiles.File, c.TableFiles.Overlay = c.resolvePath(c.TableFiles.File), c.resolvePath(c.TableFiles.Overlay)
	c.compile()
	c.checkUpstreams()
	c.checkPass()
	c.checkDrain()
	c.checkLog()
	c.checkTracing()
	c.checkStore()
	c.checkCallbacks()
	c.checkRollout()
	c.checkPartners()
	if c.Table != nil {
		c.checkReadOperation()
		c.warnAboutTable()
	}
	c.checkStoreTLS()
}

func (c *Config) checkBasePath() {
	s := c.source
	if !strings.HasPrefix(c.BasePath, "/") && c.BasePath != "" {
		s.addProblem(fmt.Sprintf("must start with a slash, but is %q", c.BasePath), "base_path")
	} else if c.BasePath != "" {
		// The path of a request is matched with its escapes, so an escaped character would never match.
		escaped := (&url.URL{Path: c.BasePath}).EscapedPath()
		if path.Clean(c.BasePath) != "/"+strings.Trim(c.BasePath, "/") || escaped != c.BasePath {
			s.addProblem(fmt.Sprintf("must be a plain path such as /partner, but is %q", c.BasePath), "base_path")
		}
		c.BasePath = strings.TrimRight(c.BasePath, "/")
	}
}

func (c *Config) checkLimits() {
	s := c.source
	if longest := DurationOrZero(time.Minute); c.Failures.Explain > longest {
		s.addProblem(fmt.Sprintf("must be at most %s, but is %s: the caller waits for it", longest, c.Failures.Explain), "failures", "explain")
	}

	for _, l := range []struct {
		size Size
		key  string
	}{{c.Limits.Body, "body"}, {c.Limits.Reply, "reply"}} {
		if l.size > 1<<30 {
			s.addProblem(fmt.Sprintf("must be at most 1024MiB, but is %s", l.size), "limits", l.key)
		}
	}

	if c.Limits.Memory == 0 {
		c.Limits.Memory = max(256<<20, 2*c.Limits.Body)
	}
	if m := c.Limits.Memory; m < 2*c.Limits.Body || m < 1<<20 {
		s.addProblem(fmt.Sprintf("must be at least twice limits.body, %s, and 1MiB, but is %s", c.Limits.Body, m), "limits", "memory")
	}
	c.checkPartnerLimit()
}

func (c *Config) checkPartnerLimit() {
	s, l := c.source, &c.Limits.Partner
	// With a lower rate, the partners whose calls must be remembered could be too many: callers can invent keys.
	switch {
	case math.IsNaN(l.Rate) || l.Rate != 0 && (l.Rate < 0.1 || l.Rate > 1_000_000):
		s.addProblem(fmt.Sprintf("must be 0 for no limit, or from 0.1 to 1000000 calls per second, but is %v", l.Rate), "limits", "partner", "rate")
	case l.Rate == 0 && l.Burst > 0:
		s.addProblem("burst needs a rate", "limits", "partner", "burst")
	case l.Burst == 0:
		l.Burst = max(1, int(l.Rate))
	}
}

func (c *Config) checkDrain() {
	s := c.source
	if longest := c.LongestCall(); c.Drain.AtMost != 0 && time.Duration(c.Drain.AtMost) < longest {
		s.addProblem(fmt.Sprintf("must be at least %s, the longest time of a call, but is %s: a write that is cut off has an unknown outcome", longest, c.Drain.AtMost), "drain", "at_most")
	}
	if longest := DurationOrZero(10 * time.Minute); c.Drain.Delay > longest {
		s.addProblem(fmt.Sprintf("must be at most %s, but is %s", longest, c.Drain.Delay), "drain", "delay")
	}
}

// checkReadOperation checks that the table has an operation to read bills, if a rollout or failures.explain needs it.
func (c *Config) checkReadOperation() {
	s := c.source
	explained := false // whether a read can explain the outcome of any write
	for _, o := range c.Table.Operations() {
		explained = explained || c.Failures.Explain > 0 && o.Effect == translate.Write && billing.AboutBill(o) && o.Explain
	}
	switch _, err := billing.ReadOperation(c.Table); {
	case err == nil:
	case c.Rollout != nil:
		s.addProblem(err.Error(), "rollout")
	case explained:
		s.addProblem(err.Error()+"; or set failures.explain: 0s, so that no bill is read after a write without a reply", "failures", "explain")
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
		s.addProblem(fmt.Sprintf("must differ from listen, but both are %q", c.Listen), "admin", "listen")
	}
	if c.TLS != nil {
		c.checkKeyPair(c.TLS, "tls")
	}
	c.checkAdmin()
}

func (c *Config) checkListener(address string, key ...string) {
	if host, port, err := net.SplitHostPort(address); err != nil || !isPort(port) || strings.ContainsAny(host, "@/?#") {
		c.source.addProblem(fmt.Sprintf("must be HOST:PORT such as 127.0.0.1:8080, but is %q", address), key...)
	}
}

var upstreamName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (c *Config) checkUpstreams() {
	s := c.source
	if len(c.Upstreams) == 0 {
		s.addProblem("at least one upstream is needed, such as upstreams: {new: {form: v2, url: https://billing.example.com}}", "upstreams")
		return
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		at := func(key string) []string { return []string{"upstreams", u.Name, key} }
		if !upstreamName.MatchString(u.Name) || u.Name == "none" {
			s.addProblem(fmt.Sprintf("an upstream's name can have up to 32 lower-case letters, digits, - and _, and cannot be none, but is %q", u.Name), "upstreams", u.Name)
		}
		if c.Table != nil {
			forms := c.Table.Forms()
			if !slices.Contains(forms[:], u.Form) {
				s.addProblem(fmt.Sprintf("must be %s or %s, but is %q", forms[0], forms[1], u.Form), at("form")...)
			} else if u.Success != "" && !code.MatchString(u.Success) {
				s.addProblem("must be a code of up to 16 letters, digits and _, such as \"00\"", at("success")...)
			} else if err := c.Table.CheckSuccess(u.Form, u.Success); u.Success != "" && err != nil {
				s.addProblem(err.Error(), at("success")...)
			}
		}
		if u.Address.URL == nil {
			s.addProblem("a url is needed, such as https://billing.example.com/partner", at("url")...)
		}
		switch {
		case u.PartnerConnections == 0:
			u.PartnerConnections = max(1, u.Connections/4)
		case u.PartnerConnections < 0 || u.PartnerConnections > u.Connections:
			s.addProblem(fmt.Sprintf("must be from 1 to %d, the upstream's connections, but is %d", u.Connections, u.PartnerConnections), at("partner_connections")...)
		}
		if u.TLS != nil {
			if u.Address.URL != nil && u.Address.Scheme != "https" {
				s.addProblem(fmt.Sprintf("needs an https url, but the url is %q", u.Address.String()), at("tls")...)
			}
			c.checkUpstreamTLS(u, at("tls"))
		}
	}
	switch {
	case c.Route.Default == "" && len(c.Upstreams) == 1:
		c.Route.Default = c.Upstreams[0].Name
	case c.Route.Default == "":
		s.addProblem("default is needed, since there is more than one upstream", "route")
	case c.Upstreams.Find(c.Route.Default) == nil:
		s.addProblem(c.Upstreams.unknown(c.Route.Default), "route", "default")
	}
}

var code = regexp.MustCompile(`^[A-Za-z0-9_]{1,16}$`)

// unknown returns the text of a problem with a name that no upstream has.
func (u Upstreams) unknown(name string) string {
	hint := translate.DidYouMean(name, u.names())
	if hint == "" {
		hint = "; the upstreams are " + strings.Join(slices.DeleteFunc(u.names(), func(name string) bool { return !upstreamName.MatchString(name) }), ", ")
	}
	return fmt.Sprintf("there is no upstream %q%s", name, hint)
}

// plainPath matches paths without escapes, path parameters and dots, which a server could change.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/?$`)

// checkPass checks that the paths of route.pass are not in the table, and that each has an upstream of its form.
func (c *Config) checkPass() {
	for _, p := range c.Route.Pass {
		if !plainPath.MatchString(p) {
			c.source.addProblem(fmt.Sprintf("must be paths such as /if/read/open, or prefixes such as /cash-receipt/, but one is %q", p), "route", "pass")
			continue
		}
		if c.Table == nil {
			continue
		}
		if o := c.OperationWithSimilarPath(p); o != nil {
			c.source.addProblem(fmt.Sprintf("%q is the path of %s in the table, or so similar that a server may treat it as the same", p, o.Name), "route", "pass")
		}
		if form := c.Table.FormOf(p); c.UpstreamOfForm(form) == nil {
			c.source.addProblem(fmt.Sprintf("%q is a path of the %s form, but no upstream has this form", p, form), "route", "pass")
		}
	}
}

func (c *Config) checkUpstreamTLS(u *Upstream, key []string) {
	if u.TLS.CA = c.resolvePath(u.TLS.CA); u.TLS.CA != "" {
		pem, ok := c.source.readFile(u.TLS.CA, append(key, "ca")...)
		u.TLS.Roots = x509.NewCertPool()
		if !u.TLS.Roots.AppendCertsFromPEM(pem) && ok {
			c.source.addProblem("there is no PEM certificate in "+shownFile(u.TLS.CA), append(key, "ca")...)
		}
	}
	if u.TLS.Client != nil {
		c.checkKeyPair(u.TLS.Client, append(key, "client")...)
	}
}

func (c *Config) checkKeyPair(pair *KeyPair, key ...string) {
	if pair.Cert == "" || pair.Key == "" {
		c.source.addProblem("cert and key are both needed", key...)
		return
	}
	pair.Cert, pair.Key = c.resolvePath(pair.Cert), c.resolvePath(pair.Key)
	if _, err := pair.Certificate(); err != nil {
		c.source.addFileProblem(err, append(key, "cert")...)
	}
}

var reference = regexp.MustCompile(`^\$\{(env|file):(.+)\}$`)

// resolveSecret replaces a reference by the secret, and reports whether it could. If the variable is not set, the secret is empty, which
// is not an error: a loopback admin listener works without its token.
func (c *Config) resolveSecret(secret *Secret, key ...string) bool {
	match := reference.FindStringSubmatch(secret.Reveal())
	switch {
	case match == nil && strings.HasPrefix(secret.Reveal(), "${"):
		c.source.addProblem("must be text, ${env:NAME} or ${file:PATH}", key...)
		return false
	case match == nil:
	case match[1] == "env":
		value, _ := c.source.lookup(match[2])
		*secret = NewSecret(value)
	default:
		data, ok := c.source.readFile(c.resolvePath(match[2]), key...)
		if *secret = NewSecret(strings.TrimSpace(string(data))); ok && !secret.IsSet() {
			c.source.addProblem("the file is empty: "+shownFile(match[2]), key...)
		}
		return secret.IsSet()
	}
	return true
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
