package translate

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Values that are more than renamed: by a pattern, as decimals, moved by powers of ten, null in pairs, and values of
// one form that the other form says by leaving the field out. All move digits and copy them. What cannot come back as
// it was does not fit.

// nullText stands for null among the texts of pairs. No text of JSON is like it: it is not valid UTF-8.
const nullText = "\xff"

// pairText returns the text by which pairs find a value.
func (v value) pairText() string {
	if v.kind == null {
		return nullText
	}
	return v.text()
}

// readSpecial checks the keys of the row that make its value special.
func (s *source) readSpecial(r *row) {
	r.special = r.pattern != [2]string{} || r.as == "decimal" || r.Shift != [2]constant{} || r.Absent != [2]constant{} ||
		slices.ContainsFunc(r.Values.list, pair.hasNull)
	if !r.special {
		return
	}
	plain := *r
	if plain.special = false; r.onlyNullPairs() {
		plain.Values = pairs{}
	}
	if r.plain = &plain; r.onlyForm() >= 0 {
		s.errorf(r.node, "as, shift, absent and null in values need a path in both forms")
	}
	if n := child(r.node, "shift"); n != nil {
		s.readShift(n, r)
	}
	r.digits = r.digits && r.places == [2]int{}
	moved := r.as == "decimal" || r.places != [2]int{}
	switch {
	case moved && (r.min > 0 || r.max > 0 || r.exactDigits > 0):
		s.errorf(r.Check, "check: a range is not allowed with as: decimal or shift")
	case moved && (r.Otherwise != "" || r.Empty.kind != absent || r.NoValueWhile != nil):
		s.errorf(r.node, "otherwise, empty and no_value_while are not allowed with as: decimal or shift")
	case r.Absent[0].kind != absent && r.Absent[1].kind != absent:
		s.errorf(child(r.node, "absent"), "absent: only one form can have a value that the other leaves out")
	}
	if moved || r.pattern[0] != "" {
		s.checkPairs(r)
	}
}

// checkPairs refuses values of pairs that a value without a pair could become.
func (s *source) checkPairs(r *row) {
	for _, p := range r.Values.list {
		for f, c := range p.Values {
			bare := *r
			bare.Values = pairs{}
			_, fits := bare.appendSpecial(nil, value{raw: c.json, kind: c.kind}, f, text, false)
			if fits && c.kind != null {
				s.errorf(child(r.node, "values"), "values: %s of %s is also a value without a pair", c.json, s.forms[f])
			}
		}
	}
}

// readPattern finds where each digit of one form's pattern is in that of the other.
func (s *source) readPattern(n *yaml.Node, r *row) {
	var places [2]map[byte][]int // by letter
	for f, pattern := range r.pattern {
		places[f] = map[byte][]int{}
		for i := range len(pattern) {
			if c := pattern[i]; strings.IndexByte(digitPlaces, c) >= 0 {
				places[f][c] = append(places[f][c], i)
			}
		}
		if strings.ContainsAny(pattern, "\"\\") || len(places[f]) == 0 {
			s.errorf(n, "as: each form needs a text of digit places (%s) and other characters, but %s has %q",
				digitPlaces, s.forms[f], pattern)
			return
		}
	}
	for _, c := range []byte(digitPlaces) {
		if a, b := len(places[0][c]), len(places[1][c]); a != b {
			s.errorf(n, "as: %s has %d times %c and %s %d times: no digit can be left out or invented",
				s.forms[0], a, c, s.forms[1], b)
		}
	}
	for to := range r.moves {
		r.moves[to] = make([]int, len(r.pattern[to]))
		for i := range r.moves[to] {
			r.moves[to][i] = -1
		}
		for c, at := range places[to] {
			for k, i := range at[:min(len(at), len(places[1-to][c]))] {
				r.moves[to][i] = places[1-to][c][k]
			}
		}
	}
}

// digitPlaces are the letters that stand for digits in a pattern.
const digitPlaces = "YMDhms"

// readShift reads in which form the number is how many powers of ten greater.
func (s *source) readShift(n *yaml.Node, r *row) {
	const most = 18
	for f, c := range r.Shift {
		if c.kind == absent {
			continue
		}
		places, err := strconv.Atoi(c.text)
		if c.kind != number || err != nil || places < 1 || places > most {
			s.errorf(n, "shift must be a number from 1 to %d, but is %s", most, c.json)
			continue
		}
		r.places[f], r.places[1-f] = -places, places
	}
	if r.Shift[0].kind != absent && r.Shift[1].kind != absent || r.as == "" {
		s.errorf(n, "shift needs as: digits or as: decimal, and one form, "+
			"in which the number is greater by powers of ten")
	}
}

// appendSpecial is appendValue for a row with one of these keys.
func (r *row) appendSpecial(dst []byte, v value, from int, digits kind, lenient bool) (out []byte, fits bool) {
	begin := len(dst)
	out, fits = r.convert(dst, v, from, digits, lenient)
	if _, ok := r.Values.find(from, v.pairText()); ok && v.kind == null {
		return out, fits // the table says what null is, also if the other form has the same value for an absent field
	}
	if fits && r.isTaken(string(out[begin:]), 1-from) {
		return append(dst, v.raw...), false // it would come back as another value, or as an absent field
	}
	return out, fits
}

