package translate

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// isReserved reports whether a name is a key that can stand beside the name of a form.
func (s *source) isReserved(name string) bool {
	keys := slices.Concat(s.keysOf(reflect.TypeFor[row]()), s.keysOf(reflect.TypeFor[operationKeys]()))
	return name == useKey || name == "text" || slices.ContainsFunc(keys, func(k keyOfField) bool { return k.key != "" && k.key == name })
}

// readRows reads the rows of a message.
func (s *source) readRows(o *Operation, m Message, n *yaml.Node) {
	for range s.members(n, "a "+string(m)) { // reports what is no mapping
		break
	}
	s.checkUse(n, m)
	o.rows[m] = s.readRowList(o, m, s.rowsOf(n, m), false)
	if m != Reply {
		return
	}
	for _, r := range o.rows[m] {
		s.checkEcho(o, r)
		asks := slices.ContainsFunc(o.rows[Request], func(asked *row) bool { return asked.Role == r.Role })
		r.must, r.repeats = asks && r.Role.Same == "must", asks && r.Role.Same == "count"
	}
}

// checkUse checks the names of the shared rows of a message.
func (s *source) checkUse(message *yaml.Node, m Message) {
	known := names(child(s.root, "shared"))
	if m == callbackMessage {
		known = append(known, names(child(s.root, "operations"))...)
	}
	for _, use := range listOf(child(message, useKey)) {
		name := s.str(use, useKey)
		if s.used[name] = true; name != "" && !slices.Contains(known, name) {
			s.errorf(use, "use: the table has no shared rows %q%s", name, DidYouMean(name, known))
		}
	}
}

// readRowList reads the rows of a message, or of an item of a list in it, and checks that no two contradict each other.
func (s *source) readRowList(o *Operation, m Message, named []namedRow, inList bool) (list []*row) {
	// By form and path, of the row or of an object around it: the first such row.
	used := make([]map[string]*row, len(s.table.forms))
	byRole := map[*role][]*row{}
	for _, n := range named {
		before := len(s.problems)
		r := s.readRow(o, m, n, inList)
		if len(s.problems) > before {
			continue
		}
		for f := range r.Path {
			if used[f] == nil {
				used[f] = map[string]*row{}
			}
			s.checkPath(m, r, f, used[f], inList)
		}
		s.checkRole(r, byRole[r.Role])
		byRole[r.Role] = append(byRole[r.Role], r)
		list = append(list, r)
	}
	return list
}

func (s *source) readRow(o *Operation, m Message, n namedRow, inList bool) *row {
	t, at := s.table, n.row
	for _, value := range Members(n.row) { // an overlay may have changed a part of the row
		if s.overlayOf[value] != "" {
			at = value
		}
	}
	r := &row{
		Path: t.everywhere(""), pattern: t.everywhere(""), Role: noRole,
		numbers: make(byForm[kind], len(t.forms)), width: make(byForm[int], len(t.forms)),
		lossCode: t.invalid, malformed: t.invalid, node: n.row, id: n.name.Value,
		source: Row{s.fileOf(at), at.Line, n.name.Value + ": " + showRow(n.row)},
	}
	if name := s.fieldPath(n.name, "a path"); child(n.row, s.firstForm()) == nil && o.paths[0] != "" {
		r.Path[0] = name
	}
	if slices.Contains(s.forms, n.name.Value) {
		s.errorf(n.name, "a row cannot have the name of a form: name it otherwise and write %s: %s in it", s.firstForm(),
			n.name.Value)
	}
	if !s.decode(n.row, "a row", r) {
		return r
	}
	if f := t.fields[r.name()]; f != nil {
		r.about, r.example, r.exampleKind, f.used = f.About, f.example, f.kind, true
	}
	r.exact = m == Reply && r.Role.Exact
	r.Required = r.Required && m == Request // shared rows can be in a reply
	s.checkMisplaced(r, string(m), n.shared)
	if inList {
		s.checkMisplaced(r, "row of each", n.shared)
		if r.Role != noRole && !r.Role.Many {
			s.errorf(child(r.node, "role"), "role: a message has many items, so their rows can only have a role with "+
				"many: true")
		}
	}
	s.readAs(r)
	s.readFill(m, r)
	s.readLost(m, r)
	if r.Check != nil && m == Request {
		s.readCheck(r)
	}
	if r.Code != "" && r.Check == nil && !r.Required && m == Request {
		s.errorf(child(r.node, "code"), "code needs required or check")
	}
	if r.Code = cmp.Or(r.Code, t.invalid); r.Required {
		r.malformed = r.Code
	}
	s.checkForms(o, m, r)
	s.checkMeans(m, r)
	s.checkKeys(r)
	s.checkConversion(r)
	s.readItems(o, m, r)
	return r
}

