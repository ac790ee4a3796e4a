package translate

import "go.yaml.in/yaml/v4"

// A pair is a value, or a code, in both forms.
type pair struct {
	Values [2]constant `by:"form" is:"a scalar or null"`
}

// pairs are the pairs of a row or of the codes. An index finds them, since an overlay can have 100,000 pairs of codes.
type pairs struct {
	list []pair
	at   [2]map[string]int // by form and text: the index in list
}

// find returns the other form's value for a value of form from: that of the first pair that has it.
func (p pairs) find(from int, value string) (constant, bool) {
	i, ok := p.at[from][value]
	if !ok {
		return constant{}, false
	}
	return p.list[i].Values[1-from], true
}

// readPairs reads pairs of values.
func (s *source) readPairs(n *yaml.Node) pairs {
	p := pairs{at: [2]map[string]int{{}, {}}}
	for _, item := range s.items(n, "values") {
		var read pair
		ok := s.decode(item, "a pair", &read)
		for f, v := range read.Values {
			if ok && v.kind == absent {
				s.errorf(item, "a pair needs a value for %s", s.forms[f])
				ok = false
			}
		}
		if !ok {
			continue
		}
		for f, v := range read.Values {
			if _, shared := p.at[f][v.text]; !shared {
				p.at[f][v.text] = len(p.list)
			}
		}
		p.list = append(p.list, read)
	}
	return p
}
