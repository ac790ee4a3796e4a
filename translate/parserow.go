package translate

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// isReserved reports whether a name is a key that can stand beside the name of a form.
func (s *source) isReserved(name string) bool {
	keys := slices.Concat(s.keysOf(reflect.TypeFor[row]()), s.keysOf(reflect.TypeFor[operationKeys]()))
	isKey := func(k keyOfField) bool { return k.key != "" && k.key == name }
	return name == "prefer" || name != newKey && overlayKeys[name] != "" || slices.ContainsFunc(keys, isKey)
}

// readRows reads the rows of a message.
func (s *source) readRows(o *Operation, m Message, n *yaml.Node) {
	o.rows[m] = s.readRowList(o, m, n, false)
	if m != Reply {
		return
	}
	for _, r := range o.rows[m] {
		s.checkRequestPath(o, r, "echo", r.Echo, max(r.onlyForm(), 0))
		s.checkRequestPath(o, r, "must_equal_request", r.MustEqualRequest, 0)
		s.checkRequestPath(o, r, "repeats_request", r.RepeatsRequest, 0)
	}
}

// readRowList reads the rows of a message, or of an item of a list in it, and checks that no two contradict each other.
func (s *source) readRowList(o *Operation, m Message, n *yaml.Node, inList bool) (list []*row) {
	t := s.table
	used := [2]map[string]*row{{}, {}} // by form and path, of the row or of an object around it: the first such row
	byRole := map[*role][]*row{}
	for _, item := range s.items(n, string(m)) {
		r := &row{
			Refuse: t.invalid, Malformed: t.invalid, LossCode: t.invalid, Role: noRole,
			node: item, source: Row{s.fileOf(item), item.Line, showRow(item)},
		}
		before := len(s.problems)
		if !s.decode(item, "a row", r) {
			continue
		}
		if f := t.fields[r.name()]; f != nil {
			r.About, r.example, r.exampleKind = cmp.Or(r.About, f.About), f.example, f.kind
		}
		r.digits, r.Exact = r.As == "digits", r.Exact || m == Reply && r.Role.Exact
		s.checkForms(o, m, r)
		s.checkMeans(m, r)
		s.checkKeys(m, r)
		if inList {
			s.checkItemRow(r)
		}
		s.readSpecial(r)
		s.readItems(o, m, r)
		if len(s.problems) > before {
			continue
		}
		for f := range r.Path {
			s.checkPath(m, r, f, used[f], inList)
		}
		s.checkRole(r, byRole[r.Role])
		byRole[r.Role] = append(byRole[r.Role], r)
		list = append(list, r)
	}
	return list
}

// checkRequestPath checks a path by which a row of a reply refers to the request.
func (s *source) checkRequestPath(o *Operation, r *row, key, path string, form int) {
	if path == "" {
		return
	}
	i := slices.IndexFunc(o.rows[Request], func(asked *row) bool { return asked.Path[form] == path })
	switch {
	case i < 0:
		s.errorf(child(r.node, key), "%s: the request of %s has no row with the path %s in %s%s", key, o.Name, path,
			s.forms[form], didYouMeanPath(path, o.rows[Request], form))
	case key == "must_equal_request" && (r.converts() || o.rows[Request][i].converts()):
		// Each form would have another text: every success would be about something else.
		s.errorf(r.node, "%s: neither this row nor that of the request can have values, pattern or shift", key)
	}
}

// didYouMeanPath is DidYouMean for the paths of rows in a form; for a row without one, in the other form.
func didYouMeanPath(path string, rows []*row, form int) string {
	var known []string
	for _, r := range rows {
		known = append(known, cmp.Or(r.Path[form], r.Path[1-form]))
	}
	return DidYouMean(path, known)
}

// checkPath checks that the path of a row in a form does not overlap with those of the rows before it.
func (s *source) checkPath(m Message, r *row, form int, used map[string]*row, inList bool) {
	path, envelope := r.Path[form], s.table.forms[form]
	if path == "" {
		return
	}
	for end, c := range path + "." {
		if c != '.' {
			continue
		}
		other := used[path[:end]]
		if other != nil && (other.Path[form] == path[:end] || end == len(path)) {
			s.errorf(r.node, "%s: the row on line %d already has the path %s", path, other.node.Line, other.Path[form])
			return
		}
		used[path[:end]] = cmp.Or(other, r)
	}
	if m == Reply && !inList && envelope.Result == "" && slices.Contains(envelope.names(), segments(path)[0]) {
		s.errorf(r.node, "%s: the envelope of %s has a field of this name", path, envelope.name)
	}
}