// readAs reads the conversion of a row.
func (s *source) readAs(r *row) {
	switch {
	case r.As == nil:
	case r.As.Kind == yaml.MappingNode:
		for f, word := range s.members(r.As, "as") {
			form, is := s.form(f, "as"), s.str(word, "as")
			switch {
			case form < 0 || is == "":
			case is == "number":
				r.numbers[form] = number
			case is == "text" || strings.Trim(is, "0") == "":
				if r.numbers[form] = text; is != "text" {
					r.width[form] = len(is)
				}
			default:
				r.pattern[form] = is
			}
		}
		for _, list := range []any{r.numbers, r.width, r.pattern} {
			s.inherit(r.As, reflect.ValueOf(list))
		}
		if !slices.Contains(r.pattern, "") {
			break
		}
		if r.as = "digits"; slices.Contains(r.numbers, absent) {
			s.errorf(r.As, "as: write a pattern for each form, or number, text or zeros (a text with leading zeros) for each")
		}
	default:
		r.as = oneOf(s, r.As, "as", "digits", "decimal")
	}
	r.digits = r.as == "digits"
}

// readFill reads a constant, or a path of the request after $.
func (s *source) readFill(m Message, r *row) {
	switch {
	case r.Fill == nil:
	case r.Fill.Kind == yaml.ScalarNode && strings.HasPrefix(r.Fill.Value, "$") && r.Fill.Value != "$":
		if r.echoed = r.Fill.Value[1:]; m != Reply {
			s.errorf(r.Fill, "fill: %s is a value of the request, which only a reply can repeat", r.Fill.Value)
		}
	case m == Reply:
		s.errorf(r.Fill, "fill: a reply can only repeat a value of the request, as in fill: $PATH")
	default:
		r.always = s.constant(r.Fill)
	}
}

// readLost reads what becomes of a field that the other form lacks.
func (s *source) readLost(m Message, r *row) {
	if r.loss = r.Lost; r.Lost == "" || r.Lost == "drop" {
		return
	}
	if r.loss = "refuse"; r.Lost != r.loss {
		r.lossCode = s.text(child(r.node, "lost"), "lost", "a code")
	}
	if m != Request {
		s.errorf(child(r.node, "lost"), "lost: nothing of a %s is refused; write lost: drop", m)
	}
}

// readCheck reads the bounds of a value of a request: a range of characters, or of numbers; a number of digits; or all
// values.
func (s *source) readCheck(r *row) {
	n := r.Check
	if n.Kind == yaml.SequenceNode {
		for _, item := range s.items(n, "check") {
			r.oneOf = append(r.oneOf, s.str(item, "check"))
		}
		if r.oneOf == nil {
			s.errorf(n, "check needs at least one value")
		}
		return
	}
	right := n.Kind == yaml.ScalarNode
	bound := func(text string) int {
		i, err := strconv.Atoi(text)
		right = right && (text == "" || err == nil && i > 0)
		return i
	}
	low, high, isRange := strings.Cut(n.Value, "..")
	if count, isCount := strings.CutSuffix(n.Value, " digits"); isCount {
		r.exactDigits = bound(count)
		right = right && count != ""
	} else {
		r.min, r.max = bound(low), bound(high)
		right = right && isRange && low+high != ""
	}
	switch {
	case !right:
		s.errorf(n, `check must be like 1..32, 1.., ..32, "10 digits" or [ONE, OTHER], but is %s`, show(n))
	case r.max > 0 && r.min > r.max:
		s.errorf(n, "check: %d is greater than %d", r.min, r.max)
	}
}

