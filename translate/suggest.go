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
		if candidate == "" || candidate == name {
			continue
		}
		switch d := edits(strings.ToLower(name), strings.ToLower(candidate), distance); {
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

// edits returns the number of insertions, deletions, replacements and swaps of neighbours that turn a into b. If they
// are more than most, it returns a greater number than most.
func edits(a, b string, most int) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case most <= 0 || max(len(a)-len(b), len(b)-len(a)) > most:
		return most + 1
	}
	least := min(edits(a[1:], b, most-1), edits(a, b[1:], most-1), edits(a[1:], b[1:], most-1))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, edits(a[2:], b[2:], most-1))
	}
	return 1 + least
}
