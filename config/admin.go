package config

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// Admin is the listener for the operator.
type Admin struct {
	Listen string       `yaml:"listen"`
	Token  Secret       `yaml:"token"`  // without a name; a token is required if Listen is not loopback
	Tokens []AdminToken `yaml:"tokens"` // with names, beside Token

	Console bool `yaml:"console"` // whether the listener has pages

	TLS *KeyPair `yaml:"tls"` // nil for plain HTTP

	// Position is the position of Listen in the file, for warnings. Its Text is empty.
	Position translate.Problem `yaml:"-"`
}

// An AdminToken is a token of one person or program.
type AdminToken struct {
	Name  string     `yaml:"name" config:"required"` // in the audit log; "" for admin.token alone
	Token Secret     `yaml:"token" config:"required"`
	May   Permission `yaml:"may" config:"required"`
}

// A Permission says what the owner of a token may do.
type Permission string

// Read allows requests that change nothing. Operate allows all.
const (
	Read    Permission = "read"
	Operate Permission = "operate"
)

func (Permission) words() []string { return texts(Read, Operate) }

// UnmarshalYAML reads read or operate.
func (p *Permission) UnmarshalYAML(n *yaml.Node) error { return loadWord(n, p) }

// AllTokens returns the tokens with and without a name. If there is none, the listener needs no token.
func (a *Admin) AllTokens() []AdminToken {
	var all []AdminToken
	if a.Token.IsSet() {
		all = append(all, AdminToken{Token: a.Token, May: Operate})
	}
	return append(all, a.Tokens...)
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,59}$`)

// checkAdmin checks the tokens of the admin listener, and resolves them.
func (c *Config) checkAdmin() {
	c.Admin.Position = c.source.position("admin", "listen")
	inFile := c.Admin.Token.Reveal()
	resolved := c.resolveSecret(&c.Admin.Token, "admin", "token")
	c.checkTokens()
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && resolved && len(c.Admin.AllTokens()) == 0 && !Loopback(host) {
		text := fmt.Sprintf("a token is needed, since admin.listen is not loopback: %q", c.Admin.Listen)
		if inFile != "" { // it is a reference, since the token itself is empty
			text += "; " + inFile + " is not set"
		}
		c.source.addProblem(text, "admin", "token")
	}
	if c.Admin.TLS != nil {
		c.checkKeyPair(c.Admin.TLS, "admin", "tls")
	}
}

func (c *Config) checkTokens() {
	names, values := map[string]int{}, map[string]string{}
	if c.Admin.Token.IsSet() {
		values[c.Admin.Token.Reveal()] = "admin.token"
	}
	for i := range c.Admin.Tokens {
		one, entry := &c.Admin.Tokens[i], fmt.Sprintf("tokens[%d]", i)
		problem := func(key, text string) { c.source.addProblem(text, "admin", entry, key) }
		if name := strings.ToLower(one.Name); !tokenName.MatchString(one.Name) {
			problem("name", fmt.Sprintf("must be 1 to 60 letters, digits, dots, - , _ and @, and begin with a letter or digit, but is %q", one.Name))
		} else if first, twice := names[name]; twice {
			problem("name", fmt.Sprintf("is the name of tokens[%d], too: upper and lower case count as equal", first))
		} else {
			names[name] = i
		}
		if one.May == "" {
			problem("may", "is needed: read or operate")
		}
		inFile := one.Token.Reveal()
		switch resolved := c.resolveSecret(&one.Token, "admin", entry, "token"); {
		case !resolved: // a problem already
		case inFile == "":
			problem("token", "is needed: text, ${env:NAME} or ${file:PATH}")
		case !one.Token.IsSet():
			problem("token", inFile+" is not set")
		case values[one.Token.Reveal()] != "":
			problem("token", "is equal to "+values[one.Token.Reveal()]+": each token must be another")
		default:
			values[one.Token.Reveal()] = "admin." + entry + ".token"
		}
	}
}
