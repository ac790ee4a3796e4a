package translate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// readTable reads the tree into the table.
func (s *source) readTable() {
	t := s.table
	var keys struct {
		Forms, Roles, Codes, Operations *yaml.Node `must:"be"`
		Failures, Fields, Callbacks     *yaml.Node
		Nouns                           struct{ Ko, En []string }
		Bounds                          string `is:"upstream|enforce"`
		Unknown                         struct {
			Request string `is:"drop|pass|refuse"`
			Reply   string `is:"drop|pass"`
		}
	}
	keys.Unknown.Request, keys.Unknown.Reply = "refuse", "drop"
	keys.Nouns.Ko, keys.Nouns.En = []string{"대상", "서비스"}, []string{"object", "service"}
	if !s.decode(s.root, "a table", &keys) {
		return
	}
	onReply := keys.Unknown.Reply
	t.bounds = keys.Bounds
	t.unknown = map[Message]string{Request: keys.Unknown.Request, Reply: onReply, callbackMessage: onReply}
	s.readForms(keys.Forms)
	t.roles, t.fields = map[string]*role{}, map[string]*fieldText{}
	for name, v := range s.members(keys.Roles, "roles") {
		r := &role{name: s.fieldPath(name, "a name")}
		if t.roles[r.name] = r; s.decode(v, "a role", r) {
			s.readMoves(r, v)
		}
	}
	for name, v := range s.members(keys.Fields, "fields") {
		t.fields[s.fieldPath(name, "a field name")] = s.readFieldText(v)
	}
	switch {
	case len(s.problems) > 0:
		return
	case len(t.forms) < 2 || t.forms[1].like == 0:
		s.errorf(s.root, "forms: a table needs two forms that are like no other")
		return
	}
	s.forms = names(keys.Forms) // an overlay may have removed one
	t.Nouns = keys.Nouns
	for language, words := range map[string][]string{"ko": t.Nouns.Ko, "en": t.Nouns.En} {
		if len(words) != 2 {
			s.errorf(child(child(s.root, "nouns"), language),
				"nouns: write what calls are about, and who answers them, as in en: [bill, billing service]")
		}
	}
	s.readCodes(keys.Codes)
	s.readOwn(keys.Failures, keys.Codes)
	for f := range t.forms {
		if len(s.problems) == 0 {
			s.checkEnvelopeCodes(&t.forms[f], child(keys.Forms, s.forms[f]))
		}
	}
	for name, value := range s.members(keys.Operations, "operations") {
		s.readOperation(name, value)
	}
	s.readCallbacks(keys.Callbacks, keys.Operations)
	s.checkReferences(keys.Operations)
	for _, name := range names(keys.Fields) {
		switch key, _ := find(keys.Fields, name); {
		case t.fields[name].used || len(s.problems) > 0:
		case len(t.files) == 1 || key.Column >= fileColumns:
			s.errorf(key, "fields: no row has the name %s", name)
		default: // an overlay has removed its rows
			*keys.Fields = *without(keys.Fields, name)
		}
	}
}

// readFieldText reads what `fields` says of a field: a text, or a text and an example. The type of the example is that
// of the field if its rows have no conversion.
func (s *source) readFieldText(n *yaml.Node) *fieldText {
	f, list := &fieldText{exampleKind: text}, listOf(n)
	if f.about = s.str(list[0], "a field"); len(list) == 1 {
		return f
	}
	n = list[1]
	f.example = s.str(n, "an example")
	switch {
	case n.Tag == "!!bool" && (f.example == "true" || f.example == "false"):
		f.exampleKind = boolean
	case (n.Tag == "!!int" || n.Tag == "!!float") && isDecimal(f.example):
		f.exampleKind = number
	}
	return f
}

// moveExpression finds the meanings of a move. They have no spaces: the store joins them.
var moveExpression = regexp.MustCompile(`^(\S+) to (\S+)$`)

// readMoves reads which meanings values of a role have, and which can follow after which.
func (s *source) readMoves(r *role, n *yaml.Node) {
	r.next = map[string][]string{}
	if r.Secret && r.Public {
		s.errorf(n, "role %s cannot be secret and public", r.name)
	}
	if r.Same != "" && r.Many {
		s.errorf(n, "role %s cannot have many rows and be the same in request and reply", r.name)
	}
	for _, move := range r.Moves {
		ends := moveExpression.FindStringSubmatch(move)
		if ends == nil {
			s.errorf(child(n, "moves"), "moves: %q is not like \"unpaid to paid\"", move)
			continue
		}
		r.next[ends[1]] = append(r.next[ends[1]], ends[2])
		for _, meaning := range ends[1:] {
			if !slices.Contains(r.means, meaning) {
				r.means = append(r.means, meaning)
			}
		}
	}
	for _, meaning := range r.Done {
		if !slices.Contains(r.means, meaning) {
			s.errorf(child(n, "done"), "done: role %s has no meaning %q%s", r.name, meaning,
				DidYouMean(meaning, r.means))
		}
	}
}

// readSuccess reads the codes of a success. A form that has it as a number has numbers for all its codes.
func (s *source) readSuccess(n *yaml.Node) {
	var keys struct {
		Codes byForm[constant] `by:"form"`
		Text  constant
	}
	if n != nil && n.Kind == yaml.ScalarNode { // one for all forms
		n = mappingAt(n, scalar(s.forms[0], n), n, scalar(s.forms[1], n), n)
	}
	s.decode(n, "success", &keys)
	s.table.successText = keys.Text
	for f, c := range keys.Codes {
		form := &s.table.forms[f]
		if c.kind == absent && form.object != "" && form.flag != "" {
			c.text = cmp.Or(cmp.Or(keys.Codes...).text, "success") // no reply has it
			c.json = string(appendString(nil, c.text))
		}
		if c.text == "" || c.kind == boolean {
			missing := "the code for %s, text or a number, is missing"
			if form.object != "" {
				missing = "%s has its code in an object, so it needs a flag, or the code of a success, text or a number"
			}
			s.errorf(n, "codes.success: "+missing, form.name)
		}
		form.numeric, form.code, form.success = c.kind == number, c, cmp.Or(form.flagIs[1], c)
	}
	if code := s.table.forms[0].code.text; code != "" {
		s.addToCatalogue(code, "")
	}
}

