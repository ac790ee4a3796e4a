package translate

import "slices"

// A pair is a value, or a code, in both forms.
type pair struct {
	Values byForm[constant] `by:"form" is:"a scalar, null or a word"`
}

// has reports whether a form has a value for which is returns true.
func (p pair) has(is func(c constant) bool) bool { return slices.ContainsFunc(p.Values, is) }

// hasNull reports whether a pair says what null is.
func (p pair) hasNull() bool { return p.has(func(c constant) bool { return c.kind == null }) }

// isSpecial reports whether a pair says nothing about other values: it says what null is, or with digits what "" is, or
// that digits are those of a missing field.
func (r *row) isSpecial(p pair) bool {
	isOfMissing := func(c constant) bool { return slices.Contains(r.absent, c) }
	differs := func(c constant) bool { return trimZeros(c.text) != trimZeros(p.Values[0].text) }
	isNone := func(c constant) bool { return c.json == `""` }
	return p.hasNull() || r.digits && (p.has(isNone) || p.has(isOfMissing) && !p.has(differs))
}

// pairs are the pairs of the values of a row, or of codes. An index finds them.
type pairs struct {
	list    []pair
	replace bool             // they say more than what null is, or in digits what "" is
	at      []map[string]int // by form and text: the index in list
}

// find returns another form's value for a value of a form: that of the first pair that has it.
func (p pairs) find(from, to int, value string) (constant, bool) {
	if p.list != nil {
		if i, ok := p.at[from][value]; ok {
			return p.list[i].Values[to], true
		}
	}
	return constant{}, false
}

// add adds a pair with a value of each form, and reports whether it has an effect: other pairs do not have all values.
func (p *pairs) add(values []constant) (effect bool) {
	for f, v := range values {
		if f == len(p.at) {
			p.at = append(p.at, map[string]int{})
		}
		if _, shared := p.at[f][v.text]; !shared {
			p.at[f][v.text], effect = len(p.list), true
		}
	}
	p.list = append(p.list, pair{values})
	return effect
}

// readPairs reads pairs of a row that have a value for each form.
func (s *source) readPairs(r *row) (all []pair) {
	for _, item := range s.items(child(r.node, "values"), "values") {
		var p pair
		if !s.decode(item, "a pair", &p) {
			continue
		}
		if f := slices.Index(p.Values, constant{}); f >= 0 {
			s.errorf(item, "a pair needs a value for %s", s.forms[f])
			continue
		}
		for f, v := range p.Values[:2] {
			if v.kind == number && r.digitsIn(&s.table.forms[f]) == text {
				s.errorf(item, "values: %s writes numbers as text: write %q in quotes", s.forms[f], v.text)
			}
		}
		all = append(all, p)
	}
	return all
}

// readValues reads the pairs of a row. Those with missing or other say what becomes of a field or of a word. That of a
// number and "" does so of no value, if it is the only pair of values of a row with digits.
func (s *source) readValues(r *row) {
	all, values, at := s.readPairs(r), 0, child(r.node, "values")
	isWord := func(c constant) bool { return c.kind == absent }
	for _, p := range all {
		if !p.has(isWord) {
			values++
		}
	}
	for _, p := range all {
		inNumbers, inText, right := p.Values[0], p.Values[1], true
		isUnlike := func(f form) bool { return p.Values[f.index] != p.Values[f.like] }
		alike := !slices.ContainsFunc(s.table.forms, isUnlike)
		if r.digitsIn(&s.table.forms[0]) == text {
			inNumbers, inText = inText, inNumbers
		}
		switch converts := s.table.convertsDigits(r) && !r.isMoved() && slices.Max(r.width) == 0; {
		case alike && inText.json == otherWord && inNumbers.json == otherWord:
			r.otherwise = "pass"
		case alike && inText.json == otherWord && inNumbers.kind == null:
			r.otherwise = "drop"
		case p.has(isWord):
			right = alike && r.addMissing(p)
		case alike && converts && values == 1 && inNumbers.kind == number && inText.json == `""`:
			r.empty = inNumbers
		case !r.Values.add(p.Values):
			s.errorf(at, "values: a pair has no effect: others before it have the same values")
		}
		if !right {
			s.errorf(at, "values: missing stands beside one value of one form, and other beside null or other")
		}
	}
	for _, p := range r.Values.list {
		r.Values.replace = r.Values.replace || !r.isSpecial(p)
	}
}

// addMissing adds a pair that says of a value that the other form leaves out the field, and reports whether it can. The
// value does not leave it out if a pair before says what it is.
func (r *row) addMissing(p pair) bool {
	for f, v := range p.Values {
		if v.json == otherWord || v.kind == null || r.absent[f].kind != absent {
			return false
		}
		if v.kind == absent { // the word missing
			continue
		}
		_, paired := r.Values.find(f, f, v.text)
		if r.absent[f] = v; !paired && !r.isEmpty(value{raw: v.json, kind: v.kind}) {
			r.leavesOut[f] = v
		}
	}
	return (r.absent[0].kind == absent) != (r.absent[1].kind == absent)
}
