package translate

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// isReserved reports whether a name is a key that can stand beside the name of a form.
func isReserved(name string) bool {
	keys := slices.Concat(keysOf(reflect.TypeFor[row](), nil), keysOf(reflect.TypeFor[operationKeys](), nil))
	isKey := func(k keyOfField) bool { return k.key == name }
	return name == useKey || name == "text" || slices.ContainsFunc(keys, isKey)
}

// readRows reads the rows of a message.
func (s *source) readRows(o *Operation, m Message, n *yaml.Node) {
	o.rows[m] = s.readRowList(o, m, n, "a "+string(m))
	for _, r := range o.rows[m] {
		s.checkEcho(o, r)
		hasRole := func(asked *row) bool { return asked.Role == r.Role }
		asks := m == Reply && slices.ContainsFunc(o.rows[Request], hasRole)
		r.must, r.repeats = asks && r.Role.Same == "must", asks && r.Role.Same == "count"
		if m == Reply && r.Means != nil {
			r.Role.rows = append(r.Role.rows, r)
		}
	}
}

// readRowList reads the rows of a message, or of an item of a list in it, and checks that no two contradict each other.
func (s *source) readRowList(o *Operation, m Message, n *yaml.Node, what string) (list []*row) {
	for name, value := range s.members(n, what) {
		before := len(s.problems)
		r := s.readRow(o, m, name, value, what)
		if len(s.problems) > before {
			continue
		}
		for f, path := range r.Path {
			form := &s.table.forms[f]
			if m == Reply && what != eachKey && form.Result == "" && slices.Contains(form.names(), segments(path)[0]) {
				s.errorf(r.node, "%s: the envelope of %s has a field of this name", path, form.name)
			}
			for _, other := range list {
				switch is := other.Path[f]; {
				case path == "" || is == "":
				case strings.HasPrefix(path+".", is+"."), strings.HasPrefix(is+".", path+"."):
					s.errorf(r.node, "%s: the row %s already has the path %s", path, other.id, is)
				case other.Role == r.Role && r.Role != noRole && !r.Role.Many:
					s.errorf(r.node, "role: the row %s already has the role %s", other.id, r.Role.name)
				}
			}
		}
		list = append(list, r)
	}
	return list
}

func (s *source) readRow(o *Operation, m Message, name, n *yaml.Node, what string) *row {
	t := s.table
	r := &row{
		Path: t.everywhere(""), content: t.newContent(), Role: noRole,
		place:   place{name.Value, n, Row{s.fileOf(n), n.Line, name.Value + ": " + showRow(n)}},
		oneForm: oneForm{lossCode: t.invalid, malformed: t.invalid},
	}
	if path := s.fieldPath(name, "a path"); child(n, s.firstForm()) == nil && o.paths[0] != "" {
		r.Path[0] = path
	}
	if slices.Contains(s.forms, name.Value) {
		s.errorf(name, "a row cannot have the name of a form: name it otherwise and write %s: %s in it", s.firstForm(),
			name.Value)
		return r
	}
	before := len(s.problems)
	if !s.decode(n, "a row", r) {
		return r
	}
	if f := t.fields[r.name()]; f != nil {
		f.used = true
		r.fieldText = *f
	}
	r.exact, r.optional = m == Reply && r.Role.Exact, child(n, "required") != nil && !r.Required
	isForm := func(name string) bool { return s.table.formIndex(Form(name)) >= 0 }
	r.list = r.Each != nil && (r.Each.Value == "value" || slices.ContainsFunc(names(r.Each), isForm))
	if path, isPath := strings.CutPrefix(r.Fill.text, "$"); isPath && path != "" {
		r.echoed = path
	} else {
		r.always = r.Fill
	}
	s.readAs(r)
	s.readCheck(r)
	s.readValues(r)
	if r.loss = r.Lost; r.Lost != "" && r.Lost != "drop" {
		if r.loss = "refuse"; r.Lost != r.loss {
			r.lossCode = s.text(child(n, "lost"), "lost", "a code")
		}
	}
	s.checkForms(o, m, r)
	if len(s.problems) == before {
		s.checkRules(o, m, r, what == eachKey)
	}
	if r.Code = cmp.Or(r.Code, t.invalid); r.Required {
		r.malformed = r.Code
	}
	if len(s.problems) == before && (r.hasPairs() || r.pattern[0] != "" || r.Means != nil) {
		s.checkLaws(r)
	}
	s.readItems(o, m, r)
	return r
}

