package translate

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// rowKeys are the keys of a row that are not forms.
var rowKeys = []string{
	"about", "as", "empty", "values", "default", "echo", "loss", "loss_code", "optional", "role", "means", "when", "unless", "remove",
	"required", "min", "max", "exact_digits", "one_of", "refuse", "malformed", "must_equal_request",
}

// reservedNames are the words beside which the name of a form stands: no form can be named so.
var reservedNames = slices.Concat(rowKeys, operationKeys, []string{"prefer", "common"})

// rows reads the rows of one message, leaves out those that the options switch off, and checks that together
// they say one thing of each field.
func (s *source) rows(t *Table, o *Operation, m Message, n *yaml.Node) {
	taken := [2]map[string]int{{}, {}}
	var at []*yaml.Node
	s.items(n, string(m), func(item *yaml.Node) {
		before := len(s.problems)
		r, on := s.row(t, o, m, item)
		if !on || len(s.problems) > before {
			return
		}
		for f, path := range r.path {
			if path == "" {
				continue
			}
			for other, line := range taken[f] {
				if other == path || strings.HasPrefix(other, path+".") || strings.HasPrefix(path, other+".") {
					s.errorf(item, "%s: the row on line %d already says where %s is", path, line, other)
				}
			}
			taken[f][path] = item.Line
			envelope := t.forms[f]
			if first := segments(path)[0]; m == Reply && envelope.result == "" && (first == envelope.code || first == envelope.text) {
				s.errorf(item, "%s: the envelope of %s has this name", path, envelope.name)
			}
		}
		for i, other := range o.rows[m] {
			apart := r.onlyForm() >= 0 && other.onlyForm() >= 0 && r.onlyForm() != other.onlyForm()
			if r.role != nil && r.role == other.role && !apart && m != Reply {
				s.errorf(item, "role: %s is already that of the row on line %d", r.role.name, at[i].Line)
				break
			}
		}
		o.rows[m], at = append(o.rows[m], r), append(at, item)
	})
	if m == Reply {
		s.checkRequestPaths(t, o, at)
	}
}

// checkRequestPaths checks the paths by which a reply names fields of its request; at are the nodes of its rows.
func (s *source) checkRequestPaths(t *Table, o *Operation, at []*yaml.Node) {
	has := func(f int, path string) bool {
		for _, r := range o.rows[Request] {
			if r.path[f] == path {
				return true
			}
		}
		return false
	}
	for i, r := range o.rows[Reply] {
		if r.echo != "" && !has(r.onlyForm(), r.echo) {
			s.errorf(at[i], "%s: echo: no request row has %s in %s", o.Name, r.echo, t.forms[r.onlyForm()].name)
		}
		if r.mustEqual != "" && !has(0, r.mustEqual) {
			s.errorf(at[i], "%s: must_equal_request: no request row has %s in %s", o.Name, r.mustEqual, t.forms[0].name)
		}
	}
}

// A rowReader reads one row. at are the nodes of its words.
type rowReader struct {
	*source
	table     *Table
	operation *Operation
	message   Message
	node      *yaml.Node
	row       *row
	nodes     map[string]*yaml.Node
	enabled   bool // false where when or unless leaves the row out
}

// row reads one row; on is false where its when or unless leaves it out.
func (s *source) row(t *Table, o *Operation, m Message, n *yaml.Node) (r *row, on bool) {
	in := &rowReader{s, t, o, m, n, &row{refuse: t.invalid, malformed: t.invalid, lossCode: t.invalid}, map[string]*yaml.Node{}, true}
	s.fields(n, "a row", func(key, v *yaml.Node) {
		in.nodes[key.Value] = v
		if i := t.formIndex(Form(key.Value)); i >= 0 {
			in.readPath(i, key, v)
		} else if !in.readBound(key.Value, v) {
			in.readKey(key, v)
		}
	})
	in.checkForms()
	in.checkConversion()
	in.checkMessage()
	in.checkReply()
	if in.row.max > 0 && in.row.min > in.row.max {
		s.errorf(n, "min %d is more than max %d", in.row.min, in.row.max)
	}
	return in.row, in.enabled
}

func (in *rowReader) readPath(form int, key, v *yaml.Node) {
	in.row.path[form] = in.source.str(v, "a path")
	for _, name := range segments(in.row.path[form]) {
		in.checkSegment(v, name)
	}
	if in.operation.paths[form] == "" {
		in.errorf(key, "%s has no path in %s", in.operation.Name, key.Value)
	}
}

// boundKeys are the words by which a request is checked.
var boundKeys = []string{"required", "min", "max", "exact_digits", "one_of"}

