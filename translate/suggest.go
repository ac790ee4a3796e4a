package translate

import "strings"

// DidYouMean returns `; did you mean X?` for a misspelled name, to be appended to an error that names it. X is the
// most similar of the known names. It returns "" if no known name is similar, or if several are equally similar.
func DidYouMean(name string, known []string) string {
	best, _ := mostSimilar(name, known)
	return didYouMean(best)
}

// maxCompared limits the work on suggestions. A table with many mistakes and many names has suggestions for the first
// mistakes only.
const maxCompared = 300_000

// suggest is DidYouMean with a limit.
func (s *source) suggest(name string, known []string) string {
	if s.compared += len(known); s.compared > maxCompared {
		return ""
	}
	return DidYouMean(name, known)
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// mostSimilar returns the most similar of the known names, or "" if several are equally similar. found reports
// whether any known name is similar.
func mostSimilar(name string, known []string) (best string, found bool) {
	distance := min(2, (2+len(name))/4) // at most: a short name with more edits is a different name
	for _, candidate := range known {
		if candidate == "" || candidate == name || max(len(candidate)-len(name), len(name)-len(candidate)) > distance {
			continue
		}
		switch d := edits(strings.ToLower(name), strings.ToLower(candidate), distance); {
		case d < distance, d == distance && !found:
			best, distance, found = candidate, d, true
		case d == distance && candidate != best:
			best = ""
		}
	}
	return best, found
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
	case most == 0:
		return 1
	}
	least := min(edits(a[1:], b, most-1), edits(a, b[1:], most-1), edits(a[1:], b[1:], most-1))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, edits(a[2:], b[2:], most-1))
	}
	return 1 + least
}
