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
	case r.target == "" && r.Loss == "refuse" && r.Default.kind == absent:
		return ""
	case r.List:
		return "[]"
	case r.target == "" && r.Default.kind != absent:
		return r.Default.json
	case r.Pattern[0] != "":
		word = r.sample(p.from)
	case r.hasPairs():
		return r.Values.list[0].Values[p.from].json
	case len(r.Means) > 0 && r.Means[word] == "":
		word = slices.Min(slices.Collect(maps.Keys(r.Means)))
	case len(r.OneOf) > 0:
		word = r.OneOf[0]
	case r.As == "" && r.checkLength(word).Format != "":
		word = strings.Repeat("1", cmp.Or(r.ExactDigits, r.Min, r.Max))
	case r.As != "":
		if !isDigits(word) && !(isDecimal(word) && r.As == "decimal") {
			word = "1000"
		}
		if r.digits && r.checkNumber(word).Format != "" {
			word = strconv.Itoa(cmp.Or(r.Min, r.Max))
		}
		if p.fromForm.digits == number {
			return word
		}
	}
	if r.As == "" && word == r.example && r.exampleKind != text {
		return word
	}
	return string(appendString(nil, word))
}
