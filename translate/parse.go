package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// readTable reads the tree into the table.
func (s *source) readTable() {
	t := s.table
	var keys struct {
		Forms, Roles, Codes, Operations  *yaml.Node `must:"be"`
		Failures, Nouns, Unknown, Bounds *yaml.Node
		Shared, Fields, Callbacks        *yaml.Node
	}
	s.decode(s.root, "a table", &keys)
	if len(s.problems) > 0 {
		return
	}
	s.readForms(keys.Forms)
	t.roles, t.fields = map[string]*role{}, map[string]*fieldText{}
	for name, v := range s.members(keys.Roles, "roles") {
		r := &role{name: s.fieldPath(name, "a name")}
		if t.roles[r.name] = r; s.decode(v, "a role", r) {
			s.checkRoleKeys(r, v)
		}
	}
	for name, v := range s.members(keys.Fields, "fields") {
		t.fields[s.fieldPath(name, "a field name")] = s.readFieldText(v)
	}
	switch {
	case len(s.problems) > 0:
		return
	case len(t.forms) < 2 || t.forms[1].like >= 0:
		s.errorf(s.root, "forms: a table needs two forms that are like no other")
		return
	}
	s.forms = names(keys.Forms) // an overlay may have removed one
	t.nouns = map[string][]string{"ko": {"대상", "서비스"}, "en": {"object", "service"}}
	for language, words := range s.members(keys.Nouns, "nouns") {
		if oneOf(s, language, "nouns", "ko", "en"); len(s.items(words, "nouns")) != 2 {
			s.errorf(words, "nouns: write what calls are about, and who answers them, as in en: [bill, billing service]")
			continue
		}
		t.nouns[language.Value] = []string{s.str(words.Content[0], "nouns"), s.str(words.Content[1], "nouns")}
	}
	s.readCodes(keys.Codes)
	if t.invalid = t.CodeThatMeans(Malformed); t.invalid == "" {
		s.errorf(keys.Codes, "codes.malformed is missing: its first code is that of refusals whose row names none")
	}
	t.bounds = "upstream"
	if keys.Bounds != nil {
		t.bounds = oneOf(s, keys.Bounds, "bounds", "upstream", "enforce")
	}
	s.readOwn(keys.Failures)
	s.readUnknown(keys.Unknown)
	for f := range t.forms {
		if len(s.problems) == 0 {
			s.checkEnvelopeCodes(f, keys.Forms)
		}
	}
	for name, rows := range s.members(keys.Shared, "shared") {
		s.members(rows, "shared."+name.Value)
	}
	for name, value := range s.members(keys.Operations, "operations") {
		s.readOperation(name, value)
	}
	s.readCallbacks(keys.Callbacks, keys.Operations)
	for name := range Members(keys.Shared) {
		if !s.used[name.Value] {
			s.errorf(name, "shared: no message has use: %s", name.Value)
		}
	}
	s.checkReferences(keys.Operations)
	for _, name := range names(keys.Fields) {
		switch key, _ := find(keys.Fields, name); {
		case t.fields[name] == nil || t.fields[name].used || len(s.problems) > 0:
		case len(t.files) == 1 || s.overlayOf[key] != "":
			s.errorf(key, "fields: no row has the name %s", name)
		default: // an overlay has removed its rows
			remove(keys.Fields, name)
		}
	}
}

// readFieldText reads what `fields` says of a field. The type of the example is that of the field if its rows have no
// conversion.
func (s *source) readFieldText(n *yaml.Node) *fieldText {
	f := &fieldText{kind: text}
	if s.decode(n, "a field", f); f.Example == nil {
		return f
	}
	f.example = s.str(f.Example, "example")
	switch {
	case f.Example.Tag == "!!bool" && (f.example == "true" || f.example == "false"):
		f.kind = boolean
	case (f.Example.Tag == "!!int" || f.Example.Tag == "!!float") && isDecimal(f.example):
		f.kind = number
	}
	return f
}

