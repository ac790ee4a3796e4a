package config

import (
	"crypto/x509"
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
	"billbridge/translate/billing"
)

// check checks what the tags of the config cannot: references, files, and values that depend on each other.
func (c *Config) check() {
	c.checkListeners()
	c.checkLimits()
	c.compile()
	c.checkUpstreams()
	c.checkKeyPairs()
	c.checkStore()
	c.checkCallbacks()
	c.checkNotify()
	c.checkRollout()
	c.checkPartners()
	if c.Table != nil {
		c.checkPass()
		c.checkPartnerRows()
		c.checkIdentityRows()
		c.checkReadOperation()
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
	drain := child(c.root, "drain")
	c.Drain.Whole = drain != nil && child(drain, "delay") != nil
}

// checkPartnerRows refuses a constant for the partner: every caller would be that partner at the upstream.
func (c *Config) checkPartnerRows() {
	for _, o := range c.Table.Operations() {
		if row, filled, _ := o.RequestRow(billing.Partner); filled {
			text := fmt.Sprintf("fill is not allowed with role: %s: every caller of %s would be this partner",
				billing.Partner, o.Name)
			at := translate.Problem{File: row.File, Line: row.Line, Column: 1, Text: text}
			c.problems = append(c.problems, at)
		}
	}
}

// checkIdentityRows refuses rows by which a bill would have another identity in each form: a rollout and callbacks keep
// the texts that a partner has sent, and compare them with those of its other calls and of callbacks. The gateway's own
// reads use them in another form.
func (c *Config) checkIdentityRows() {
	if c.Rollout == nil && c.Callbacks == nil {
		return
	}
	for _, o := range c.Table.Operations() {
		for _, role := range []string{billing.Partner, billing.Member, billing.Merchant, billing.Bill} {
			if row, _, converted := o.RequestRow(role); converted {
				text := fmt.Sprintf("values, shift and a pattern are not allowed with role: %s, with a rollout or callbacks: "+
					"they need the same text in both forms", role)
				at := translate.Problem{File: row.File, Line: row.Line, Column: 1, Text: text}
				c.problems = append(c.problems, at)
			}
		}
	}
}

// checkReadOperation checks that the table has an operation to read bills, if a rollout or failures.explain needs it.
func (c *Config) checkReadOperation() {
	explained := false // whether a read can explain the outcome of any write
	for _, o := range c.Table.Operations() {
		explained = explained || o.Effect == translate.Write && billing.AboutBill(o)
	}
	read, err := billing.ReadOperation(c.Table)
	switch reads := c.Rollout != nil || c.Failures.Explain > 0 || c.Callbacks != nil && c.Callbacks.Reconcile != nil; {
	case err == nil && read.HasHash() && reads:
		c.addf("table", "%s has a hash, which the gateway's own reads have not: leave out rollout, "+
			"failures.explain and callbacks.reconcile", read.Name)
	case err == nil:
	case c.Rollout != nil:
		c.addf("rollout", "%v", err)
	case explained && c.Failures.Explain > 0:
		c.addf("failures.explain",
			"%v; or set failures.explain: 0s, so that no bill is read after a write without a reply", err)
	}
}

func (c *Config) checkListeners() {
	// The path of a request is matched with its escapes, so an escaped character would never match.
	escaped := (&url.URL{Path: c.BasePath}).EscapedPath()
	if c.BasePath != "" && (path.Clean(c.BasePath) != "/"+strings.Trim(c.BasePath, "/") || escaped != c.BasePath) {
		c.addf("base_path", "must be a plain path such as /partner")
	}
	c.BasePath = strings.TrimRight(c.BasePath, "/")

	c.checkListener(c.Listen, nil, "listen")
	c.checkListener(c.Admin.Listen, []string{c.Listen}, "admin", "listen")
	c.checkAdmin()
}

// checkListener checks an address, and that no other listener has it. Port 0 is any free port.
func (c *Config) checkListener(address string, others []string, key ...string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) || strings.ContainsAny(host, "@/?#") {
		c.addProblem("must be HOST:PORT such as 127.0.0.1:8080", key...)
	} else if port != "0" && slices.Contains(others, address) {
		c.addProblem("must differ from the addresses of the other listeners", key...)
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
		c.addf("route", "default is needed, since there is more than one upstream")
	} else {
		c.checkReference(c.Route.Default, "route", "default")
	}
}