// checkRole checks that no other row of the message has the role in the same form. others are the rows before it with
// the role.
func (s *source) checkRole(r *row, others []*row) {
	if r.Role == noRole || r.Role.Many {
		return
	}
	only := r.onlyForm()
	for _, other := range others {
		if differentForms := only >= 0 && other.onlyForm() == 1-only; !differentForms {
			s.errorf(r.node, "role: the row on line %d already has the role %s", other.node.Line, r.Role.name)
			return
		}
	}
}

// checkForms checks that a row of one form, and only such a row, says what happens to the field in the other form.
func (s *source) checkForms(o *Operation, m Message, r *row) {
	only, forms := r.onlyForm(), s.table.forms
	saysWhatHappens := r.Default.kind != absent || r.Echo != "" || r.Loss != ""
	for f, path := range r.Path {
		if path != "" && o.paths[f] == "" {
			key, _ := find(r.node, s.forms[f])
			s.errorf(key, "%s has no path in %s, so its rows cannot have one", o.Name, s.forms[f])
		}
	}
	switch {
	case r.Path == [2]string{}:
		s.errorf(r.node, "a row needs a path in at least one form")
	case only < 0 && saysWhatHappens:
		hint := ""
		if s.overlayOf[r.node] != "" || m == callbackMessage {
			hint = "; the row keeps the keys of the row that it changes: write FORM: null or KEY: null to remove one"
		}
		s.errorf(r.node, "default, echo and loss are for a field of one form, "+
			"but this row has a path in both%s", hint)
	case only >= 0 && o.paths[1-only] != "" && !saysWhatHappens:
		s.errorf(r.node, "%s is in %s only: add default, echo or loss", r.Path[only], forms[only].name)
	}
	if only >= 0 && r.hasPairs() {
		s.errorf(r.node, "values: the row needs a path in both forms")
	}
	// A field with must_equal_request shows a success in the form whose replies have no envelope.
	if f := o.noEnvelope; m == Reply && r.MustEqualRequest != "" && f >= 0 && r.Path[f] == "" {
		s.errorf(child(r.node, "must_equal_request"),
			"must_equal_request: the row needs a path in %s, which has no_envelope", forms[f].name)
	}
}

// checkMeans checks the meanings of values against those of the role.
func (s *source) checkMeans(m Message, r *row) {
	before := len(s.problems)
	switch {
	case len(r.Means) == 0 && m == Reply && r.Role.Means != nil:
		// Without it no state would say anything, and a reply without an envelope would never be a success.
		s.errorf(child(r.node, "role"), "role: %s needs means: write what each value means, as in means: {VALUE: %s}",
			r.Role.name, r.Role.Means[0])
		return
	case r.Means == nil:
		return
	case r.Role.Means == nil:
		s.errorf(child(r.node, "means"), "means needs a role that has means")
		return
	case r.digits:
		s.errorf(child(r.node, "as"), "means is not allowed with as: digits, since only text has a meaning")
	}
	for _, value := range slices.Sorted(maps.Keys(r.Means)) {
		meaning := r.Means[value]
		if !slices.Contains(r.Role.Means, meaning) {
			hint := DidYouMean(meaning, r.Role.Means)
			s.errorf(child(child(r.node, "means"), value),
				"means: role: %s has no meaning %q%s", r.Role.name, meaning, hint)
		}
	}
	for _, p := range r.Values.list { // a reply without an envelope is no success with a value that has no meaning
		switch v := p.Values[0]; {
		case v.kind != text:
			s.errorf(child(r.node, "values"), "values: a field with means has text: write %q in quotes", v.text)
		case v.text != "" && r.Means[v.text] == "":
			s.errorf(child(r.node, "values"), "values: %q of %s has no meaning: add it to means", v.text, s.forms[0])
		}
	}
	if len(s.problems) == before {
		s.checkWords(r)
	}
}

