package translate

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"
)

// rowKeys are the keys of a row besides the forms.
var rowKeys = []string{
	"about", "as", "empty", "values", "default", "echo", "loss", "loss_code", "optional", "role", "means", "when", "unless", "remove", replacesKey,
	"required", "min", "max", "exact_digits", "one_of", "refuse", "malformed", "must_equal_request", "repeats_request", "exact",
}

// reservedNames are the keys that can stand beside the name of a form. No form can be named like one of them.
var reservedNames = slices.Concat(rowKeys, operationKeys, []string{"prefer", "common"})

// readRows reads the rows of a message, without those that an option switches off, and checks that no two contradict each other.
func (s *source) readRows(t *Table, o *Operation, m Message, n *yaml.Node) {
	var used [2]usedPaths
	byRole := map[*role][]placedRow{}
	var nodes []*yaml.Node
	s.items(n, string(m), func(item *yaml.Node) {
		before := len(s.problems)
		r, enabled := s.readRow(t, o, m, item)
		if !enabled || len(s.problems) > before {
			return
		}
		s.checkPaths(t, m, r, item, &used)
		if r.role != nil && !r.role.many {
			s.checkRole(r, item, byRole[r.role])
			byRole[r.role] = append(byRole[r.role], placedRow{r, item})
		}
		o.rows[m], nodes = append(o.rows[m], r), append(nodes, item)
	})
	if m == Reply {
		s.checkRequestPaths(t, o, nodes)
	}
}

// A placedRow is a row and its node.
type placedRow struct {
	*row
	node *yaml.Node
}

// checkPaths checks that the paths of a row do not overlap with those of the rows before it.
func (s *source) checkPaths(t *Table, m Message, r *row, item *yaml.Node, used *[2]usedPaths) {
	for f, path := range r.path {
		if path == "" {
			continue
		}
		if other, overlaps := used[f].add(path, item.Line); overlaps {
			s.errorf(item, "%s: the row on line %d already has the path %s", path, other.line, other.path)
		}
		envelope := t.forms[f]
		if first := segments(path)[0]; m == Reply && envelope.result == "" && (first == envelope.code || first == envelope.text) {
			s.errorf(item, "%s: the envelope of %s has a field of this name", path, envelope.name)
		}
	}
}

// checkRole checks that no other row of the message has the role in the same form. others are the rows before it with the role.
func (s *source) checkRole(r *row, item *yaml.Node, others []placedRow) {
	for _, other := range others {
		differentForms := r.onlyForm() >= 0 && other.onlyForm() >= 0 && r.onlyForm() != other.onlyForm()
		if !differentForms {
			s.errorf(item, "role: the row on line %d already has the role %s", other.node.Line, r.role.name)
			return
		}
	}
}

// checkRequestPaths checks the paths by which rows of a reply refer to the request. nodes are the nodes of these rows.
func (s *source) checkRequestPaths(t *Table, o *Operation, nodes []*yaml.Node) {
	paths := [2]map[string]bool{{}, {}}
	for _, r := range o.rows[Request] {
		paths[0][r.path[0]], paths[1][r.path[1]] = true, true
	}
	for i, r := range o.rows[Reply] {
		if r.echo != "" && !paths[r.onlyForm()][r.echo] {
			s.errorf(nodes[i], "echo: the request of %s has no row with the path %s in %s", o.Name, r.echo, t.forms[r.onlyForm()].name)
		}
		if r.mustEqual != "" && !paths[0][r.mustEqual] {
			s.errorf(nodes[i], "must_equal_request: the request of %s has no row with the path %s in %s", o.Name, r.mustEqual, t.forms[0].name)
		}
		if r.repeats != "" && !paths[0][r.repeats] {
			s.errorf(nodes[i], "repeats_request: the request of %s has no row with the path %s in %s", o.Name, r.repeats, t.forms[0].name)
		}
	}
}

