package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"billbridge/translate"
)

// Warnings returns what is allowed and probably a mistake, with positions. The address of the admin listener may be
// changed before.
func (c *Config) Warnings() translate.Problems {
	list := slices.Clone(c.warnings)
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && !Loopback(host) && c.Admin.TLS == nil {
		w := c.Admin.Position
		w.Text = PlainAdmin
		list = append(list, w)
	}
	return list.Sorted()
}

// PlainAdmin is the warning about an admin listener that other machines can reach, without TLS.
const PlainAdmin = "admin.listen: the admin token crosses the network in plain text, " +
	"since the address is not loopback: set admin.tls"

// warnf adds a warning with a key.
func (c *Config) warnf(key, format string, args ...any) {
	c.warnings = append(c.warnings, c.problem(c.find(key), key, fmt.Sprintf(format, args...)))
}

// warn collects the warnings of a valid config.
func (c *Config) warn() {
	c.warnAboutTable()
	c.warnAboutMeanings()
	c.warnAboutForms()
	c.warnAboutStore()
	for _, u := range c.Upstreams {
		if time.Duration(u.Timeout) < longestPartner {
			c.warnf("upstreams."+u.Name+".timeout", "is %s, but programs of partners wait up to %s: "+
				"a create that takes longer is reported as an unknown outcome, "+
				"and a partner that then bills again under a new id has two bills. "+
				"The default is 40s", u.Timeout, Duration(longestPartner))
		}
	}
	for _, pair := range c.KeyPairs() { // they refuse nothing: whoever connects may do so
		end := pair.NotAfter()
		if left := time.Until(end); !end.IsZero() && left <= 21*24*time.Hour {
			verb := "ends"
			if left < 0 {
				verb = "ended"
			}
			c.warnf(pair.key, "the certificate %s on %s: put the new one into the files, "+
				"which are read again without a restart", verb, end.UTC().Format(time.RFC3339))
		}
	}
}

// longestPartner is the longest time that programs of partners were seen to wait for a reply, except those that wait
// for ever.
const longestPartner = 30 * time.Second

// warnAboutStore warns about a connection to PostgreSQL that may be in plain text: then the password and all data
// cross the network.
func (c *Config) warnAboutStore() {
	scheme, rest, _ := strings.Cut(c.Store.URL.Reveal(), "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return
	}
	rest, query, _ := strings.Cut(rest, "?")
	parameters, _ := url.ParseQuery(query) // net/url refuses several hosts with ports, which PostgreSQL allows
	authority, _, _ := strings.Cut(rest, "/")
	hosts := strings.Split(authority[strings.LastIndex(authority, "@")+1:], ",")
	hosts = append(hosts, strings.Split(parameters.Get("host"), ",")...)
	mode := parameters.Get("sslmode")
	if mode == "" {
		mode, _ = c.lookup("PGSSLMODE")
	}
	if !slices.Contains([]string{"", "disable", "allow", "prefer"}, mode) || !slices.ContainsFunc(hosts, isRemote) {
		return
	}
	c.warnf("store.url", "the connection to PostgreSQL may be in plain text: add sslmode=verify-full to the URL, or "+
		"sslmode=require if its certificate cannot be verified")
}

// isRemote reports whether a host, with or without a port, is another machine: "" is the local one, and a path is
// that of a socket.
func isRemote(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host != "" && !strings.HasPrefix(host, "/") && !Loopback(host)
}
