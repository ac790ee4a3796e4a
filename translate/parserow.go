package translate

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// rowWords are the keys of a row that are not forms.
var rowWords = []string{
	"as", "empty", "values", "default", "echo", "loss", "loss_code", "optional", "role", "note", "when", "unless", "remove",
	"required", "min", "max", "exact_digits", "one_of", "refuse", "malformed", "proof",
}

// reserved are the words beside which the name of a form stands: no form can be named so.
var reserved = append(slices.Clone(rowWords), "prefer", "effect", "makes", "bare", "result", "request", "reply")

// rows reads the rows of one message, leaves out those that the options switch off, and checks that together
// they say one thing of each field.
func (s *source) rows(t *Table, o *Operation, m message, n *yaml.Node) {
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
			if first := segments(path)[0]; m == reply && envelope.result == "" && (first == envelope.code || first == envelope.text) {
				s.errorf(item, "%s: the envelope of %s has this name", path, envelope.name)
			}
		}
		for i, other := range o.rows[m] {
			apart := r.lone() >= 0 && other.lone() >= 0 && r.lone() != other.lone()
			if r.role != "" && r.role == other.role && !apart && m != reply {
				s.errorf(item, "role: %s is already that of the row on line %d", r.role, at[i].Line)
				break
			}
		}
		o.rows[m], at = append(o.rows[m], r), append(at, item)
	})
	if m == reply {
		s.references(t, o, at)
	}
}

// references checks the paths by which a reply names fields of its request; at are the nodes of its rows.
func (s *source) references(t *Table, o *Operation, at []*yaml.Node) {
	has := func(f int, path string) bool {
		for _, r := range o.rows[request] {
			if r.path[f] == path {
				return true
			}
		}
		return false
	}
	for i, r := range o.rows[reply] {
		if r.echo != "" && !has(r.lone(), r.echo) {
			s.errorf(at[i], "%s: echo: no request row has %s in %s", o.Name, r.echo, t.forms[r.lone()].name)
		}
		if r.proofAsked != "" && !has(0, r.proofAsked) {
			s.errorf(at[i], "%s: proof: no request row has %s in %s", o.Name, r.proofAsked, t.forms[0].name)
		}
	}
}

