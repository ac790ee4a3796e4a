package translate

import "go.yaml.in/yaml/v4"

// A pair is one line of `values` or `codes`.
type pair struct {
	Values [2]constant `by:"form" is:"a scalar or null"`
	Prefer bool
}

// pairs are the pairs of a row or of the codes. An index finds them, since an overlay can have 100,000 pairs of codes.
type pairs struct {
	list []pair
	at   [2]map[string]int // by form and text: the index in list
}

// find returns the other form's value for a value of form from. If several pairs have the value, it uses the
// preferred one: the table has exactly one.
func (p pairs) find(from int, value string) (constant, bool) {
	i, ok := p.at[from][value]
	if !ok {
		return constant{}, false
	}
	return p.list[i].Values[1-from], true
}

// readPairs reads pairs of values or codes. If several pairs share a value, exactly one of them must have prefer:
// true.
func (s *source) readPairs(n *yaml.Node) pairs {
	p := pairs{at: [2]map[string]int{{}, {}}}
	var nodes []*yaml.Node
	for _, item := range s.items(n, "pairs") {
		var read pair
		ok := s.decode(item, "a pair", &read)
		for f, v := range read.Values {
			if ok && v.kind == absent {
				s.errorf(item, "a pair needs a value for %s", s.forms[f])
				ok = false
			}
		}
		if ok {
			p.list, nodes = append(p.list, read), append(nodes, item)
		}
	}
	for _, preferred := range []bool{true, false} {
		for i, read := range p.list {
			for f, v := range read.Values {
				switch first, shared := p.at[f][v.text]; {
				case read.Prefer != preferred:
				case !shared:
					p.at[f][v.text] = i
				case p.list[first].Prefer == preferred:
					s.errorf(nodes[i], "%s of %s is in several pairs: "+
						"add prefer: true to the one that is used towards %s", v.json, s.forms[f], s.forms[1-f])
				}
			}
		}
	}
	return p
}