// readOwn reads the codes of the gateway's own failures.
func (s *source) readOwn(n, codes *yaml.Node) {
	var keys struct {
		Failed, Unavailable string `is:"a code"`
		NoUpstream          string `is:"a code" key:"no_upstream"`
	}
	s.decode(n, "failures", &keys)
	t := s.table
	if t.invalid = t.CodeThatMeans(Malformed); t.invalid == "" {
		s.errorf(codes, "codes.malformed is missing: its first code is that of refusals whose row names none")
	}
	failed := cmp.Or(keys.Failed, t.CodeThatMeans(Unavailable), t.invalid)
	t.Own = map[OwnFailure]string{
		OwnFailed: failed, OwnUnavailable: cmp.Or(keys.Unavailable, failed),
		OwnNoUpstream: cmp.Or(keys.NoUpstream, failed), OwnInvalid: t.invalid,
	}
}

// checkReferences checks what can be checked only when the whole table has been read.
func (s *source) checkReferences(operations *yaml.Node) {
	t := s.table
	s.checkAllMeanings()
	paths := map[string]string{} // by path: the operation, since the gateway finds the operation of a call by its path
	for i, o := range t.Operations {
		name := operations.Content[2*i]
		for role, value := range o.sets {
			if r := t.role(role); r.rows != nil && r.meaning(value, 0) == "" {
				s.errorf(child(operations.Content[2*i+1], "sets"),
					"sets: %q has no meaning: add it to means of a row with role: %s", value, role)
			}
		}
		for _, p := range o.paths[:2] {
			if paths[p] != "" && p != "" {
				s.errorf(name, "%s and %s have the same path, %s", paths[p], o.Name, p)
			}
			paths[p] = o.Name
		}
	}
}

// checkAllMeanings checks that each meaning of a role whose rows have means, and each that no_value_while names, is
// that of a value: an overlay that replaces means, or removes the row, can leave one out without a word.
func (s *source) checkAllMeanings() {
	if len(s.problems) > 0 {
		return
	}
	for _, o := range s.table.Operations {
		for _, r := range o.rows[Reply] {
			for _, meaning := range r.NoValueWhile {
				if !slices.ContainsFunc(o.rows[Reply], hasMeaning(meaning)) {
					s.errorf(child(r.node, "no_value_while"), "no_value_while: no value in the reply of %s means %s",
						o.Name, meaning)
				}
			}
		}
	}
	for _, role := range s.table.roles {
		for _, meaning := range role.means {
			if role.rows != nil && !slices.ContainsFunc(role.rows, hasMeaning(meaning)) {
				s.errorf(child(role.rows[0].node, "means"), "means: no value means %s, which role: %s needs", meaning,
					role.name)
			}
		}
	}
}

// hasMeaning returns a function that reports whether a value of a row has one of the meanings.
func hasMeaning(meanings ...string) func(r *row) bool {
	return func(r *row) bool {
		for _, meaning := range r.Means {
			if slices.Contains(meanings, meaning) {
				return true
			}
		}
		return false
	}
}

// readForms reads the two forms of the table, then those that are like one of them: such a form has everything of the
// other one, but for what it says itself.
func (s *source) readForms(n *yaml.Node) {
	prefixes := map[string]bool{"": true}
	for name, value := range s.members(n, "forms") {
		index := len(s.table.forms)
		f := form{
			table: s.table, name: Form(s.str(name, "the name of a form")), index: index, like: index, digits: text,
			codesOfForm: codesOfForm{
				first: map[string]string{}, own: map[string][]string{}, known: map[string]Meaning{},
			},
		}
		if like := child(value, "like"); like != nil {
			if f.like = s.table.formIndex(Form(like.Value)); f.like < 0 || s.table.forms[f.like].like != f.like {
				s.errorf(like, "like: %s is none of the two forms before it", show(like))
				continue
			}
			if prefix := child(value, "prefix"); prefix != nil {
				s.errorf(prefix, "prefix is not allowed beside like: no partner speaks this form")
			}
			value = without(mapLevel.merge(without(child(n, like.Value), "prefix"), value), "like")
		} else if index == 2 || index > 0 && s.table.forms[index-1].like < index-1 {
			s.errorf(name, "forms: a table has two forms, then those that are like one of them, but %q is another one",
				name.Value)
			continue
		}
		if isReserved(name.Value) {
			s.errorf(name, "a form cannot be named %q, which is a key of rows or operations", name.Value)
		}
		if s.decode(value, "a form", &f) {
			if f.Numbers == "json" {
				f.digits = number
			}
			s.readEnvelope(name, &f)
			switch at := child(value, "prefix"); {
			case at == nil:
			case !strings.HasPrefix(f.Prefix, "/") || !strings.HasSuffix(f.Prefix, "/"):
				s.errorf(at, "prefix must begin and end with a slash, but is %q", f.Prefix)
			case prefixes[f.Prefix]:
				s.errorf(at, "prefix: the other form has it, too, so no path shows the form of a call")
			}
			prefixes[f.Prefix] = true
		}
		s.table.forms = append(s.table.forms, f)
	}
}