// checkWords checks that no value gets a meaning by its spelling alone.
func (s *source) checkWords(r *row) {
	if !r.hasPairs() || r.onlyNullPairs() {
		return
	}
	at := child(r.node, "values")
	for _, value := range slices.Sorted(maps.Keys(r.Means)) {
		if _, paired := r.Values.find(0, value); !paired {
			s.errorf(at, "values: %q means %s and has no pair: write {%s: %s, %s: …}",
				value, r.Means[value], s.forms[0], value, s.forms[1])
		}
	}
	for _, p := range r.Values.list {
		first, other := p.Values[0].text, p.Values[1]
		if means := r.meaningOf(other.text, 1); means != r.Means[first] && other.kind != null {
			s.errorf(at, "values: %q of %s is paired with values of different meanings, %s and %s",
				other.text, s.forms[1], means, r.Means[first])
		}
	}
}

// boundKeys are the keys that are bounds of a request.
const boundKeys = "required min max exact_digits one_of"

// misplacedKeys are the keys that have no effect in a row, by its place: its message, or an item of a list, where keys
// cannot refer to other parts of a message.
var misplacedKeys = map[string]string{
	"request":     "echo must_equal_request repeats_request means exact no_value_while otherwise",
	"reply":       "default " + boundKeys,
	"callback":    "echo must_equal_request repeats_request exact no_value_while " + boundKeys,
	"row of each": "echo must_equal_request repeats_request no_value_while means",
}

func (s *source) checkMisplaced(r *row, place string) {
	for key := range strings.FieldsSeq(misplacedKeys[place]) {
		if v := child(r.node, key); v != nil {
			s.errorf(v, "%s is not allowed in a %s", key, place)
		}
	}
}

// checkKeys checks that the keys of the row make sense in its message, and together.
func (s *source) checkKeys(m Message, r *row) {
	empty := child(r.node, "empty")
	s.checkMisplaced(r, string(m))
	if r.Loss == "refuse" && m != Request {
		s.errorf(child(r.node, "loss"), "loss: refuse is not allowed in a %s; write loss: drop", m)
	}
	if r.Role.Unconverted && (r.digits || r.hasPairs()) {
		s.errorf(r.node, "as and values are not allowed with role: %s, which is unconverted", r.Role.name)
	}
	for _, key := range []string{"default", "values", "absent", "one_of"} {
		if v := child(r.node, key); v != nil && r.Role.Secret {
			const text = "%s is not allowed with role: %s, which is secret: commands and pages show the table"
			s.errorf(v, text, key, r.Role.name)
		}
	}
	if r.Max > 0 && r.Min > r.Max {
		s.errorf(r.node, "min %d is greater than max %d", r.Min, r.Max)
	}
	if n := child(r.node, "no_value_while"); n != nil {
		var meanings []string
		for _, role := range s.table.roles {
			meanings = append(meanings, role.Means...)
		}
		for _, meaning := range r.NoValueWhile {
			if !slices.Contains(meanings, meaning) {
				s.errorf(n, "no_value_while: no role has the meaning %q%s", meaning, DidYouMean(meaning, meanings))
			}
		}
		if !s.convertsDigits(r) || empty != nil {
			s.errorf(n, "no_value_while %s, and no empty", needsDigits)
		}
	}
	if n := child(r.node, "otherwise"); n != nil && !s.convertsDigits(r) {
		s.errorf(n, "otherwise %s", needsDigits)
	}
	switch {
	case empty == nil:
	case r.Empty.kind != number:
		s.errorf(empty, "empty must be a whole number such as 0, but is %s", show(empty))
	case r.Role.ZeroIsAValue:
		s.errorf(empty, "empty is not allowed with role: %s, which has zero_is_a_value", r.Role.name)
	case !s.convertsDigits(r):
		s.errorf(empty, "empty %s", needsDigits)
	case r.hasPairs():
		s.errorf(empty, "empty is not allowed with values: add a pair for the empty value instead")
	}
}

// needsDigits says what convertsDigits requires.
const needsDigits = "needs as: digits and a path in both forms, of which one has digits: number and the other " +
	"digits: string"

// convertsDigits reports whether one form has the row's digits as a number, and the other as text.
func (s *source) convertsDigits(r *row) bool {
	return r.onlyForm() < 0 && r.digits && s.table.forms[0].digits != s.table.forms[1].digits
}
