package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// keysOfAList are the keys that a row with each or list can have beside the names of the forms. Those of one value
// belong to the rows of its items, or apply to each item of a plain list.
const keysOfAList = "each list about required optional refuse malformed"

// keysOfAnItem are the other keys of a plain list, which apply to each item.
const keysOfAnItem = " as pattern shift values empty otherwise min max exact_digits one_of exact"

// checkItemRow checks a row of an item of a list.
func (s *source) checkItemRow(r *row) {
	s.checkMisplaced(r, "row of each")
	if r.Role != noRole && !r.Role.Many {
		s.errorf(child(r.node, "role"), "role: a message has many items, so their rows can only have a role with "+
			"many: true")
	}
}

// readItems reads the rows of an item if the row is a list.
func (s *source) readItems(o *Operation, m Message, r *row) {
	if r.Each == nil && !r.List {
		return
	}
	plain := *r
	r.plain, r.special = &plain, true
	var inner [2]string // the names around each text; "" for the text itself
	switch {
	case r.Each != nil && child(r.node, "list") != nil:
		s.errorf(r.node, "each and list cannot stand in one row")
		return
	case r.onlyForm() >= 0 && r.Each == nil && r.Loss != "": // the table does not look into it
		s.checkListKeys(r, keysOfAList+" loss loss_code")
		return
	case r.onlyForm() >= 0 && o.paths[0] != "" && o.paths[1] != "":
		s.errorf(r.node, "each needs a path in both forms: for a list of one form write list: true and loss")
		return
	case r.Each != nil && r.Each.Kind == yaml.SequenceNode:
		before := len(s.problems)
		s.checkListKeys(r, keysOfAList)
		if r.items = s.readRowList(o, m, r.Each, true); len(r.items) == 0 && len(s.problems) == before {
			s.errorf(r.Each, "each: no row is left")
		}
		return
	case r.Each != nil && r.Each.Kind == yaml.ScalarNode:
		s.errorf(r.Each, "each must be a list of rows, or a name in one form such as {%s: name}", s.forms[0])
		return
	case r.Each != nil:
		for name, path := range s.members(r.Each, "each") {
			if f := s.form(name, "each"); f >= 0 {
				inner[f] = s.text(path, "each", "a path")
			}
		}
		if inner[0] != "" && inner[1] != "" {
			s.errorf(r.Each, "each: a name in both forms is a row: write each: [{%s: %s, %s: %s}]",
				s.forms[0], inner[0], s.forms[1], inner[1])
		}
	}
	s.checkListKeys(r, keysOfAList+keysOfAnItem)
	item := *r
	item.plain, item.special = plain.plain, plain.special
	for f, name := range inner {
		if item.Path[f] != "" {
			item.Path[f] = itself
		}
		if name != "" {
			item.Path[f] = name
		}
	}
	item.Required, item.Optional, item.Each, item.List, item.items = false, false, nil, false, nil
	r.Pattern, r.Shift, r.Absent = [2]string{}, [2]constant{}, [2]constant{}
	r.digits, r.As, r.Values, r.Empty, r.Otherwise, r.OneOf = false, "", pairs{}, constant{}, "", nil
	r.Min, r.Max, r.ExactDigits = 0, 0, 0
	r.items = []*row{&item}
}

func (s *source) checkListKeys(r *row, allowed string) {
	for key := range Members(r.node) {
		if !slices.Contains(strings.Fields(allowed), key.Value) && !slices.Contains(s.forms, key.Value) {
			s.errorf(key, "%s is not allowed in a row with each or list", key.Value)
		}
	}
}
