package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// keysOfAList are the keys that a row with each can have beside the names of the forms. Those of one value belong to the
// rows of its items, or apply to each item of a list of values.
const keysOfAList = "each required optional code"

// keysOfAnItem are the other keys of a list of values, which apply to each item.
const keysOfAnItem = " in as shift values empty otherwise check"

// readItems reads the rows of an item if the row is a list.
func (s *source) readItems(o *Operation, m Message, r *row) {
	if r.Each == nil {
		if n := child(r.node, "in"); n != nil {
			s.errorf(n, "in needs each: value")
		}
		return
	}
	r.list = r.Each.Kind == yaml.ScalarNode
	switch {
	case r.list && r.Each.Value != "value" || !r.list && r.Each.Kind != yaml.MappingNode:
		s.errorf(r.Each, "each must be the rows of an item, or value")
		return
	case r.onlyForm() >= 0 && r.list && r.loss != "": // the table does not look into it
		s.checkListKeys(r, keysOfAList+" in lost")
		return
	case r.onlyForm() >= 0 && o.paths[0] != "" && o.paths[1] != "":
		s.errorf(r.node, "each needs a path in both forms: for a list of one form write each: value and lost")
		return
	case !r.list:
		before := len(s.problems)
		s.checkListKeys(r, keysOfAList)
		if r.items = s.readRowList(o, m, s.rowsOf(r.Each, m), true); len(r.items) == 0 && len(s.problems) == before {
			s.errorf(r.Each, "each: no row is left")
		}
		return
	case r.In[0] != "" && r.In[1] != "":
		s.errorf(r.node, "in: a name in both forms is a row: write each: {%s: %s}", r.In[0], r.In[1])
	}
	s.checkListKeys(r, keysOfAList+keysOfAnItem)
	item := *r
	item.Path = slices.Clone(r.Path)
	for f, name := range r.In {
		if item.Path[f] != "" {
			item.Path[f] = itself
		}
		if name != "" {
			item.Path[f] = name
		}
	}
	item.Required, item.Optional, item.Each, item.list, item.items = false, false, nil, false, nil
	r.pattern, r.Shift = s.table.everywhere(""), make(byForm[int], len(r.Path))
	r.Absent = make(byForm[constant], len(r.Path))
	r.digits, r.as, r.Values, r.Empty, r.Otherwise, r.oneOf = false, "", pairs{}, constant{}, "", nil
	r.min, r.max, r.exactDigits = 0, 0, 0
	r.items = []*row{&item}
}

func (s *source) checkListKeys(r *row, allowed string) {
	for key := range Members(r.node) {
		if !slices.Contains(strings.Fields(allowed), key.Value) && !slices.Contains(s.forms, key.Value) {
			s.errorf(key, "%s is not allowed in a row with each", key.Value)
		}
	}
}