// readBound reads a word that is a readBound; ok is false if it is none.
func (in *rowReader) readBound(word string, v *yaml.Node) (ok bool) {
	switch r := in.row; word {
	case "required":
		r.required = in.boolean(v, word)
	case "min":
		r.min = in.wholeNumber(v, word)
	case "max":
		r.max = in.wholeNumber(v, word)
	case "exact_digits":
		r.exactDigits = in.wholeNumber(v, word)
	case "one_of":
		r.oneOf = in.stringList(v, word)
	default:
		return false
	}
	return true
}

// readKey reads a readKey that is neither a form nor a bound.
func (in *rowReader) readKey(key, v *yaml.Node) {
	t, r := in.table, in.row
	switch key.Value {
	case "about":
		r.about = in.source.str(v, "about")
	case "as":
		r.digits = in.oneOf(v, "as", "digits") != ""
	case "empty":
		if c, ok := in.constant(v); ok && c.kind == number {
			r.empty = c.text
		} else if ok {
			in.errorf(v, "empty must be the whole number that stands for nothing, such as 0, but is %q", v.Value)
		}
	case "values":
		r.pairs = in.pairs(t, v)
	case "default":
		if c, ok := in.constant(v); ok {
			r.defaultValue = &c
		}
	case "echo":
		r.echo = in.source.str(v, "echo")
	case "loss":
		r.loss = in.oneOf(v, "loss", "drop", "refuse")
	case "loss_code":
		r.lossCode = in.refusalCode(t, v)
	case "optional":
		r.optional = in.boolean(v, "optional")
	case "role":
		r.role = t.roles[in.roleName(t, v, "role")]
	case "means":
		r.means = map[string]string{}
		in.fields(v, "means", func(value, word *yaml.Node) { r.means[value.Value] = in.source.str(word, "means") })
	case "when", "unless":
		in.readCondition(key, v)
	case "refuse":
		r.refuse = in.refusalCode(t, v)
	case "malformed":
		r.malformed = in.refusalCode(t, v)
	case "must_equal_request":
		r.mustEqual = in.source.str(v, "must_equal_request")
	case "remove", newKey:
		in.errorf(key, "%s: stands in an overlay, and there only as true", key.Value)
	case "common":
		in.errorf(key, "common: only a request or a reply can have common rows")
	default:
		in.unknownKey(key, "a row", append(t.formNames(), rowKeys...)...)
	}
}

func (in *rowReader) readCondition(key, v *yaml.Node) {
	option := in.source.str(v, key.Value)
	value, known := in.table.options[option]
	if !known {
		in.errorf(v, "%s: %q is not one of the options%s", key.Value, option, DidYouMean(option, slices.Collect(maps.Keys(in.table.options))))
	}
	in.usedOptions[option] = true
	in.enabled = in.enabled && value == (key.Value == "when")
}

// has tells whether the row has one of the words.
func (in *rowReader) has(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return in.nodes[word] != nil })
}

// checkForms checks which forms have the field, and that a field of one form says what becomes of it.
func (in *rowReader) checkForms() {
	r, lone := in.row, in.row.onlyForm()
	explained := in.has("default", "echo", "loss")
	switch {
	case r.path == [2]string{}:
		in.errorf(in.node, "a row needs a path in at least one form")
	case lone < 0 && explained:
		in.errorf(in.node, "default, echo and loss are for a field that one form lacks, but this row names both")
	case lone >= 0 && in.operation.paths[1-lone] != "" && !explained:
		in.errorf(in.node, "%s is in %s only: say default, echo or loss", r.path[lone], in.table.forms[lone].name)
	}
	if lone >= 0 && r.pairs != nil {
		in.errorf(in.node, "values are for a field of both forms")
	}
}

// checkConversion checks how the value is written in the other form, and what its role says about it.
func (in *rowReader) checkConversion() {
	r, forms := in.row, in.table.forms
	switch {
	case in.nodes["empty"] == nil:
	case in.message == Request:
		in.errorf(in.nodes["empty"], "empty: a request says what it says")
	case r.role != nil && r.role.zeroIsValue:
		in.errorf(in.nodes["empty"], "empty: 0 is a value of role: %s", r.role.name)
	case r.onlyForm() >= 0 || !r.digits || forms[0].digits == forms[1].digits:
		in.errorf(in.nodes["empty"], "empty is for a field of both forms with as: digits that one of them writes as a number and the other as text")
	case len(r.pairs) > 0:
		in.errorf(in.nodes["empty"], "empty: the row has values: pair the empty value there")
	}
	if r.role != nil && r.role.unconverted && (r.digits || r.pairs != nil) {
		in.errorf(in.node, "role: %s has no conversion, neither as nor values", r.role.name)
	}
	if r.means == nil {
		return
	}
	if r.role == nil || r.role.means == nil {
		in.errorf(in.nodes["means"], "means needs a role: that has means")
		return
	}
	for value, word := range r.means {
		if word != "" && !slices.Contains(r.role.means, word) {
			in.errorf(child(in.nodes["means"], value), "%q is not one of the means of role: %s%s", word, r.role.name, DidYouMean(word, r.role.means))
		}
	}
	if r.digits {
		in.errorf(in.nodes["means"], "means is for a field that holds text, and as: digits for one that holds a number")
	}
}

