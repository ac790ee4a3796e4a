package translate

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"
)

// rowKeys are the keys of a row. Those of the row itself are read by decode alone.
type rowKeys struct {
	*row
	ByForm                                            [2]*yaml.Node
	Empty, Values, Default, Role, Means, When, Unless *yaml.Node
}

// isReserved reports whether a name is a key that can stand beside the name of a form.
func (s *source) isReserved(name string) bool {
	keys := slices.Concat(s.keysOf(reflect.TypeFor[rowKeys]()), s.keysOf(reflect.TypeFor[operationKeys]()))
	return name == "prefer" || name != newKey && overlayKeys[name] != "" ||
		slices.ContainsFunc(keys, func(k keyOfField) bool { return k.key == name })
}

// A placedRow is a row and its node.
type placedRow struct {
	*row
	node *yaml.Node
}

// readRows reads the rows of a message, without those that an option switches off, and checks that no two contradict
// each other.
func (s *source) readRows(o *Operation, m Message, n *yaml.Node) {
	var used [2]usedPaths
	var rows []placedRow
	byRole := map[*role][]placedRow{}
	for _, item := range s.items(n, string(m)) {
		before := len(s.problems)
		r := &row{Refuse: s.table.invalid, Malformed: s.table.invalid, LossCode: s.table.invalid, role: noRole}
		rd := &rowReader{s, o, m, item, rowKeys{row: r}}
		if enabled := rd.read(); !enabled || len(s.problems) > before {
			continue
		}
		rd.checkPaths(&used)
		rd.checkRole(byRole[r.role])
		placed := placedRow{r, item}
		byRole[r.role] = append(byRole[r.role], placed)
		o.rows[m], rows = append(o.rows[m], r), append(rows, placed)
	}
	if m == Reply {
		s.checkRequestPaths(o, rows)
	}
}

// checkRequestPaths checks the paths by which rows of a reply refer to the request.
func (s *source) checkRequestPaths(o *Operation, rows []placedRow) {
	check := func(r placedRow, key, path string, form int) {
		has := func(asked *row) bool { return asked.path[form] == path }
		if path != "" && !slices.ContainsFunc(o.rows[Request], has) {
			s.errorf(r.node, "%s: the request of %s has no row with the path %s in %s",
				key, o.Name, path, s.forms[form])
		}
	}
	for _, r := range rows {
		check(r, "echo", r.Echo, max(r.onlyForm(), 0))
		check(r, "must_equal_request", r.MustEqualRequest, 0)
		check(r, "repeats_request", r.RepeatsRequest, 0)
	}
}

// A rowReader reads one row.
type rowReader struct {
	*source
	operation *Operation
	message   Message
	node      *yaml.Node
	rowKeys
}

// read reads the row. enabled is false if its when or unless switches it off.
func (rd *rowReader) read() (enabled bool) {
	r, n := rd.row, rd.node
	r.source = Row{rd.fileOf(n), n.Line, showRow(n)}
	rd.decode(n, "a row", &rd.rowKeys)
	if n.Kind != yaml.MappingNode {
		return true
	}
	for form, v := range rd.ByForm {
		rd.readPath(form, v)
	}
	rd.readNodes()
	when, unless := rd.option("when", rd.When, true), rd.option("unless", rd.Unless, false)
	if f := rd.table.fields[r.name()]; f != nil {
		r.About, r.example = cmp.Or(r.About, f.About), f.Example
	}
	r.digits, r.Exact = child(n, "as") != nil, r.Exact || rd.message == Reply && r.role.Exact
	rd.checkForms()
	rd.checkEmpty()
	rd.checkMeans()
	rd.checkMessage()
	if r.role.Unconverted && (r.digits || len(r.pairs.list) > 0) {
		rd.errorf(n, "as and values are not allowed with role: %s, which is unconverted", r.role.name)
	}
	if r.Max > 0 && r.Min > r.Max {
		rd.errorf(n, "min %d is greater than max %d", r.Min, r.Max)
	}
	return when && unless
}

