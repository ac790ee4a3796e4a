package config

import (
	"fmt"
	"slices"
	"strings"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// checkTable checks that the table has what the other sections need.
func (c *Config) checkTable() {
	c.checkPass()
	c.checkRequestRows()
	c.checkReadOperation()
	if c.Callbacks != nil {
		c.checkCallbackTable()
	}
	if c.Rollout != nil {
		c.checkRolloutTable()
	}
}

// atRow returns a problem of a row in a table file.
func atRow(file string, line int, text string) translate.Problem {
	return translate.Problem{File: file, Line: line, Column: 1, Text: text}
}

// checkRequestRows refuses a constant for the partner: every caller would be that partner at the upstream. It refuses
// rows by which a bill would have another identity in each form: a rollout and callbacks keep the texts that a partner
// has sent, and compare them with those of its other calls and of callbacks. The gateway's own reads use them in
// another form.
func (c *Config) checkRequestRows() {
	for _, o := range c.Table.Operations {
		for _, role := range []string{billing.Partner, billing.Member, billing.Merchant, billing.Bill} {
			row, filled, converted := o.RequestRow(role)
			if filled && role == billing.Partner {
				c.problems = append(c.problems, atRow(row.File, row.Line, fmt.Sprintf(
					"fill is not allowed with role: %s: every caller of %s would be this partner", role, o.Name)))
			}
			if converted && (c.Rollout != nil || c.Callbacks != nil) {
				c.problems = append(c.problems, atRow(row.File, row.Line, fmt.Sprintf(
					"values, shift and a pattern are not allowed with role: %s, with a rollout or callbacks: "+
						"they need the same text in both forms", role)))
			}
		}
	}
}

// checkReadOperation checks that the table has an operation to read bills, if the config needs it.
func (c *Config) checkReadOperation() {
	reconcile := c.Callbacks != nil && c.Callbacks.Reconcile != nil
	read, err := billing.ReadOperation(c.Table)
	if err == nil && read.HasHash() && (c.Rollout != nil || reconcile) {
		c.addf("table", "%s has a hash, which the gateway's own reads have not: leave out rollout and "+
			"callbacks.reconcile", read.Name)
	}
	if err != nil && reconcile {
		c.add("callbacks.reconcile", err.Error())
	}
	if err != nil && c.Rollout != nil {
		c.add("rollout", err.Error())
	}
}

// checkCallbackTable checks that the gateway finds the address in the requests. Otherwise the upstream would get the
// partner's own address, and the partner callbacks that nobody stores or translates.
func (c *Config) checkCallbackTable() {
	if callback := c.Table.Callback; callback != nil { // else checkStore reports it
		identified := callback.IdentifiedBy()
		if !slices.Contains(identified, billing.Bill) && billing.CreateOperation(c.Table) != nil {
			c.add("callbacks", "the callback of the table has no role: bill in both forms, "+
				"by which the gateway finds the earlier callbacks of a bill")
		}
		if !slices.Contains(identified, billing.Partner) && c.Callbacks.RequireKey {
			c.add("callbacks.require_key", "the callback of the table has no role: partner in both forms")
		}
	}
	found := false
	for _, o := range c.Table.Operations {
		found = found || o.HasRole(translate.Request, billing.Callback)
		for _, form := range c.Table.Forms() {
			if billing.Creates(o) && o.Path(form) != "" && !o.HasRole(translate.Request, billing.Callback, form) {
				c.addf("callbacks", "the request of %s needs role: callback in %s, "+
					"by which the gateway finds the address that it replaces; "+
					"otherwise the upstream calls the partner directly", o.Name, form)
				found = true
			}
		}
	}
	if !found {
		c.add("callbacks", "no request of the table has role: callback, "+
			"by which the gateway finds the addresses that it replaces")
	}
}

// checkRolloutTable checks that the table has what the rollout needs, and that shadow.ignore names fields of the table.
func (c *Config) checkRolloutTable() {
	forms := c.Table.Forms()
	if billing.CreateOperation(c.Table) == nil {
		c.add("rollout", "no operation of the table has creates: bill, "+
			"by which a rollout sends new bills to a backend")
	}
	if c.Table.CodeThatMeans(translate.NotFound) == "" {
		c.add("rollout", "the table has no codes.not_found, by which a backend says that it has no such bill")
	}
	var paths []string // of replies to reads
	for _, o := range c.Table.Operations {
		inBothForms := o.Path(forms[0]) != "" && o.Path(forms[1]) != ""
		if o.Effect == translate.Write && inBothForms && !billing.HasPartnerAndBill(o) {
			c.addf("rollout", "the request of %s needs role: partner and role: bill in each form, "+
				"by which a rollout finds the backend of a call", o.Name)
		}
		for _, f := range o.Fields() {
			if o.Effect == translate.Read && f.Message == string(translate.Reply) && f.From == forms[0] &&
				!strings.Contains(f.Source, "[") {
				paths = append(paths, f.Source)
			}
		}
	}
	for i, ignored := range c.Rollout.Shadow.Ignore {
		matches := func(path string) bool {
			return ignored != "" && (path == ignored || strings.HasPrefix(path, ignored+"."))
		}
		if !slices.ContainsFunc(paths, matches) {
			c.addf(fmt.Sprintf("rollout.shadow.ignore[%d]", i),
				"no reply of a read has this field; write its path in %s%s",
				forms[0], translate.DidYouMean(ignored, paths))
		}
	}
}

// warnAboutTable warns about what the overlay takes from the table, and about operations whose requests do not name
// the partner.
func (c *Config) warnAboutTable() {
	for _, change := range c.Table.Changes {
		if len(change.Lost) > 0 {
			lost := strings.Join(change.Lost, ", ")
			text := fmt.Sprintf("table.overlay: %s loses %s: %s", change.Message, lost, change.Before)
			c.warnings = append(c.warnings, atRow(change.File, change.Line, text))
		}
	}
	var anonymous []string
	for _, o := range c.Table.Operations {
		if !o.HasRole(translate.Request, billing.Partner) {
			anonymous = append(anonymous, o.Name)
		}
	}
	if len(anonymous) > 0 {
		c.warnf("table", "the request of %s has no row with role: %s: "+
			"the limits of one partner do not apply to its calls", strings.Join(anonymous, ", "), billing.Partner)
	}
}

// warnAboutMeanings warns about meanings and roles that the gateway needs and the table does not have.
func (c *Config) warnAboutMeanings() {
	t := c.Table
	own := t.Own[translate.OwnUnavailable]
	if t.CodeThatMeans(translate.Unavailable) == "" && own == t.Own[translate.OwnInvalid] {
		c.warnf("table", "no code means unavailable: calls that were not sent are answered with %s, as refusals are. "+
			"Add one to codes.unavailable, or write failures: {unavailable: CODE}", own)
	}
	var missing []string
	for _, means := range []translate.Meaning{translate.Exists, translate.CallerRefused, translate.Malformed} {
		if t.CodeThatMeans(means) == "" {
			missing = append(missing, string(means))
		}
	}
	if len(missing) > 0 && billing.CreateOperation(t) != nil {
		c.warnf("table", "no code means %s: the outcome of a create that fails for this reason is unknown",
			strings.Join(missing, ", "))
	}
	for _, form := range t.Forms() {
		if e := t.Envelope(form); e.Means(e.OtherCode, translate.Unavailable) {
			c.warnf("table", "a code without a pair becomes %s in %s, which means unavailable: "+
				"programs in %[2]s can take a refusal for a failure of the service, and send again: "+
				"add pairs for the codes that the backend uses", e.OtherCode, form)
		}
	}
	for _, o := range t.Operations {
		isItem := func(f translate.Field) bool { return strings.Contains(f.Source, "[]") }
		list := slices.ContainsFunc(o.Fields(), isItem)
		if list && o.ByStage() && !billing.AboutBill(o) && c.Rollout != nil && c.Rollout.Bills == Separate {
			c.warnf("table", "%s lists what one backend has: during a rollout a partner can have one %s at each",
				o.Name, t.Nouns.En[0])
		}
	}
	if _, err := billing.ReadOperation(t); err != nil {
		c.warnf("table", "the console cannot read a bill: %v", err)
	}
}

// warnAboutForms warns about upstreams whose form has codes with a meaning that the other form has not, since clients
// of the other form do not know them and can take a duplicate after an unknown outcome for a refusal, about words that
// such clients expect to be numbers, and about links that they may need.
func (c *Config) warnAboutForms() {
	first, create := c.Table.Forms()[0], billing.CreateOperation(c.Table)
	for _, u := range c.Upstreams {
		key := "upstreams." + u.Name
		if words := c.Table.WordsWithoutPairs(u.Form); len(words) > 0 {
			c.warnf(key, "words in %s have no pairs: partners in the other form get text where they expect "+
				"a number, and typed programs then fail. Ask for the numbers, and add values to the row; "+
				"or a pair with other: null (no value), or other (the word) in the form with numbers",
				strings.Join(words, ", "))
		}
		if create != nil && create.MayLack(billing.Link) && u.Form != first {
			c.warnf(key, "the reply to a create may have no link: programs of partners in the other form may need "+
				"one, and then take a bill that was sent as failed. Ask the backend's operator. "+
				"If replies have it, say so in an overlay: operations: {%s: {reply: {%s: {required: null}}}}",
				create.Name, create.PathOf(translate.Reply, billing.Link, first))
		}
		var codes []string
		var means translate.Meaning // of the first
		for _, m := range c.Table.Meanings {
			if m.Form == u.Form && c.Table.Envelope(m.Form).Unpaired(m.Code) {
				if codes = append(codes, m.Code); len(codes) == 1 {
					means = m.Means
				}
			}
		}
		if len(codes) > 0 {
			c.warnf(key, "the code %s of %s stands for none of %s: "+
				"partners in the other form get it as it is, and do not know it. "+
				"If the backend uses it, write what it stands for, such as forms: {%[2]s: {codes: {%[4]q: %[5]s}}}; "+
				"if not, write open there",
				strings.Join(codes, ", "), u.Form, first, codes[0], c.Table.CodeThatMeans(means))
		}
	}
}