// checkEcho checks the row of the request that a row of a reply repeats.
func (s *source) checkEcho(o *Operation, r *row) {
	asks := func(asked *row) bool { return asked.id == r.echoed && asked.Path[max(r.onlyForm(), 0)] != "" }
	switch i := slices.IndexFunc(o.rows[Request], asks); {
	case i >= 0:
		r.asked = o.rows[Request][i]
	case r.echoed != "":
		s.errorf(r.Fill, "fill: the request of %s has no row %s in %s%s", o.Name, r.echoed, s.forms[max(r.onlyForm(), 0)],
			didYouMeanRow(r.echoed, o.rows[Request]))
	}
}

// didYouMeanRow is DidYouMean for the names of rows.
func didYouMeanRow(name string, rows []*row) string {
	var known []string
	for _, r := range rows {
		known = append(known, r.id)
	}
	return DidYouMean(name, known)
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
			s.errorf(r.node, "%s: the row %s already has the path %s", path, other.id, other.Path[form])
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
	for _, other := range others {
		for f, path := range r.Path {
			if path != "" && other.Path[f] != "" {
				s.errorf(r.node, "role: the row %s already has the role %s", other.id, r.Role.name)
				return
			}
		}
	}
}

// checkForms checks that a row of one form, and only such a row, says what happens to the field in the other form.
func (s *source) checkForms(o *Operation, m Message, r *row) {
	only, forms := r.onlyForm(), s.table.forms
	says, lacks := r.Fill != nil || r.Lost != "", -1
	for f, path := range r.Path {
		switch {
		case path == "" && o.paths[f] != "":
			lacks = f
		case path != "" && o.paths[f] == "" && (forms[f].like < 0 || o.paths[forms[f].like] == ""):
			s.errorf(r.node, "%s has no path in %s, so its row %s cannot have one", o.Name, forms[f].name, r.id)
		}
	}
	switch {
	case r.Path[0]+r.Path[1] == "":
		s.errorf(r.node, "a row needs a path in at least one form")
	case lacks < 0 && says && o.paths[0] != "" && o.paths[1] != "":
		s.errorf(r.node, "fill and lost are for a field that a form lacks, but this row has a path in all")
	case lacks >= 0 && !says:
		s.errorf(r.node, "%s is not in %s: add fill or lost, or its path", cmp.Or(r.Path[0], r.Path[1]), forms[lacks].name)
	}
	if only >= 0 && r.hasPairs() {
		s.errorf(r.node, "values: the row needs a path in both forms")
	}
	// Such a field shows a success in the form whose replies have no envelope.
	for f, bare := range o.bare {
		if bare && m == Reply && r.Role.Same == "must" && r.Path[f] == "" {
			s.errorf(child(r.node, "role"), "role: the row needs a path in %s, which is bare", forms[f].name)
		}
	}
}

