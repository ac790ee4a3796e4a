package translate

import "go.yaml.in/yaml/v4"

// A pair is a value, or a code, in both forms.
type pair struct {
	Values byForm[constant] `by:"form" is:"a scalar or null"`
}

// pairs are the pairs of a row. An index finds them.
type pairs struct {
	list []pair
	at   []map[string]int // by form and text: the index in list
}

// find returns another form's value for a value of a form: that of the first pair that has it.
func (p pairs) find(from, to int, value string) (constant, bool) {
	if p.list == nil {
		return constant{}, false
	}
	i, ok := p.at[from][value]
	if !ok {
		return constant{}, false
	}
	return p.list[i].Values[to], true
}

// add adds a pair with a value of each form.
func (p *pairs) add(values []constant) {
	for f, v := range values {
		if f == len(p.at) {
			p.at = append(p.at, map[string]int{})
		}
		if _, shared := p.at[f][v.text]; !shared {
			p.at[f][v.text] = len(p.list)
		}
	}
	p.list = append(p.list, pair{values})
}

// readPairs reads pairs of values.
func (s *source) readPairs(n *yaml.Node) (p pairs) {
	for _, item := range s.items(n, "values") {
		var read pair
		ok := s.decode(item, "a pair", &read)
		for f, v := range read.Values {
			if ok && v.kind == absent {
				s.errorf(item, "a pair needs a value for %s", s.forms[f])
				ok = false
			}
		}
		if ok {
			p.add(read.Values)
		}
	}
	return p
}