func (rd *rowReader) readPath(form int, v *yaml.Node) {
	if v == nil {
		return
	}
	if rd.operation.paths[form] == "" {
		key, _ := find(rd.node, rd.forms[form])
		rd.errorf(key, "%s has no path in %s, so its rows cannot have one", rd.operation.Name, key.Value)
	}
	if rd.path[form] = rd.str(v, "a path"); rd.path[form] == "" {
		return
	}
	for _, name := range segments(rd.path[form]) {
		rd.checkFieldName(v, name)
	}
}

// readNodes reads the keys that are more than a text, a number, or true and false.
func (rd *rowReader) readNodes() {
	r := rd.row
	if rd.Empty != nil {
		if c := rd.constant(rd.Empty); c != nil && c.kind == number {
			r.empty = c.text
		} else if c != nil {
			rd.errorf(rd.Empty, "empty must be a whole number such as 0, but is %s", show(rd.Empty))
		}
	}
	if rd.Values != nil {
		r.pairs = rd.readPairs(rd.Values)
	}
	if rd.Default != nil {
		r.defaultValue = rd.constant(rd.Default)
	}
	if rd.Role != nil {
		r.role = cmp.Or(rd.table.roles[rd.roleName(rd.Role, "role")], noRole)
	}
	if rd.Means != nil {
		r.means = map[string]string{}
		for value, meaning := range rd.members(rd.Means, "means") {
			r.means[value.Value] = rd.str(meaning, "means")
		}
	}
}

// option reports whether the row applies by its when or unless.
func (rd *rowReader) option(key string, v *yaml.Node, want bool) bool {
	if v == nil {
		return true
	}
	name := rd.str(v, key)
	value, known := rd.table.options[name]
	if !known {
		hint := DidYouMean(name, slices.Collect(maps.Keys(rd.table.options)))
		rd.errorf(v, "%s: the table has no option %q%s", key, name, hint)
	}
	rd.usedOptions[name] = true
	return value == want
}

// checkPaths checks that the paths of the row do not overlap with those of the rows before it.
func (rd *rowReader) checkPaths(used *[2]usedPaths) {
	for f, path := range rd.path {
		if path == "" {
			continue
		}
		if other, overlaps := used[f].add(path, rd.node.Line); overlaps {
			rd.errorf(rd.node, "%s: the row on line %d already has the path %s", path, other.line, other.path)
		}
		envelope, first := rd.table.forms[f], segments(path)[0]
		if rd.message == Reply && envelope.Result == "" && (first == envelope.Code || first == envelope.Text) {
			rd.errorf(rd.node, "%s: the envelope of %s has a field of this name", path, envelope.name)
		}
	}
}

// checkRole checks that no other row of the message has the role in the same form. others are the rows before it with
// the role.
func (rd *rowReader) checkRole(others []placedRow) {
	if rd.role == noRole || rd.role.Many {
		return
	}
	only := rd.onlyForm()
	for _, other := range others {
		if differentForms := only >= 0 && other.onlyForm() == 1-only; !differentForms {
			rd.errorf(rd.node, "role: the row on line %d already has the role %s", other.node.Line, rd.role.name)
			return
		}
	}
}

// checkForms checks that a row of one form, and only such a row, says what happens to the field in the other form.
func (rd *rowReader) checkForms() {
	r, only, forms := rd.row, rd.onlyForm(), rd.table.forms
	saysWhatHappens := rd.Default != nil || child(rd.node, "echo") != nil || child(rd.node, "loss") != nil
	switch {
	case rd.ByForm == [2]*yaml.Node{}:
		rd.errorf(rd.node, "a row needs a path in at least one form")
	case r.path == [2]string{}: // has been reported
	case only < 0 && saysWhatHappens:
		hint := ""
		if rd.overlayOf[rd.node] != "" || rd.message == callbackMessage {
			hint = "; the row keeps the keys of the row that it changes: write FORM: null or KEY: null to remove one"
		}
		rd.errorf(rd.node, "default, echo and loss are for a field of one form, "+
			"but this row has a path in both%s", hint)
	case only >= 0 && rd.operation.paths[1-only] != "" && !saysWhatHappens:
		rd.errorf(rd.node, "%s is in %s only: add default, echo or loss", r.path[only], forms[only].name)
	}
	if only >= 0 && len(r.pairs.list) > 0 {
		rd.errorf(rd.node, "values: the row needs a path in both forms")
	}
	// A field with must_equal_request shows a success in the form whose replies have no envelope.
	if f := rd.operation.noEnvelope; rd.message == Reply && r.MustEqualRequest != "" && f >= 0 && r.path[f] == "" {
		rd.errorf(child(rd.node, "must_equal_request"),
			"must_equal_request: the row needs a path in %s, which has no_envelope", forms[f].name)
	}
}