// row reads one row; on is false where its when or unless leaves it out.
func (s *source) row(t *Table, o *Operation, m message, n *yaml.Node) (r *row, on bool) {
	r, on = &row{refuse: t.invalid, malformed: t.invalid, lossCode: t.invalid}, true
	var at struct{ empty, preset, echo, loss, proof, bound *yaml.Node }
	s.fields(n, "a row", func(key, v *yaml.Node) {
		if i := t.index(Form(key.Value)); i >= 0 {
			r.path[i] = s.word(v, "a path")
			for _, name := range segments(r.path[i]) {
				s.checkSegment(v, name)
			}
			if o.paths[i] == "" {
				s.errorf(key, "%s has no path in %s", o.Name, key.Value)
			}
			return
		}
		switch key.Value {
		case "as":
			r.digits = s.choice(v, "as", "digits") != ""
		case "empty":
			at.empty = v
			if c, ok := s.constant(v); ok && c.kind == number {
				r.empty = c.text
			} else if ok {
				s.errorf(v, "empty must be the whole number that stands for nothing, such as 0, but is %q", v.Value)
			}
		case "values":
			r.pairs = s.pairs(t, v)
		case "default":
			at.preset = v
			if c, ok := s.constant(v); ok {
				r.preset = &c
			}
		case "echo":
			at.echo, r.echo = v, s.word(v, "echo")
		case "loss":
			at.loss, r.loss = v, s.choice(v, "loss", "drop", "refuse")
		case "loss_code":
			r.lossCode = s.refusal(t, v)
		case "optional":
			r.optional = s.flag(v, "optional")
		case "role":
			r.role = s.choice(v, "role", roles...)
		case "note":
			r.note = s.word(v, "note")
		case "when", "unless":
			option := s.word(v, key.Value)
			value, known := t.options[option]
			if !known {
				s.errorf(v, "%s: %q is not one of the options%s", key.Value, option, DidYouMean(option, slices.Collect(maps.Keys(t.options))))
			}
			s.switches[option] = true
			on = on && value == (key.Value == "when")
		case "required":
			at.bound, r.required = v, s.flag(v, "required")
		case "min":
			at.bound, r.min = v, s.count(v, "min")
		case "max":
			at.bound, r.max = v, s.count(v, "max")
		case "exact_digits":
			at.bound, r.exactDigits = v, s.count(v, "exact_digits")
		case "one_of":
			at.bound, r.oneOf = v, s.words(v, "one_of")
		case "refuse":
			r.refuse = s.refusal(t, v)
		case "malformed":
			r.malformed = s.refusal(t, v)
		case "proof":
			at.proof = v
			if v.Kind == yaml.MappingNode && len(v.Content) == 0 {
				s.errorf(v, "proof needs asked or one_of")
			}
			s.fields(v, "proof", func(k, v *yaml.Node) {
				switch k.Value {
				case "asked":
					r.proofAsked = s.word(v, "asked")
				case "one_of":
					r.proofOneOf = s.words(v, "one_of")
				default:
					s.unknownKey(k, "proof", "asked", "one_of")
				}
			})
		case "remove", newMark:
			s.errorf(key, "%s: stands in an overlay, and there only as true", key.Value)
		default:
			s.unknownKey(key, "a row", append(t.formNames(), rowWords...)...)
		}
	})
	lone := r.lone()
	switch {
	case r.path == [2]string{}:
		s.errorf(n, "a row needs a path in at least one form")
	case lone < 0 && (at.preset != nil || at.echo != nil || at.loss != nil):
		s.errorf(n, "default, echo and loss are for a field that one form lacks, but this row names both")
	case lone >= 0 && o.paths[1-lone] != "" && at.preset == nil && at.echo == nil && at.loss == nil:
		s.errorf(n, "%s is in %s only: say default, echo or loss", r.path[lone], t.forms[lone].name)
	}
	if lone >= 0 && r.pairs != nil {
		s.errorf(n, "values are for a field of both forms")
	}
	switch {
	case at.empty == nil:
	case m == request:
		s.errorf(at.empty, "empty: a request says what it says")
	case r.role == amountRole:
		s.errorf(at.empty, "empty: 0 is an amount")
	case lone >= 0 || !r.digits || t.forms[0].digits == t.forms[1].digits:
		s.errorf(at.empty, "empty is for a field of both forms with as: digits that one of them writes as a number and the other as text")
	case len(r.pairs) > 0:
		s.errorf(at.empty, "empty: the row has values: pair the empty value there")
	}
	if r.role == callbackRole && (r.digits || r.pairs != nil) {
		s.errorf(n, "role: an address has no conversion, neither as nor values")
	}
	if at.preset != nil && m == reply {
		s.errorf(at.preset, "default: a reply is never filled in but by echo")
	}
	if at.preset != nil && m == notice {
		s.errorf(at.preset, "default: a callback is never filled in")
	}
	if at.echo != nil && m == notice {
		s.errorf(at.echo, "echo: a callback has no request to echo from")
	}
	if r.loss == "refuse" && m == notice {
		s.errorf(at.loss, "loss: a callback always arrives, it can only drop")
	}
	if at.bound != nil && m == notice {
		s.errorf(at.bound, "a callback has no bounds")
	}
	if at.echo != nil && m == request {
		s.errorf(at.echo, "echo: a request has nothing to echo")
	}
	if r.loss == "refuse" && m == reply {
		s.errorf(at.loss, "loss: a reply always comes back, it can only drop")
	}
	if at.bound != nil && m == reply {
		s.errorf(at.bound, "a reply has no bounds")
	}
	switch {
	case at.proof == nil:
	case m == notice:
		s.errorf(at.proof, "proof: a callback is no answer and proves nothing")
	case m == request:
		s.errorf(at.proof, "proof: a request proves nothing")
	case r.proofOneOf != nil && (o.bare < 0 || r.path[max(o.bare, 0)] == ""), o.bare >= 0 && r.path[o.bare] == "":
		s.errorf(at.proof, "proof: only a reply row of the form that is bare can prove it")
	}
	if r.max > 0 && r.min > r.max {
		s.errorf(n, "min %d is more than max %d", r.min, r.max)
	}
	return r, on
}

func (s *source) words(n *yaml.Node, what string) []string {
	var words []string
	s.items(n, what, func(item *yaml.Node) { words = append(words, s.word(item, what)) })
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
			if i := t.index(Form(key.Value)); i >= 0 {
				p.side[i], set[i] = s.constant(v)
				return
			}
			if key.Value != "prefer" {
				s.unknownKey(key, "a pair", append(t.formNames(), "prefer")...)
				return
			}
			p.prefer = s.flag(v, "prefer")
		})
		if set != [2]bool{true, true} {
			s.errorf(item, "a pair needs a value for %s and one for %s", t.forms[0].name, t.forms[1].name)
			return
		}
		list, at = append(list, p), append(at, item)
	})
	for i := range list {
		for f := range list[i].side {
			same, preferred, before := 0, 0, 0
			for j, other := range list {
				if other.side[f].text != list[i].side[f].text {
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
				s.errorf(at[i], "%q of %s stands in %d pairs: mark the one that is read on the way back with prefer: true", list[i].side[f].text, t.forms[f].name, same)
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
