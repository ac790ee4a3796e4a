package config

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"billbridge/translate"
)

// Warnings returns what is allowed and probably a mistake, with positions. The address of the admin listener may be changed before.
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
const PlainAdmin = "admin.listen: the admin token crosses the network in plain text, since the address is not loopback: set admin.tls"

// checkStoreTLS warns about a connection to PostgreSQL that may be in plain text: then the password and all data cross the network.
func (c *Config) checkStoreTLS() {
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
		mode, _ = c.source.lookup("PGSSLMODE")
	}
	if !slices.Contains([]string{"", "disable", "allow", "prefer"}, mode) || !slices.ContainsFunc(hosts, isRemote) {
		return
	}
	w := c.Store.Position
	w.Text = "store.url: the connection to PostgreSQL may be in plain text: add sslmode=verify-full to the URL, or sslmode=require if its certificate cannot be verified"
	c.warnings = append(c.warnings, w)
}

// isRemote reports whether a host, with or without a port, is another machine: "" is the local one, and a path is that of a socket.
func isRemote(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host != "" && !strings.HasPrefix(host, "/") && !Loopback(host)
}