func (s *source) checkRoleKeys(r *role, n *yaml.Node) {
	if r.Secret && r.Public {
		s.errorf(n, "role %s cannot be secret and public", r.name)
	}
	if r.Same != "" && r.Many {
		s.errorf(n, "role %s cannot have many rows and be the same in request and reply", r.name)
	}
	for _, move := range r.Moves {
		from, to, ok := strings.Cut(move, " to ")
		if !ok || from == "" || to == "" || strings.ContainsAny(from+to, " \t\n") { // the store joins meanings
			s.errorf(child(n, "moves"), "moves: %q is not like \"unpaid to paid\"", move)
			continue
		}
		if r.next == nil {
			r.next = map[string][]string{}
		}
		r.next[from] = append(r.next[from], to)
		for _, meaning := range []string{from, to} {
			if !slices.Contains(r.means, meaning) {
				r.means = append(r.means, meaning)
			}
		}
	}
	for _, meaning := range r.Done {
		if !slices.Contains(r.means, meaning) {
			s.errorf(child(n, "done"), "done: role %s has no meaning %q%s", r.name, meaning, DidYouMean(meaning, r.means))
		}
	}
}

func (s *source) readSuccess(n *yaml.Node) {
	success := &s.table.success
	var keys struct {
		Code byForm[string] `by:"form"`
		Text constant
	}
	keys.Code = s.table.everywhere("")
	switch {
	case n == nil:
	case n.Kind == yaml.MappingNode:
		s.decode(n, "success", &keys)
	default:
		keys.Code = s.table.everywhere(s.str(n, "success"))
	}
	success.code, success.codeJSON = keys.Code, s.table.everywhere("")
	for f, code := range keys.Code {
		if code == "" && s.table.forms[f].object != "" && s.table.forms[f].flag != "" {
			code = cmp.Or(cmp.Or(keys.Code...), "success") // no reply has it
		}
		if code == "" {
			s.errorf(s.root, "codes.success: the code for %s is missing", s.forms[f])
		}
		success.code[f], success.codeJSON[f] = code, s.table.forms[f].codeJSON(code)
	}
	if code := success.code[0]; code != "" {
		s.table.catalogue = append(s.table.catalogue, code)
		s.table.addMeaning(CodeMeaning{Code: code}, s.table.inCatalogue)
	}
	if success.text = keys.Text.text; keys.Text.kind != absent {
		success.textJSON = string(appendString(nil, success.text))
	}
}

// readOwn reads the codes of the gateway's own failures.
func (s *source) readOwn(n *yaml.Node) {
	var keys struct {
		Failed      string `is:"a code"`
		Unavailable string `is:"a code"`
		NoUpstream  string `is:"a code"`
	}
	s.decode(n, "failures", &keys)
	t := s.table
	failed := cmp.Or(keys.Failed, t.CodeThatMeans(Unavailable), t.invalid)
	t.own = map[OwnFailure]string{
		OwnFailed: failed, OwnUnavailable: cmp.Or(keys.Unavailable, failed),
		OwnNoUpstream: cmp.Or(keys.NoUpstream, failed), OwnInvalid: t.invalid,
	}
}

// readUnknown reads what happens to fields without a row.
func (s *source) readUnknown(n *yaml.Node) {
	keys := struct {
		Request string `is:"drop|pass|refuse"`
		Reply   string `is:"drop|pass"`
	}{"refuse", "drop"}
	s.decode(n, "unknown", &keys)
	s.table.unknown = map[Message]string{Request: keys.Request, Reply: keys.Reply, callbackMessage: keys.Reply}
}