// A rowReader reads one row.
type rowReader struct {
	*source
	table     *Table
	operation *Operation
	message   Message
	node      *yaml.Node
	row       *row
	nodes     map[string]*yaml.Node // the values of the row's keys
	enabled   bool                  // by when and unless
}

// readRow reads one row. enabled is false if its when or unless switches it off.
func (s *source) readRow(t *Table, o *Operation, m Message, n *yaml.Node) (r *row, enabled bool) {
	r = &row{refuse: t.invalid, malformed: t.invalid, lossCode: t.invalid, source: Row{s.fileOf(n), n.Line, showRow(n)}}
	rd := &rowReader{s, t, o, m, n, r, map[string]*yaml.Node{}, true}
	s.fields(n, "a row", func(key, v *yaml.Node) {
		rd.nodes[key.Value] = v
		if i := t.formIndex(Form(key.Value)); i >= 0 {
			rd.readPath(i, key, v)
		} else if !rd.readBound(key.Value, v) {
			rd.readKey(key, v)
		}
	})
	if n.Kind != yaml.MappingNode {
		return rd.row, true
	}
	rd.row.exact = rd.row.exact || m == Reply && rd.row.role != nil && rd.row.role.exact
	rd.checkForms()
	rd.checkEmpty()
	rd.checkConversion()
	rd.checkMeans()
	rd.checkMessage()
	rd.checkNoEnvelope()
	if rd.row.max > 0 && rd.row.min > rd.row.max {
		s.errorf(n, "min %d is greater than max %d", rd.row.min, rd.row.max)
	}
	return rd.row, rd.enabled
}

func (rd *rowReader) readPath(form int, key, v *yaml.Node) {
	if rd.operation.paths[form] == "" {
		rd.errorf(key, "%s has no path in %s, so its rows cannot have one", rd.operation.Name, key.Value)
	}
	path := rd.str(v, "a path")
	if path == "" {
		return
	}
	rd.row.path[form] = path
	for _, name := range segments(path) {
		rd.checkFieldName(v, name)
	}
}

// boundKeys are the keys that are bounds of a request.
var boundKeys = []string{"required", "min", "max", "exact_digits", "one_of"}

// readBound reads a key that is a bound. ok is false if it is not a bound.
func (rd *rowReader) readBound(key string, v *yaml.Node) (ok bool) {
	switch r := rd.row; key {
	case "required":
		r.required = rd.boolean(v, key)
	case "min":
		r.min = rd.wholeNumber(v, key)
	case "max":
		r.max = rd.wholeNumber(v, key)
	case "exact_digits":
		r.exactDigits = rd.wholeNumber(v, key)
	case "one_of":
		r.oneOf = rd.texts(v, key)
	default:
		return false
	}
	return true
}

// readKey reads a key that is neither a form nor a bound.
func (rd *rowReader) readKey(key, v *yaml.Node) {
	t, r := rd.table, rd.row
	switch key.Value {
	case "about":
		r.about = rd.str(v, "about")
	case "as":
		_, r.digits = rd.oneOf(v, "as", "digits"), true
	case "empty":
		if c, ok := rd.constant(v); ok && c.kind == number {
			r.empty = c.text
		} else if ok {
			rd.errorf(v, "empty must be a whole number such as 0, but is %s", show(v))
		}
	case "values":
		r.pairs = rd.readPairs(t, v)
	case "default":
		if c, ok := rd.constant(v); ok {
			r.defaultValue = &c
		}
	case "echo":
		r.echo = rd.str(v, "echo")
	case "loss":
		r.loss = rd.oneOf(v, "loss", "drop", "refuse")
	case "loss_code":
		r.lossCode = rd.refusalCode(t, v)
	case "optional":
		r.optional = rd.boolean(v, "optional")
	case "exact":
		r.exact = rd.boolean(v, "exact")
	case "role":
		r.role = t.roles[rd.roleName(t, v, "role")]
	case "means":
		r.means = map[string]string{}
		rd.fields(v, "means", func(value, meaning *yaml.Node) { r.means[value.Value] = rd.str(meaning, "means") })
	case "when", "unless":
		rd.readCondition(key, v)
	case "refuse":
		r.refuse = rd.refusalCode(t, v)
	case "malformed":
		r.malformed = rd.refusalCode(t, v)
	case "must_equal_request":
		r.mustEqual = rd.str(v, "must_equal_request")
	case "repeats_request":
		r.repeats = rd.str(v, "repeats_request")
	case "remove", newKey:
		rd.errorf(key, "%s is allowed in overlays only, and only as %[1]s: true", key.Value)
	case replacesKey:
		rd.errorf(key, "replaces is allowed in overlays only, and only in a row that changes rows of the table")
	case "common":
		rd.errorf(key, "common: only a request or a reply can include common rows")
	default:
		rd.unknownKey(key, "a row", append(t.formNames(), rowKeys...)...)
	}
}