func (c *Config) checkUpstream(u *Upstream) {
	at := func(keys ...string) []string { return append([]string{"upstreams", u.Name}, keys...) }
	problem := func(text string, keys ...string) { c.addProblem(text, at(keys...)...) }
	if !upstreamName.MatchString(u.Name) || u.Name == "none" || u.Name == NotifyUpstream {
		problem("an upstream's name can have up to 32 lower-case letters, digits, - and _, and cannot be none or notify")
	}
	if c.Table != nil {
		var known []string
		for _, form := range c.Table.BackendForms() {
			known = append(known, string(form))
		}
		if !slices.Contains(known, string(u.Form)) {
			problem("must be "+orList(known)+translate.DidYouMean(string(u.Form), known), "form")
		}
	}
	if u.TLS == nil {
		return
	}
	if u.Address.Scheme != "https" {
		problem("needs an https url", "tls")
	}
	if u.TLS.CA != "" {
		pem, ok := c.readFile(u.TLS.CA, at("tls", "ca")...)
		u.TLS.Roots = x509.NewCertPool()
		if !u.TLS.Roots.AppendCertsFromPEM(pem) && ok {
			problem("there is no PEM certificate in the file", "tls", "ca")
		}
	}
}

// checkReference checks the value of a key that names an upstream.
func (c *Config) checkReference(name string, key ...string) {
	if c.Upstreams.Find(name) != nil {
		return
	}
	var names []string // an invalid name may be a secret in the wrong place
	for _, u := range c.Upstreams {
		if upstreamName.MatchString(u.Name) {
			names = append(names, u.Name)
		}
	}
	c.addProblem("there is no such upstream"+suggest(name, "; the upstreams are ", names), key...)
}

// plainPath matches paths without escapes, path parameters and dots, which a server could change.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/?$`)

// checkPass checks that the paths of route.pass are not in the table, and that each has an upstream of its form.
func (c *Config) checkPass() {
	for i, p := range c.Route.Pass {
		problem := func(text string) { c.addProblem(text, "route", fmt.Sprintf("pass[%d]", i)) }
		if !plainPath.MatchString(p) {
			problem("must be a path such as /if/read/open, or a prefix such as /cash-receipt/")
			continue
		}
		if o := c.OperationWithSimilarPath(p); o != nil {
			problem("is the path of " + o.Name + " in the table, or so similar that a server may treat it as the same")
		}
		if form := c.Table.FormOf(p); c.UpstreamOfForm(form) == nil {
			problem(fmt.Sprintf("is a path of the %s form, but no upstream has this form", form))
		}
	}
}

func (c *Config) checkKeyPairs() {
	for _, pair := range c.KeyPairs() {
		if _, err := pair.Certificate(); err != nil {
			c.addProblem(c.fileText(err), pair.path...)
		}
	}
}

var reference = regexp.MustCompile(`^\$\{(env|file):(.+)\}$`)

// resolve replaces a reference by the secret. It returns the text of a problem, or "".
func (s *source) resolve(secret *Secret) string {
	match := reference.FindStringSubmatch(secret.Reveal())
	switch {
	case match == nil && strings.HasPrefix(secret.Reveal(), "${"):
		return "must be text, ${env:NAME} or ${file:PATH}"
	case match == nil:
	case match[1] == "env":
		value, _ := s.lookup(match[2])
		text, err := SecretText(value)
		if *secret = NewSecret(text); err != nil {
			return "the environment variable " + err.Error()
		} else if !secret.IsSet() {
			return "the environment variable is not set"
		}
	default:
		data, err := os.ReadFile(s.resolvePath(match[2]))
		if err != nil {
			return s.fileText(err)
		}
		text, err := SecretText(string(data))
		if *secret = NewSecret(text); err != nil {
			return "the file " + err.Error()
		} else if !secret.IsSet() {
			return "the file is empty"
		}
	}
	return ""
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