// eachKey is the key of the rows of an item.
const eachKey = "each"

// readAs reads how the forms write a value: all with the same digits or decimals, or each as a number, text or zeros,
// or with a pattern.
func (s *source) readAs(r *row) {
	kinds := map[string]bool{}
	for f, is := range r.As {
		kind := "pattern"
		switch {
		case is == "" || is == "digits" || is == "decimal":
			r.as, kind = is, is
		case is == "number":
			r.as, kind, r.numbers[f] = "digits", "by form", number
		case is == "text" || strings.Trim(is, "0") == "":
			if r.as, kind, r.numbers[f] = "digits", "by form", text; is != "text" {
				r.width[f] = len(is)
			}
		case strings.ContainsAny(is, digitPlaces) && !strings.ContainsAny(is, "\"\\"):
			if literal := literalPlaces.FindString(is); literal != "" {
				s.errorf(child(r.node, "as"), "as: %q is literal text: the places of digits are Y, M, D, h, m and s, "+
					"as in YYYY-MM-DD", literal)
			}
			r.pattern[f] = is
		default:
			kind = ""
		}
		kinds[kind] = true
	}
	at := child(r.node, "as")
	isWord := at != nil && at.Kind == yaml.ScalarNode && !kinds["digits"] && !kinds["decimal"]
	if r.digits = r.as == "digits"; at != nil && (kinds[""] || len(kinds) > 1 || isWord) {
		s.errorf(at, "as must be digits or decimal, or for each form a text with places of digits (%s), or for each "+
			"number, text or zeros (a text with leading zeros)", digitPlaces)
	}
}

// literalPlaces finds letters that stand for digits in other languages of patterns, but not here.
var literalPlaces = regexp.MustCompile(`yy+|dd+|HH+|SS+`)

// checkExpression finds the bounds in a check: a range of characters, or of numbers, or a number of digits.
var checkExpression = regexp.MustCompile(`^(?:([1-9]\d{0,17})?\.\.([1-9]\d{0,17})?|([1-9]\d{0,17}) digits)$`)

// readCheck reads the bounds of a value of a request, or all values.
func (s *source) readCheck(r *row) {
	n := r.Check
	if n == nil {
		return
	}
	if n.Kind == yaml.SequenceNode {
		s.read(n, "check", "", reflect.ValueOf(&r.oneOf).Elem())
		return
	}
	if found := checkExpression.FindStringSubmatch(n.Value); found != nil {
		for i, into := range []*int{&r.min, &r.max, &r.exactDigits} {
			*into, _ = strconv.Atoi(found[i+1]) // "" is 0
		}
	}
	if r.min+r.max+r.exactDigits == 0 || r.max > 0 && r.min > r.max {
		s.errorf(n, `check must be like 1..32, 1.., ..32, "10 digits" or [ONE, OTHER], but is %s`, show(n))
	}
}

