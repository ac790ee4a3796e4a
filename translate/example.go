package translate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// example returns an invented value of a field, or "" if the other form would refuse the field. That of a list is in the
// schema of its items.
func (p *plan) example(r *mapping) string {
	word := cmp.Or(r.example, r.name())
	switch {
	case r.target == "" && r.loss == "refuse" && r.always.kind == absent:
		return ""
	case r.list:
		return "[]"
	case r.target == "" && r.always.kind != absent:
		return r.always.json
	case r.pattern[0] != "":
		word = newPattern(r.pattern[p.from], "").sample()
	case r.hasPairs():
		return r.Values.list[0].Values[p.from].json
	case len(r.Means) > 0 && r.Means[word] == "":
		word = slices.Min(slices.Collect(maps.Keys(r.Means)))
	case len(r.oneOf) > 0:
		word = r.oneOf[0]
	case r.as == "" && r.checkLength(word).Format != "":
		word = strings.Repeat("1", cmp.Or(r.exactDigits, r.min, r.max))
	case r.as != "":
		if !isDigits(word) && !(isDecimal(word) && r.as == "decimal") {
			word = "1000"
		}
		if r.digits && r.checkNumber(word).Format != "" {
			word = strconv.Itoa(cmp.Or(r.min, r.max))
		}
		if r.digitsIn(p.fromForm) == number {
			return word
		}
	}
	if r.as == "" && word == r.example && r.exampleKind != text {
		return word
	}
	return string(appendString(nil, word))
}