// isTaken reports whether a value of a form, as JSON, stands for an absent field or for null.
func (r *row) isTaken(json string, form int) bool {
	if r.Absent[form].kind != absent && json == r.Absent[form].json {
		return true
	}
	paired := func(p pair) bool { return json == p.Values[form].json && p.Values[1-form].kind == null }
	return json != "null" && r.onlyNullPairs() && slices.ContainsFunc(r.Values.list, paired)
}

// hasNull reports whether a pair says what null is.
func (p pair) hasNull() bool { return p.Values[0].kind == null || p.Values[1].kind == null }

// onlyNullPairs reports whether the row's pairs say what null is, and nothing about other values.
func (r *row) onlyNullPairs() bool {
	return r.hasPairs() && !slices.ContainsFunc(r.Values.list, func(p pair) bool { return !p.hasNull() })
}

func (r *row) convert(dst []byte, v value, from int, digits kind, lenient bool) (out []byte, fits bool) {
	paired, ok := r.Values.find(from, v.pairText())
	switch {
	case v.kind == composite:
	case ok:
		return append(dst, paired.json...), true
	case v.kind == null:
		_, pairsNull := r.Values.find(1-from, nullText)
		return append(dst, v.raw...), !pairsNull
	case r.pattern[0] != "":
		if moved, ok := r.move(dst, v, from); ok {
			return moved, true
		}
	case r.as == "decimal" || r.places[from] != 0:
		if number, ok := r.number(v, from); ok && digits == text {
			return appendQuoted(dst, number), true
		} else if ok {
			return append(dst, number...), true
		}
	default:
		return r.plain.appendValue(dst, v, from, digits, lenient)
	}
	return append(dst, v.raw...), false
}

// move appends a text with its digits where the other form's pattern has them.
func (r *row) move(dst []byte, v value, from int) (out []byte, ok bool) {
	in, pattern := v.text(), r.pattern[from]
	if v.kind != text || len(in) != len(pattern) {
		return dst, false
	}
	for i := range len(in) {
		fits := in[i] == pattern[i]
		if strings.IndexByte(digitPlaces, pattern[i]) >= 0 {
			fits = in[i] >= '0' && in[i] <= '9'
		}
		if !fits {
			return dst, false
		}
	}
	out = append(dst, '"')
	for i, at := range r.moves[1-from] {
		if at < 0 {
			out = append(out, r.pattern[1-from][i])
		} else {
			out = append(out, in[at])
		}
	}
	return append(out, '"'), true
}

// number returns a decimal as the other form writes it. Without a shift its digits are copied one by one.
func (r *row) number(v value, from int) (out string, ok bool) {
	in := v.raw
	if v.kind == text {
		in = in[1 : len(in)-1]
	}
	if !isDecimal(in) || v.kind != text && v.kind != number {
		return "", false
	}
	places := r.places[from]
	if places == 0 {
		return in, true
	}
	whole, fraction, _ := strings.Cut(in, ".")
	whole, negative := strings.CutPrefix(whole, "-")
	fraction = strings.TrimRight(fraction, "0")
	switch {
	case r.as == "digits" && (negative || places < 0 && fraction != "" || places > 0 && len(fraction) > places):
		return "", false // in the form with the greater number it is a whole number
	case places > 0:
		fraction += strings.Repeat("0", max(0, places-len(fraction)))
		whole, fraction = whole+fraction[:places], fraction[places:]
	default:
		whole = strings.Repeat("0", max(0, 1-places-len(whole))) + whole
		whole, fraction = whole[:len(whole)+places], whole[len(whole)+places:]+fraction
	}
	whole = strings.TrimLeft(whole[:len(whole)-1], "0") + whole[len(whole)-1:]
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole, true
}

// isDecimal reports whether s is a JSON number without exponent.
func isDecimal(s string) bool {
	whole, fraction, dot := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return isDigits(whole) && (!dot || fraction != "" && allDigits(fraction))
}

// omits reports whether the other form leaves out the field instead of this value.
func (r *row) omits(v value, from int) bool {
	return r.special && r.Absent[from].kind != absent && v.is(r.Absent[from])
}

// wants returns what a value of the form must be, for an error.
func (r *row) wants(form int) string {
	switch {
	case r.pattern[0] != "":
		return "text like " + r.pattern[form]
	case r.as == "decimal" || r.places != [2]int{}:
		return "a decimal number that the other form can hold"
	}
	return ""
}

// got returns what a value is that does not fit.
func (r *row) got(v value) string {
	switch {
	case r.pattern[0] != "" && v.kind == text:
		return "other text"
	case r.pattern[0] != "" || isDigits(v.text()):
		return v.typeName()
	}
	return v.notDigits()
}

// sample returns a text of a form that the pattern takes.
func (r *row) sample(form int) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(digitPlaces, c) {
			return '1'
		}
		return c
	}, r.pattern[form])
}
