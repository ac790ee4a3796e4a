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

// find returns the other form's value for a value of form from. If several pairs have the value, it uses the preferred one: the
// table has exactly one.
func (p pairs) find(from int, value string) (constant, bool) {
	i, ok := p.at[from][value]
	if !ok {
		return constant{}, false
	}
	return p.list[i].values[1-from], true
}

// readPairs reads pairs of values or codes. If several pairs share a value, exactly one of them must have prefer: true.
func (s *source) readPairs(t *Table, n *yaml.Node) pairs {
	p := pairs{at: [2]map[string]int{{}, {}}}
	var nodes []*yaml.Node
	s.items(n, "pairs", func(item *yaml.Node) {
		if read, ok := s.readPair(t, item); ok {
			p.list, nodes = append(p.list, read), append(nodes, item)
		}
	})
	same, preferred := [2]map[string]int{{}, {}}, [2]map[string]int{{}, {}} // by form and text: the number of pairs
	for i, read := range p.list {
		for f, value := range read.values {
			if same[f][value.text]++; read.prefer {
				preferred[f][value.text]++
			}
			if _, ok := p.at[f][value.text]; !ok || read.prefer {
				p.at[f][value.text] = i
			}
		}
	}
	before := [2]map[string]int{{}, {}}
	for i, read := range p.list {
		for f, value := range read.values {
			// One report for all pairs that share a value, at the second.
			if before[f][value.text]++; before[f][value.text] == 2 && preferred[f][value.text] != 1 {
				s.errorf(nodes[i], "%q of %s is in %d pairs: add prefer: true to the one that is used towards %s", value.text, t.forms[f].name, same[f][value.text], t.forms[1-f].name)
			}
		}
	}
	return p
}

func (s *source) readPair(t *Table, item *yaml.Node) (p pair, ok bool) {
	var valid [2]bool
	s.fields(item, "a pair", func(key, v *yaml.Node) {
		switch i := t.formIndex(Form(key.Value)); {
		case i >= 0:
			p.values[i], valid[i] = s.constant(v)
		case key.Value == "prefer":
			p.prefer = s.boolean(v, "prefer")
		default:
			s.unknownKey(key, "a pair", append(t.formNames(), "prefer")...)
		}
	})
	for _, f := range t.forms {
		if item.Kind == yaml.MappingNode && child(item, string(f.name)) == nil {
			s.errorf(item, "a pair needs a value for %s", f.name)
		}
	}
	return p, valid == [2]bool{true, true}
}
