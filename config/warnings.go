package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"
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

// warn collects the warnings of a valid config.
func (c *Config) warn() {
	c.warnAboutTable()
	c.warnAboutStore()
	c.warnAboutTimeouts()
	c.warnAboutCertificates()
}

// warnAboutCertificates warns about certificates that end within three weeks. They refuse nothing: whoever connects
// may do so.
func (c *Config) warnAboutCertificates() {
	for _, pair := range c.KeyPairs() {
		end := pair.NotAfter()
		verb := "ends"
		switch left := time.Until(end); {
		case end.IsZero() || left > 21*24*time.Hour:
			continue
		case left < 0:
			verb = "ended"
		}
		c.addWarning(fmt.Sprintf("the certificate %s on %s: put the new one into the files, "+
			"which are read again without a restart", verb, end.UTC().Format(time.RFC3339)), pair.path...)
	}
}

// longestPartner is the longest time that programs of partners were seen to wait for a reply, except those that wait
// for ever.
const longestPartner = 30 * time.Second

// warnAboutTimeouts warns about upstreams that get less time than programs of partners wait for.
func (c *Config) warnAboutTimeouts() {
	for _, u := range c.Upstreams {
		if time.Duration(u.Timeout) < longestPartner {
			text := fmt.Sprintf("is %s, but programs of partners wait up to %s: "+
				"a create that takes longer is reported as an unknown outcome, "+
				"and a partner that then bills again under a new id has two bills. "+
				"The default is 40s", u.Timeout, Duration(longestPartner))
			c.addWarning(text, "upstreams", u.Name, "timeout")
		}
	}
}

// addWarning adds a warning at the position of a key.
func (c *Config) addWarning(text string, path ...string) {
	c.warnings = append(c.warnings, c.problem(text, path...))
}

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
	c.addWarning("the connection to PostgreSQL may be in plain text: add sslmode=verify-full to the URL, or "+
		"sslmode=require if its certificate cannot be verified", "store", "url")
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

// warnAboutTable warns about what the overlay takes from the table, and about operations whose requests do not name
// the partner.
func (c *Config) warnAboutTable() {
	for _, change := range c.Table.Changes() {
		if len(change.Lost) > 0 {
			lost := strings.Join(change.Lost, ", ")
			text := fmt.Sprintf("table.overlay: %s loses %s: %s", change.Message, lost, change.Before)
			w := translate.Problem{File: change.File, Line: change.Line, Column: 1, Text: text}
			c.warnings = append(c.warnings, w)
		}
	}
	c.warnAboutCodes()
	c.warnAboutMeanings()
	var anonymous []string
	for _, o := range c.Table.Operations() {
		if !o.HasRole(translate.Request, billing.Partner) {
			anonymous = append(anonymous, o.Name)
		}
	}
	if len(anonymous) > 0 {
		c.addWarning(fmt.Sprintf("the request of %s has no row with role: %s: the limits of one "+
			"partner do not apply to its calls", strings.Join(anonymous, ", "), billing.Partner), "table")
	}
}

// warnAboutMeanings warns about meanings and roles that the gateway needs and the table does not have.
func (c *Config) warnAboutMeanings() {
	t := c.Table
	warn := func(text string, args ...any) { c.addWarning(fmt.Sprintf(text, args...), "table") }
	own := t.OwnCode(translate.OwnUnavailable)
	if t.CodeThatMeans(translate.Unavailable) == "" && own == t.RefusalCode(false) {
		warn("no code means unavailable: calls that were not sent are answered with %s, as refusals are. "+
			"Add one to codes.unavailable, or write failures: {unavailable: CODE}", own)
	}
	var missing []string
	for _, means := range []translate.Meaning{translate.Exists, translate.CallerRefused, translate.Malformed} {
		if t.CodeThatMeans(means) == "" {
			missing = append(missing, string(means))
		}
	}
	if len(missing) > 0 && billing.CreateOperation(t) != nil {
		warn("no code means %s: the outcome of a create that fails for this reason is unknown", strings.Join(missing, ", "))
	}
	for _, form := range t.Forms() {
		if other := t.OtherCode(form); t.Means(form, other, translate.Unavailable) {
			warn("a code without a pair becomes %s in %s, which means unavailable: programs in %[2]s can take a refusal for "+
				"a failure of the service, and send again: add pairs for the codes that the backend uses", other, form)
		}
	}
	for _, o := range t.Operations() {
		list := slices.ContainsFunc(o.Fields(), func(f translate.Field) bool { return strings.Contains(f.Source, "[]") })
		if list && o.ByStage() && !billing.AboutBill(o) && c.Rollout != nil && c.Rollout.Bills == Separate {
			about, _ := t.Nouns(false)
			warn("%s lists what one backend has: during a rollout a partner can have a %s at each", o.Name, about)
		}
	}
	if _, err := billing.ReadOperation(t); err != nil {
		warn("the console cannot read a bill: %v", err)
	}
}

// warnAboutCodes warns about codes that only a form has and that have a meaning, since clients of the other form do not
// know them and can take a duplicate after an unknown outcome for a refusal, about words that such clients expect to be
// numbers, and about links that they may need.
func (c *Config) warnAboutCodes() {
	codes, meaning, forms := map[translate.Form][]string{}, map[string]translate.Meaning{}, c.Table.Forms()
	for _, m := range c.Table.Meanings() {
		if m.Form != "" && c.Table.Unpaired(m.Form, m.Code) {
			codes[m.Form], meaning[m.Code] = append(codes[m.Form], m.Code), m.Means
		}
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		warn := func(text string) { c.addWarning(text, "upstreams", u.Name) }
		if words := c.Table.WordsWithoutPairs(u.Form); len(words) > 0 {
			warn(fmt.Sprintf("words in %s have no pairs: partners in the other form get text where they expect "+
				"a number, and typed programs then fail. Ask for the numbers, and add values to the row; "+
				"or a pair with other: null (no value), or other (the word) in the form with numbers",
				strings.Join(words, ", ")))
		}
		if create := billing.CreateOperation(c.Table); create != nil && create.MayLack(billing.Link) &&
			u.Form != forms[0] {
			warn("the reply to a create may have no link: programs of partners in the other form may need one, and then " +
				"take a bill that was sent as failed. Ask the backend's operator. If replies have it, say so in an overlay: " +
				fmt.Sprintf("operations: {%s: {reply: {%s: {required: null}}}}", create.Name,
					create.PathOf(translate.Reply, billing.Link, forms[0])))
		}
		if list := codes[u.Form]; len(list) > 0 {
			warn(fmt.Sprintf("the code %s of %s stands for none of %s: "+
				"partners in the other form get it as it is, and do not know it. "+
				"If the backend uses it, write what it stands for, such as forms: {%[2]s: {codes: {%[4]q: %[5]s}}}; "+
				"if not, write open there",
				strings.Join(list, ", "), u.Form, forms[0], list[0], c.Table.CodeThatMeans(meaning[list[0]])))
		}
	}
}
