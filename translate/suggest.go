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
		switch d := edits(strings.ToLower(name), strings.ToLower(candidate)); {
		case d < distance, d == distance && !found:
			best, distance, found = candidate, d, true
		case d == distance && candidate != best:
			best = ""
		}
	}
	return best, found
}

// edits returns the number of insertions, deletions, replacements and swaps of neighbours that turn a into b.
func edits(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			next[j+1] = row[j] + 1
			if a[i] == b[j] {
				next[j+1] = row[j]
			}
			next[j+1] = min(next[j+1], row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