// checkEmpty checks whether the row can have the key empty.
func (rd *rowReader) checkEmpty() {
	r, forms := rd.row, rd.table.forms
	switch {
	case rd.Empty == nil:
	case rd.message == Request:
		rd.errorf(rd.Empty, "empty is not allowed in a request")
	case r.role.ZeroIsAValue:
		rd.errorf(rd.Empty, "empty is not allowed with role: %s, which has zero_is_a_value", r.role.name)
	case r.onlyForm() >= 0 || !r.digits || forms[0].digits == forms[1].digits:
		rd.errorf(rd.Empty, "empty needs as: digits and a path in both forms, "+
			"of which one has digits: number and the other digits: string")
	case len(r.pairs.list) > 0:
		rd.errorf(rd.Empty, "empty is not allowed with values: add a pair for the empty value instead")
	}
}

// checkMeans checks the meanings of values against those of the role.
func (rd *rowReader) checkMeans() {
	r := rd.row
	missing := rd.Means == nil || rd.Means.Kind == yaml.MappingNode && len(rd.Means.Content) == 0
	switch {
	case missing && rd.message == Reply && r.role.Means != nil:
		// Without it a rollout could not tell a paid bill, and a reply without an envelope would never be a success.
		rd.errorf(rd.Role, "role: %s needs means: write what each value means, as in means: {VALUE: %s}",
			r.role.name, r.role.Means[0])
		return
	case r.means == nil:
		return
	case r.role.Means == nil:
		rd.errorf(rd.Means, "means needs a role that has means")
		return
	case r.digits:
		rd.errorf(child(rd.node, "as"), "means is not allowed with as: digits, since only text has a meaning")
	}
	for value, meaning := range r.means {
		if meaning != "" && !slices.Contains(r.role.Means, meaning) {
			hint := DidYouMean(meaning, r.role.Means)
			rd.errorf(child(rd.Means, value), "means: role: %s has no meaning %q%s", r.role.name, meaning, hint)
		}
	}
	for _, p := range r.pairs.list { // a reply without an envelope is no success with a value that has no meaning
		switch v := p.values[0]; {
		case v.kind != text:
			rd.errorf(rd.Values, "values: a field with means has text: write %q in quotes", v.text)
		case v.text != "" && r.means[v.text] == "":
			rd.errorf(rd.Values, "values: %q of %s has no meaning: add it to means", v.text, rd.table.forms[0].name)
		}
	}
}

// boundKeys are the keys that are bounds of a request.
var boundKeys = []string{"required", "min", "max", "exact_digits", "one_of"}

// misplacedKeys are the keys that have no effect in the rows of a message.
var misplacedKeys = map[Message][]string{
	Request: {"echo", "must_equal_request", "repeats_request", "means", "exact"},
	Reply:   append([]string{"default"}, boundKeys...),
	callbackMessage: append(
		[]string{"default", "echo", "must_equal_request", "repeats_request", "exact"}, boundKeys...),
}

// checkMessage checks that the keys of the row make sense in its message.
func (rd *rowReader) checkMessage() {
	for _, key := range misplacedKeys[rd.message] {
		if v := child(rd.node, key); v != nil {
			rd.errorf(v, "%s is not allowed in a %s", key, rd.message)
		}
	}
	if rd.Loss == "refuse" && rd.message != Request {
		rd.errorf(child(rd.node, "loss"), "loss: refuse is not allowed in a %s; write loss: drop", rd.message)
	}
}
