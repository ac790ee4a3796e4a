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
		if path := child(row, form); path != nil && path.Tag != "!!null" {
			keys = append(keys, pathKey{form, path.Value})
		}
	}
	return keys
}

// A rowList is a list of rows, some of which are replaced.
type rowList struct {
	base, rows []*yaml.Node      // before and after; rows has nil for a row that was removed
	at         map[pathKey][]int // by path: the rows that had it
}

func newRowList(base []*yaml.Node, forms []string) *rowList {
	l := &rowList{base, slices.Clone(base), map[pathKey][]int{}}
	for i, row := range base {
		for _, key := range pathKeys(row, forms) {
			l.at[key] = append(l.at[key], i)
		}
	}
	return l
}

// similarPath returns DidYouMean for the paths of a row in some forms, and whether any known path is similar. The
// hint is "" if several known paths are equally similar.
func (l *rowList) similarPath(row *yaml.Node, forms []string) (hint string, similar bool) {
	for _, key := range pathKeys(row, forms) {
		var known []string
		for other := range l.at {
			if other.form == key.form {
				known = append(known, other.path)
			}
		}
		best, found := mostSimilar(key.path, known)
		similar = similar || found
		if hint = didYouMean(best); hint != "" {
			return hint, true
		}
	}
	return "", similar
}

// find returns where the rows are that had one of the paths when the list was made, without those that were removed.
func (l *rowList) find(paths []pathKey) (slots []int) {
	for _, key := range paths {
		slots = append(slots, l.at[key]...)
	}
	slices.Sort(slots)
	return slices.DeleteFunc(slices.Compact(slots), func(slot int) bool { return l.rows[slot] == nil })
}

// replace puts a row, or nothing, in the place of the first of the rows that are still there, and removes the others.
// If none is there any more, the row is added.
func (l *rowList) replace(slots []int, row *yaml.Node) {
	for _, slot := range slots {
		if l.rows[slot] == l.base[slot] {
			l.rows[slot], row = row, nil
		}
	}
	if row != nil {
		l.rows = append(l.rows, row)
	}
}