func (rd *rowReader) readCondition(key, v *yaml.Node) {
	option := rd.str(v, key.Value)
	value, known := rd.table.options[option]
	if !known {
		rd.errorf(v, "%s: the table has no option %q%s", key.Value, option, DidYouMean(option, slices.Collect(maps.Keys(rd.table.options))))
	}
	rd.usedOptions[option] = true
	rd.enabled = rd.enabled && value == (key.Value == "when")
}

// hasAny reports whether the row has one of the keys.
func (rd *rowReader) hasAny(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return rd.nodes[key] != nil })
}

// checkForms checks that a row of one form, and only such a row, says what happens to the field in the other form.
func (rd *rowReader) checkForms() {
	r, only := rd.row, rd.row.onlyForm()
	saysWhatHappens := rd.hasAny("default", "echo", "loss")
	switch {
	case !rd.hasAny(rd.table.formNames()...):
		rd.errorf(rd.node, "a row needs a path in at least one form")
	case r.path == [2]string{}: // has been reported
	case only < 0 && saysWhatHappens:
		hint := ""
		if _, ofOverlay := rd.overlayOf[rd.node]; ofOverlay || rd.message == callbackMessage {
			hint = "; the row keeps the keys of the row that it changes: write FORM: null or KEY: null to remove one"
		}
		rd.errorf(rd.node, "default, echo and loss are for a field of one form, but this row has a path in both%s", hint)
	case only >= 0 && rd.operation.paths[1-only] != "" && !saysWhatHappens:
		rd.errorf(rd.node, "%s is in %s only: add default, echo or loss", r.path[only], rd.table.forms[only].name)
	}
	if only >= 0 && len(r.pairs.list) > 0 {
		rd.errorf(rd.node, "values: the row needs a path in both forms")
	}
}

// checkEmpty checks whether the row can have the key empty.
func (rd *rowReader) checkEmpty() {
	r, forms, node := rd.row, rd.table.forms, rd.nodes["empty"]
	switch {
	case node == nil:
	case rd.message == Request:
		rd.errorf(node, "empty is not allowed in a request")
	case r.role != nil && r.role.zeroIsValue:
		rd.errorf(node, "empty is not allowed with role: %s, which has zero_is_a_value", r.role.name)
	case r.onlyForm() >= 0 || !r.digits || forms[0].digits == forms[1].digits:
		rd.errorf(node, "empty needs as: digits and a path in both forms, of which one has digits: number and the other digits: string")
	case len(r.pairs.list) > 0:
		rd.errorf(node, "empty is not allowed with values: add a pair for the empty value instead")
	}
}

// checkConversion checks whether the role of the row allows a conversion.
func (rd *rowReader) checkConversion() {
	if r := rd.row; r.role != nil && r.role.unconverted && (r.digits || len(r.pairs.list) > 0) {
		rd.errorf(rd.node, "as and values are not allowed with role: %s, which is unconverted", r.role.name)
	}
}