// checkReferences checks what can be checked only when the whole table has been read.
func (s *source) checkReferences(operations *yaml.Node) {
	t := s.table
	for _, n := range s.refusalCodes {
		if slices.Contains(t.success.code, n.Value) {
			s.errorf(n, "a refusal cannot have %q, the code of a success", n.Value)
		}
	}
	s.checkAllMeanings()
	paths := map[string]string{} // by path: the operation, since the gateway finds the operation of a call by its path
	for i, o := range t.operations {
		name := operations.Content[2*i]
		for role, value := range o.sets {
			if means, has := t.meaning(0, role, value); has && means == "" {
				s.errorf(child(operations.Content[2*i+1], "sets"),
					"sets: %q has no meaning: add it to means of a row with role: %s", value, role)
			}
		}
		for _, p := range o.paths[:2] {
			switch other := paths[p]; {
			case p == "":
			case other == o.Name:
				s.errorf(name, "%s has the same path in both forms, %s", o.Name, p)
			case other != "":
				s.errorf(name, "%s and %s have the same path, %s", other, o.Name, p)
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
	first, has := map[*role]*row{}, map[*role][]string{}
	for _, o := range s.table.operations {
		for _, r := range o.rows[Reply] {
			if r.Means != nil {
				first[r.Role] = cmp.Or(first[r.Role], r)
				has[r.Role] = slices.AppendSeq(has[r.Role], maps.Values(r.Means))
			}
		}
	}
	for of, r := range first {
		for _, meaning := range of.means {
			if !slices.Contains(has[of], meaning) {
				s.errorf(child(r.node, "means"), "means: no value means %s, which role: %s needs", meaning, of.name)
			}
		}
	}
	for _, o := range s.table.operations {
		for _, r := range o.rows[Reply] {
			for _, meaning := range r.NoValueWhile {
				if !slices.ContainsFunc(o.rows[Reply], (&row{NoValueWhile: []string{meaning}}).decides) {
					s.errorf(child(r.node, "no_value_while"), "no_value_while: no value in the reply of %s means %s",
						o.Name, meaning)
				}
			}
		}
	}
}

// readForms reads the two forms of the table, then those that are like one of them: such a form has everything of the
// other one, but for what it says itself.
func (s *source) readForms(n *yaml.Node) {
	own := 0
	for name, value := range s.members(n, "forms") {
		f := form{name: Form(s.str(name, "the name of a form")), index: len(s.table.forms), like: -1, digits: text}
		if like := child(value, "like"); like != nil {
			if f.like = s.table.formIndex(Form(like.Value)); f.like < 0 || s.table.forms[f.like].like >= 0 {
				s.errorf(like, "like: %s is none of the two forms before it", show(like))
				continue
			}
			if prefix := child(value, "prefix"); prefix != nil {
				s.errorf(prefix, "prefix is not allowed beside like: no partner speaks this form")
			}
			merged := s.cloneOf(child(n, like.Value))
			remove(merged, "prefix")
			s.merge(merged, value, mapLevel, true)
			remove(merged, "like")
			value = merged
		} else if own++; own > 2 || own < f.index+1 {
			s.errorf(name, "forms: a table has two forms, then those that are like one of them, but %q is another one",
				name.Value)
			continue
		}
		if s.isReserved(name.Value) {
			s.errorf(name, "a form cannot be named %q, which is a key of rows or operations", name.Value)
		}
		s.readForm(name, value, &f)
		s.table.forms = append(s.table.forms, f)
	}
}

func (s *source) readForm(name, value *yaml.Node, f *form) {
	if !s.decode(value, "a form", f) {
		return
	}
	if f.Numbers == "json" {
		f.digits = number
	}
	if f.Result != "" {
		f.resultEnd = strings.Repeat("}", strings.Count(f.Result, "."))
		f.resultKey = "," + strings.ReplaceAll(keyOf(f.Result), ".", `":{"`)
	}
	s.readEnvelope(name, f)
	if f.Prefix != "" && (!strings.HasPrefix(f.Prefix, "/") || !strings.HasSuffix(f.Prefix, "/")) {
		s.errorf(child(value, "prefix"), "prefix must begin and end with a slash, but is %q", f.Prefix)
	}
}

// fieldPath returns a path of names, or one name if is says a field name. Names have only characters without a meaning
// in JSON paths: the gateway uses the names of an envelope in them.
func (s *source) fieldPath(n *yaml.Node, is string) string {
	const digits = "0123456789"
	inName := func(c rune) bool {
		return strings.ContainsRune("_-$"+digits, c) || unicode.In(c, unicode.Letter, unicode.Mark)
	}
	path := s.str(n, is)
	names := []string{path}
	switch {
	case path == "":
		return ""
	case is != "a field name":
		names = segments(path)
	}
	for _, name := range names {
		switch {
		case strings.TrimFunc(name, inName) != "" || !utf8.ValidString(name):
			s.errorf(n, "%s can have letters, digits, _, - and $, but is %q", is, name)
		case strings.Trim(name, digits) == "":
			s.errorf(n, "%s needs a letter, _, - or $, but is %q", is, name)
		case n.Tag != "!!str":
			s.errorf(n, "%s must be text: write %q in quotes", is, name)
		}
	}
	return path
}