// checkMeans checks the meanings of values against those of the role.
func (s *source) checkMeans(m Message, r *row) {
	before := len(s.problems)
	switch {
	case len(r.Means) == 0 && m == Reply && r.Role.means != nil:
		// Without it no state would say anything, and a reply without an envelope would never be a success.
		s.errorf(child(r.node, "role"), "role: %s needs means: write what each value means, as in means: {VALUE: %s}",
			r.Role.name, r.Role.means[0])
		return
	case r.Means == nil:
		return
	case r.Role.means == nil:
		s.errorf(child(r.node, "means"), "means needs a role that has moves")
		return
	case r.digits:
		s.errorf(child(r.node, "as"), "means is not allowed with as: digits, since only text has a meaning")
	}
	for _, value := range slices.Sorted(maps.Keys(r.Means)) {
		meaning := r.Means[value]
		if !slices.Contains(r.Role.means, meaning) {
			hint := DidYouMean(meaning, r.Role.means)
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
		if _, paired := r.Values.find(0, 1, value); !paired {
			s.errorf(at, "values: %q means %s and has no pair: write {%s: %s, %s: …}",
				value, r.Means[value], s.forms[0], value, s.forms[1])
		}
	}
	for _, p := range r.Values.list {
		for f, other := range p.Values {
			is := r.Means[p.Values[0].text]
			if means := r.meaningOf(other.text, f); f > 0 && means != is && other.kind != null {
				s.errorf(at, "values: %q of %s is paired with values of different meanings, %s and %s",
					other.text, s.forms[f], means, is)
			}
		}
	}
}

// misplacedKeys are the keys that have no effect in a row, by its place: its message, or an item of a list, where keys
// cannot refer to other parts of a message.
var misplacedKeys = map[string]string{
	"request":     "means no_value_while otherwise",
	"reply":       "required check code",
	"callback":    "no_value_while required check code",
	"row of each": "no_value_while means",
}

// checkMisplaced checks where keys stand. Shared rows say of requests and replies what each has.
func (s *source) checkMisplaced(r *row, place string, shared bool) {
	for key := range strings.FieldsSeq(misplacedKeys[place]) {
		if v := child(r.node, key); v != nil && !(shared && place == "reply") {
			s.errorf(v, "%s is not allowed in a %s", key, place)
		}
	}
}

// checkKeys checks that the keys of the row make sense together.
func (s *source) checkKeys(r *row) {
	empty := child(r.node, "empty")
	if r.Role.Replaced && (r.As != nil || r.hasPairs()) {
		s.errorf(r.node, "as and values are not allowed with role: %s, which is replaced", r.Role.name)
	}
	if r.Role.Same != "" && (r.pattern[0] != "" || r.hasPairs() || r.isMoved() ||
		slices.Max(r.width) > 0) {
		// Each form would have another text: every success would be about something else.
		s.errorf(r.node, "role: %s is the same in request and reply, so its rows cannot have values, shift, zeros or a pattern",
			r.Role.name)
	}
	for _, key := range []string{"fill", "values", "absent", "check"} {
		isConstant := key != "check" || r.oneOf != nil
		if v := child(r.node, key); v != nil && r.Role.Secret && isConstant && r.echoed == "" {
			const text = "%s is not allowed with role: %s, which is secret: commands and pages show the table"
			s.errorf(v, text, key, r.Role.name)
		}
	}
	if r.digits && (r.oneOf != nil || r.exactDigits > 0) {
		s.errorf(r.Check, "check: as: digits needs a range, such as 1..9")
	}
	if n := child(r.node, "no_value_while"); n != nil {
		var meanings []string
		for _, role := range s.table.roles {
			meanings = append(meanings, role.means...)
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
	case !s.convertsDigits(r):
		s.errorf(empty, "empty %s", needsDigits)
	case r.hasPairs():
		s.errorf(empty, "empty is not allowed with values: add a pair for the empty value instead")
	}
}

// needsDigits says what convertsDigits requires.
const needsDigits = "needs as: digits and a path in both forms, of which one has numbers: json and the other numbers: text"

// convertsDigits reports whether one form has the row's digits as a number, and the other as text.
func (s *source) convertsDigits(r *row) bool {
	return r.onlyForm() < 0 && r.digits && r.digitsIn(&s.table.forms[0]) != r.digitsIn(&s.table.forms[1])
}
