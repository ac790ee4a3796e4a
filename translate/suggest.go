package translate

import "strings"

// DidYouMean returns `; did you mean X?` for a misspelled name, to be appended to an error that names it. X is the
// most similar of the known names. It returns "" if no known name is similar, if several are equally similar, or if
// there are more than 300: a table can have as many mistakes.
func DidYouMean(name string, known []string) string {
	if len(known) > 300 {
		return ""
	}
	best, distance := "", 1+min(2, (2+len(name))/4) // a short name with as many edits is a different name
	for _, candidate := range known {
		if candidate == "" || candidate == name || max(len(candidate)-len(name), len(name)-len(candidate)) > 3 {
			continue
		}
		switch d := edits(strings.ToLower(name), strings.ToLower(candidate)); {
		case d < distance:
			best, distance = candidate, d
		case d == distance && candidate != best:
			best = ""
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// edits returns the number of insertions, deletions and replacements that turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			least := above
			if a[i] != b[j] {
				least = 1 + min(above, row[j], row[j+1])
			}
			above, row[j+1] = row[j+1], least
		}
	}
	return row[len(b)]
}