// misplaced are the words that make no sense in a message.
var misplaced = []struct {
	words []string
	in    Message
	why   string
}{
	{[]string{"default"}, Reply, "default: a reply is never filled in but by echo"},
	{[]string{"default"}, callbackMessage, "default: a callback is never filled in"},
	{[]string{"echo"}, Request, "echo: a request has nothing to echo"},
	{[]string{"echo"}, callbackMessage, "echo: a callback has no request to echo from"},
	{boundKeys, Reply, "a reply has no bounds"},
	{boundKeys, callbackMessage, "a callback has no bounds"},
	{[]string{"must_equal_request"}, Request, "must_equal_request: only a field of a reply can equal one of its request"},
	{[]string{"must_equal_request"}, callbackMessage, "must_equal_request: a callback has no request"},
	{[]string{"means"}, Request, "means: only a reply says what has become of something"},
}

// checkMessage checks that the row says nothing that its message cannot do.
func (in *rowReader) checkMessage() {
	for _, m := range misplaced {
		for _, word := range m.words {
			if m.in == in.message && in.has(word) {
				in.errorf(in.nodes[word], "%s", m.why)
				break
			}
		}
	}
	if in.row.loss == "refuse" && in.message != Request {
		in.errorf(in.nodes["loss"], "loss: a %s always arrives, it can only drop", in.message)
	}
}

// checkReply checks that a field by which a reply without an envelope is known exists in its form.
func (in *rowReader) checkReply() {
	if bare := in.operation.noEnvelope; in.message == Reply && in.row.mustEqual != "" && bare >= 0 && in.row.path[bare] == "" {
		in.errorf(in.nodes["must_equal_request"], "must_equal_request: %s has replies without an envelope, so that it must have the field", in.table.forms[bare].name)
	}
}

func (s *source) stringList(n *yaml.Node, what string) []string {
	var words []string
	s.items(n, what, func(item *yaml.Node) { words = append(words, s.str(item, what)) })
	if len(words) == 0 {
		s.errorf(n, "%s needs at least one value", what)
	}
	return words
}

// pairs reads values or codes. A value that several lines share must have exactly one that is preferred.
func (s *source) pairs(t *Table, n *yaml.Node) pairs {
	var list pairs
	var at []*yaml.Node
	s.items(n, "pairs", func(item *yaml.Node) {
		var p pair
		set := [2]bool{}
		s.fields(item, "a pair", func(key, v *yaml.Node) {
			if i := t.formIndex(Form(key.Value)); i >= 0 {
				p.values[i], set[i] = s.constant(v)
				return
			}
			if key.Value != "prefer" {
				s.unknownKey(key, "a pair", append(t.formNames(), "prefer")...)
				return
			}
			p.prefer = s.boolean(v, "prefer")
		})
		if set != [2]bool{true, true} {
			s.errorf(item, "a pair needs a value for %s and one for %s", t.forms[0].name, t.forms[1].name)
			return
		}
		list, at = append(list, p), append(at, item)
	})
	for i := range list {
		for f := range list[i].values {
			same, preferred, before := 0, 0, 0
			for j, other := range list {
				if other.values[f].text != list[i].values[f].text {
					continue
				}
				if same++; other.prefer {
					preferred++
				}
				if j < i {
					before++
				}
			}
			if before == 1 && preferred != 1 { // once for all lines that share it
				s.errorf(at[i], "%q of %s stands in %d pairs: mark the one that is read on the way back with prefer: true", list[i].values[f].text, t.forms[f].name, same)
			}
		}
	}
	return list
}

// constant is a scalar of the table as JSON: a YAML whole number is a number, a true or false a boolean, all
// else a string.
func (s *source) constant(n *yaml.Node) (constant, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		s.errorf(n, "a value must be a word or a number")
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
	s.errorf(n, "write %q in quotes: as a number it has no exact spelling", n.Value)
	return constant{}, false
}
