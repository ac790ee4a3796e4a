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
	rows     []*yaml.Node      // nil for a row that was removed
	original []bool            // false for a row that was replaced
	at       map[pathKey][]int // by path: the first rows that had it
}

// maxSamePath limits the rows with one path that an overlay can change. More are a mistake, which is found when the
// table is read.
const maxSamePath = 16

func newRowList(rows []*yaml.Node, forms []string) *rowList {
	l := &rowList{slices.Clone(rows), slices.Repeat([]bool{true}, len(rows)), map[pathKey][]int{}}
	for i, row := range rows {
		for _, key := range pathKeys(row, forms) {
			if len(l.at[key]) < maxSamePath {
				l.at[key] = append(l.at[key], i)
			}
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
		if l.original[slot] {
			l.rows[slot], l.original[slot], row = row, false, nil
		}
	}
	if row != nil {
		l.rows = append(l.rows, row)
	}
}