// checkMeans checks the meanings of values against those of the role.
func (rd *rowReader) checkMeans() {
	r, node := rd.row, rd.nodes["means"]
	if missing := node == nil || node.Kind == yaml.MappingNode && len(node.Content) == 0; missing && rd.message == Reply && r.role != nil && r.role.means != nil {
		// Without it a rollout could not tell a paid bill, and a reply without an envelope would never be a success.
		rd.errorf(rd.nodes["role"], "role: %s needs means: write what each value means, as in means: {VALUE: %s}", r.role.name, r.role.means[0])
		return
	}
	if r.means == nil {
		return
	}
	if r.role == nil || r.role.means == nil {
		rd.errorf(node, "means needs a role that has means")
		return
	}
	for value, meaning := range r.means {
		if meaning != "" && !slices.Contains(r.role.means, meaning) {
			rd.errorf(child(node, value), "means: role: %s has no meaning %q%s", r.role.name, meaning, DidYouMean(meaning, r.role.means))
		}
	}
	if r.digits {
		rd.errorf(rd.nodes["as"], "means is not allowed with as: digits, since only text has a meaning")
	}
	for _, p := range r.pairs.list { // a reply without an envelope is no success with a value that has no meaning
		switch v := p.values[0]; {
		case v.kind != text:
			rd.errorf(rd.nodes["values"], "values: a field with means has text: write %q in quotes", v.text)
		case v.text != "" && r.means[v.text] == "":
			rd.errorf(rd.nodes["values"], "values: %q of %s has no meaning: add it to means", v.text, rd.table.forms[0].name)
		}
	}
}

// misplacedKeys are the keys that have no effect in the rows of a message.
var misplacedKeys = map[Message][]string{
	Request:         {"echo", "must_equal_request", "repeats_request", "means", "exact"},
	Reply:           append([]string{"default"}, boundKeys...),
	callbackMessage: append([]string{"default", "echo", "must_equal_request", "repeats_request", "exact"}, boundKeys...),
}

// checkMessage checks that the keys of the row make sense in its message.
func (rd *rowReader) checkMessage() {
	for _, key := range misplacedKeys[rd.message] {
		if rd.hasAny(key) {
			rd.errorf(rd.nodes[key], "%s is not allowed in a %s", key, rd.message)
		}
	}
	if rd.row.loss == "refuse" && rd.message != Request {
		rd.errorf(rd.nodes["loss"], "loss: refuse is not allowed in a %s; write loss: drop", rd.message)
	}
}

// checkNoEnvelope checks that a field with must_equal_request exists in the form whose replies have no envelope.
func (rd *rowReader) checkNoEnvelope() {
	if f := rd.operation.noEnvelope; rd.message == Reply && rd.row.mustEqual != "" && f >= 0 && rd.row.path[f] == "" {
		rd.errorf(rd.nodes["must_equal_request"], "must_equal_request: the row needs a path in %s, which has no_envelope", rd.table.forms[f].name)
	}
}

// texts returns the items of a list of texts.
func (s *source) texts(n *yaml.Node, what string) []string {
	var list []string
	s.items(n, what, func(item *yaml.Node) { list = append(list, s.str(item, what)) })
	if len(list) == 0 && n.Kind == yaml.SequenceNode {
		s.errorf(n, "%s needs at least one value", what)
	}
	return list
}

// constant returns a scalar of the table: a whole number, true or false, or text.
func (s *source) constant(n *yaml.Node) (constant, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		s.errorf(n, "a value must be text, a number, true or false, but is %s", show(n))
		return constant{}, false
	}
	switch {
	case n.Tag == "!!int" && isDigits(n.Value):
		return constant{number, n.Value, n.Value}, true
	case n.Tag == "!!bool" && (n.Value == "true" || n.Value == "false"):
		return constant{boolean, n.Value, n.Value}, true
	case n.Tag == "!!str":
		return constant{text, n.Value, string(appendString(nil, n.Value))}, true
	}
	s.errorf(n, "write %q in quotes: only digits without a leading zero can be written without quotes", n.Value)
	return constant{}, false
}
