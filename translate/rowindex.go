package translate

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// A pathKey is the path of a row in the tree of a table, in one form.
type pathKey struct{ form, path string }

// pathKeys returns the paths of a row. Rows with one in common have the same path in a form.
func pathKeys(row *yaml.Node, forms []string) (keys []pathKey) {
	for _, form := range forms {
		if path := child(row, form); path != nil {
			keys = append(keys, pathKey{form, path.Value})
		}
	}
	return keys
}

// knownPaths are the paths of a list of rows.
type knownPaths struct {
	has    map[pathKey]bool
	byForm map[string][]string
}

func pathsOf(rows []*yaml.Node, forms []string) knownPaths {
	known := knownPaths{map[pathKey]bool{}, map[string][]string{}}
	for _, row := range rows {
		for _, key := range pathKeys(row, forms) {
			known.has[key] = true
			known.byForm[key.form] = append(known.byForm[key.form], key.path)
		}
	}
	return known
}

// hasAny reports whether a row has one of the paths.
func (k knownPaths) hasAny(keys []pathKey) bool {
	return slices.ContainsFunc(keys, func(key pathKey) bool { return k.has[key] })
}

// A rowList is a list of rows in which rows are replaced by their paths.
type rowList struct {
	forms []string
	slots [][]*yaml.Node    // a row, or what replaced it
	at    map[pathKey][]int // the slots that have, or had, a row with the path
	fixed map[*yaml.Node]bool
}

// newRowList returns a list of rows. The fixed rows are never replaced.
func newRowList(rows, fixed []*yaml.Node, forms []string) *rowList {
	l := &rowList{forms: forms, at: map[pathKey][]int{}, fixed: map[*yaml.Node]bool{}}
	for _, row := range fixed {
		l.fixed[row] = true
	}
	for i, row := range rows {
		l.slots = append(l.slots, []*yaml.Node{row})
		for _, key := range pathKeys(row, forms) {
			l.at[key] = append(l.at[key], i)
		}
	}
	return l
}

// replace removes all rows with one of the paths of row. with returns what stands in the place of a removed row; first is true for the
// first of them. found reports whether there was one.
func (l *rowList) replace(row *yaml.Node, with func(removed *yaml.Node, first bool) []*yaml.Node) (found bool) {
	var slots []int
	keys := pathKeys(row, l.forms)
	for _, key := range keys {
		slots = append(slots, l.at[key]...)
		delete(l.at, key) // no row with this path remains
	}
	slices.Sort(slots)
	for _, slot := range slices.Compact(slots) {
		var kept []*yaml.Node
		for _, old := range l.slots[slot] {
			if l.fixed[old] || !slices.ContainsFunc(pathKeys(old, l.forms), func(key pathKey) bool { return slices.Contains(keys, key) }) {
				kept = append(kept, old)
				continue
			}
			kept = append(kept, with(old, !found)...)
			found = true
		}
		l.slots[slot] = kept
	}
	return found
}

func (l *rowList) add(row *yaml.Node) { l.slots = append(l.slots, []*yaml.Node{row}) }

func (l *rowList) rows() []*yaml.Node { return slices.Concat(l.slots...) }

// A pathLine is a path, and the line of its row.
type pathLine struct {
	path string
	line int
}

// usedPaths are the paths of the rows of a message in one form.
type usedPaths struct {
	rows    map[string]int      // by path: the line of its row
	objects map[string]pathLine // by path of an object: the first row in it
}

// add adds the path of a row. It returns a path that it overlaps with, if there is one.
func (u *usedPaths) add(path string, line int) (other pathLine, overlaps bool) {
	if u.rows == nil {
		u.rows, u.objects = map[string]int{}, map[string]pathLine{}
	}
	if other, overlaps = u.objects[path]; !overlaps {
		other.path = path
		other.line, overlaps = u.rows[path]
	}
	for i, c := range path {
		if c != '.' {
			continue
		}
		if l, ok := u.rows[path[:i]]; ok && !overlaps {
			other, overlaps = pathLine{path[:i], l}, true
		}
		if _, ok := u.objects[path[:i]]; !ok {
			u.objects[path[:i]] = pathLine{path, line}
		}
	}
	u.rows[path] = line
	return other, overlaps
}
