package translate

import "go.yaml.in/yaml/v4"

// A pair is one line of `values` or `codes`.
type pair struct {
	values [2]constant
	prefer bool
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
	return p.list[i].values[1-from], true
}

// readPairs reads pairs of values or codes. If several pairs share a value, exactly one of them must have prefer:
// true.
func (s *source) readPairs(n *yaml.Node) pairs {
	p := pairs{at: [2]map[string]int{{}, {}}}
	type shared struct{ pairs, preferred int }
	var nodes []*yaml.Node
	counts := [2]map[string]shared{{}, {}} // by form and text
	for _, item := range s.items(n, "pairs") {
		read, ok := s.readPair(item)
		if !ok {
			continue
		}
		for f, value := range read.values {
			count := counts[f][value.text]
			if count.pairs++; read.prefer {
				count.preferred++
			}
			if counts[f][value.text] = count; count.pairs == 1 || read.prefer {
				p.at[f][value.text] = len(p.list)
			}
		}
		p.list, nodes = append(p.list, read), append(nodes, item)
	}
	seen := [2]map[string]int{{}, {}}
	for i, read := range p.list {
		for f, value := range read.values {
			// One report for all pairs that share a value, at the second.
			count := counts[f][value.text]
			if seen[f][value.text]++; seen[f][value.text] == 2 && count.preferred != 1 {
				s.errorf(nodes[i], "%q of %s is in %d pairs: add prefer: true to the one that is used towards %s",
					value.text, s.forms[f], count.pairs, s.forms[1-f])
			}
		}
	}
	return p
}

func (s *source) readPair(item *yaml.Node) (p pair, ok bool) {
	var keys struct {
		ByForm [2]*yaml.Node
		Prefer bool
	}
	s.decode(item, "a pair", &keys)
	ok = true
	for f, v := range keys.ByForm {
		if v == nil {
			ok = false
			if item.Kind == yaml.MappingNode {
				s.errorf(item, "a pair needs a value for %s", s.forms[f])
			}
		} else if c := s.constant(v); c != nil {
			p.values[f] = *c
		} else {
			ok = false
		}
	}
	p.prefer = keys.Prefer
	return p, ok
}
