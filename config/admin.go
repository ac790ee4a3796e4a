package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"billbridge/translate"
)

// Admin is the listener for the operator.
type Admin struct {
	Listen string       `yaml:"listen" config:"restart" default:"127.0.0.1:9090"`
	Token  Secret       `yaml:"token"`  // without a name; a token is required if Listen is not loopback
	Tokens []AdminToken `yaml:"tokens"` // with names, beside Token

	TLS *KeyPair `yaml:"tls" config:"restart"` // nil for plain HTTP

	// Position is the position of Listen in the file, for warnings. Its Text is empty.
	Position translate.Problem `yaml:"-"`
}

// An AdminToken is a token of one person or program.
type AdminToken struct {
	Name  string     `yaml:"name" config:"required"` // in the audit log; "" for admin.token alone
	Token Secret     `yaml:"token" config:"required"`
	May   Permission `yaml:"may" config:"required" words:"read operate" missing:": read or operate"`
}

// A Permission says what the owner of a token may do.
type Permission string

// Read allows requests that change nothing. Operate allows all.
const (
	Read    Permission = "read"
	Operate Permission = "operate"
)

// AllTokens returns the tokens with and without a name. If there is none, the listener needs no token.
func (a *Admin) AllTokens() []AdminToken {
	var all []AdminToken
	if a.Token.IsSet() {
		all = append(all, AdminToken{Token: a.Token, May: Operate})
	}
	return append(all, a.Tokens...)
}

// A token that nobody can guess has at least shortestToken bytes: right ones are answered at once.
const (
	shortestToken = 16
	tooShort      = "has fewer than 16 characters, so that it can be guessed: make one with openssl rand -hex 16"
)

// ShortToken returns the key of a token that can be guessed, or "" if there is none.
func (a *Admin) ShortToken() string {
	isShort := func(t AdminToken) bool { return t.Token.IsSet() && len(t.Token.Reveal()) < shortestToken }
	if isShort(AdminToken{Token: a.Token}) {
		return "admin.token"
	}
	if i := slices.IndexFunc(a.Tokens, isShort); i >= 0 {
		return fmt.Sprintf("admin.tokens[%d].token", i)
	}
	return ""
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,59}$`)

// checkAdmin checks the tokens of the admin listener.
func (c *Config) checkAdmin() {
	c.Admin.Position = c.position("admin.listen")
	c.checkTokens()
	host, _, err := net.SplitHostPort(c.Admin.Listen)
	remote := err == nil && !Loopback(host)
	if remote && len(c.Admin.AllTokens()) == 0 {
		c.add("admin.token", "a token is needed, since admin.listen is not loopback")
	}
	if short := c.Admin.ShortToken(); short != "" && remote {
		c.add(short, tooShort)
	} else if short != "" {
		c.warnf(short, tooShort)
	}
}

func (c *Config) checkTokens() {
	names, values := map[string]string{}, map[string]string{c.Admin.Token.Reveal(): "admin.token"}
	for i, one := range c.Admin.Tokens {
		entry, name, value := fmt.Sprintf("tokens[%d]", i), strings.ToLower(one.Name), one.Token.Reveal()
		key := "admin." + entry
		if !tokenName.MatchString(one.Name) {
			c.add(key+".name", "must be 1 to 60 letters, digits, dots, - , _ and @, and begin with a letter or digit")
		} else if names[name] != "" {
			c.add(key+".name", "is the name of "+names[name]+", too: upper and lower case count as equal")
		} else {
			names[name] = entry
		}
		if values[value] != "" {
			c.add(key+".token", "is equal to "+values[value]+": each token must be another")
		}
		values[value] = key + ".token"
	}
}
