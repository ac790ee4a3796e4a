package translate

import "strings"

// DidYouMean is `; did you mean X?`, with the name of a closed set that is nearest to a misspelled one, or "" if none is
// near or several are as near as each other. It is the end of an error that names the misspelled one.
func DidYouMean(name string, known []string) string {
	one, _ := nearest(name, known)
	return didYouMean(one)
}

func didYouMean(nearest string) string {
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// nearest is the known name that is nearest to a misspelled one, "" if several are as near; some tells whether any is near.
func nearest(name string, known []string) (one string, some bool) {
	least := min(2, (2+len(name))/4) // edits: with more of them a short name is another one
	for _, candidate := range known {
		if candidate == "" || candidate == name || max(len(candidate)-len(name), len(name)-len(candidate)) > least {
			continue
		}
		switch d := edits(strings.ToLower(name), strings.ToLower(candidate)); {
		case d < least, d == least && !some:
			one, least, some = candidate, d, true
		case d == least && candidate != one:
			one = ""
		}
	}
	return one, some
}

// edits is the number of bytes to insert, delete, replace or exchange with the next one that makes b of a.
func edits(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
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
		before, row = row, next
	}
	return row[len(b)]
}