// checkEcho checks the row of the request that a row of a reply repeats.
func (s *source) checkEcho(o *Operation, r *row) {
	form := max(r.onlyForm(), 0)
	asks := func(asked *row) bool { return asked.id == r.echoed && asked.Path[form] != "" }
	switch i := slices.IndexFunc(o.rows[Request], asks); {
	case i >= 0:
		r.asked = o.rows[Request][i]
	case r.echoed != "":
		s.errorf(child(r.node, "fill"), "fill: the request of %s has no row %s in %s%s", o.Name, r.echoed,
			s.forms[form], didYouMeanRow(r.echoed, o.rows[Request]))
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

// checkForms checks that a row has a path where its operation has one, or says what happens to the field.
func (s *source) checkForms(o *Operation, m Message, r *row) {
	forms := s.table.forms
	for f, path := range r.Path {
		switch {
		case r.Path[0]+r.Path[1] == "":
			s.errorf(r.node, "a row needs a path in at least one form")
			return
		case path != "" && o.paths[f] == "" && o.paths[forms[f].like] == "":
			s.errorf(r.node, "%s has no path in %s, so its row %s cannot have one", o.Name, forms[f].name, r.id)
		case path == "" && o.paths[f] != "" && r.Fill.kind == absent && r.Lost == "":
			s.errorf(r.node, "%s is not in %s: add fill or lost, or its path", cmp.Or(r.Path[0], r.Path[1]),
				forms[f].name)
		case path == "" && o.bare[f] && m == Reply && r.Role.Same == "must": // it would show a success
			s.errorf(child(r.node, "role"), "role: the row needs a path in %s, which is bare", forms[f].name)
		}
	}
}

// checkLaws checks that what a row writes comes back as it was: a text with the digits of its pattern, and a value
// without a pair, also if it would become one of a pair. Each value with a meaning has it in each form, and no value of
// a pair has none.
func (s *source) checkLaws(r *row) {
	at, t := cmp.Or(child(r.node, "values"), child(r.node, "as")), s.table
	for value, means := range Members(child(r.node, "means")) {
		if !slices.Contains(r.Role.means, means.Value) {
			s.errorf(value, "means: role: %s has no meaning %q%s", r.Role.name, means.Value,
				DidYouMean(means.Value, r.Role.means))
		}
	}
	valueIn := func(json []byte) value { return valueOf(gjson.ParseBytes(json)) }
	mapped := func(from, to int) *mapping { return t.mappings([]*row{r}, from, to)[0] }
	for from, form := range t.forms {
		for to := range t.forms {
			there, back := mapped(from, to), mapped(to, from)
			var samples [][]byte
			if r.pattern[from] != "" {
				samples = append(samples, appendString(nil, digitPlace.ReplaceAllString(r.pattern[from], "1")))
			}
			for _, p := range r.Values.list {
				c := p.Values[to]
				// A reply without an envelope is no success with a value that has no meaning.
				if r.Means != nil && c.kind != null && c.text != "" && r.meaning(valueIn([]byte(c.json)), to) == "" {
					s.errorf(at, "values: %s of %s has no meaning: add one of text to means", c.json, t.forms[to].name)
					return
				}
				sample, fits := back.write(nil, valueIn([]byte(c.json)), false)
				if _, paired := r.Values.find(from, to, valueIn(sample).text()); fits && !paired && c.kind != null {
					samples = append(samples, sample)
				}
			}
			for _, sample := range samples {
				written, fits := there.append(nil, valueIn(sample), false)
				if again, _ := back.append(nil, valueIn(written), false); fits && string(again) != string(sample) {
					s.errorf(at, "%s: %s of %s comes back as %s", r.id, sample, form.name, again)
					return
				}
			}
		}
		for _, word := range slices.Sorted(maps.Keys(r.Means)) {
			written, fits := mapped(0, from).append(nil, valueIn(appendString(nil, word)), false)
			if from > 0 && (!fits || r.meaning(valueIn(written), from) != r.Means[word]) {
				s.errorf(at, "values: %s means %s, but not in %s: it needs a pair of its own", word, r.Means[word],
					form.name)
				return
			}
		}
	}
}

// readItems reads the rows of an item if the row is a list.
func (s *source) readItems(o *Operation, m Message, r *row) {
	if r.Each == nil {
		return
	}
	before := len(s.problems)
	switch {
	case !r.list && r.Each.Kind != yaml.MappingNode:
		s.errorf(r.Each, "each must be the rows of an item, or value")
	case r.onlyForm() >= 0 && r.list && r.loss != "": // the table does not look into it
	case r.onlyForm() >= 0 && o.paths[0] != "" && o.paths[1] != "":
		s.errorf(r.node, "each needs a path in both forms: for a list of one form write each: value and lost")
	case !r.list:
		r.items = s.readRowList(o, m, r.Each, eachKey)
		for _, item := range r.items {
			for f, path := range item.Path {
				if inItem, begins := strings.CutPrefix(path, r.Path[f]+"."); begins && f < 2 {
					s.errorf(item.node, "%s: the path of a row of an item begins in the item: write %s", path, inItem)
				}
			}
		}
		if len(r.items) == 0 && len(s.problems) == before {
			s.errorf(r.Each, "each: no row is left")
		}
	default:
		item := *r
		item.Path = slices.Clone(r.Path)
		for f := range r.Path {
			if r.Path[f] != "" {
				item.Path[f] = itself
			}
		}
		var in struct {
			Names byForm[string] `by:"form" is:"a field name"`
		}
		if r.Each.Kind == yaml.MappingNode && s.decode(r.Each, eachKey, &in) {
			for f, name := range in.Names {
				item.Path[f] = cmp.Or(name, item.Path[f])
			}
			if in.Names[0] != "" && in.Names[1] != "" {
				s.errorf(r.Each, "each: with a name in both forms it is a row: write {%s: %s}", in.Names[0],
					in.Names[1])
			}
		}
		item.Required, item.optional, item.Each, item.list = false, false, nil, false
		r.content, r.items = s.table.newContent(), []*row{&item}
	}
}
