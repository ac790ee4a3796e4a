package evidence

// UpperBound and LowerBound are the two bounds of a rate.
func UpperBound(k, n int) float64 { return upperBound(k, n) }
func LowerBound(k, n int) float64 { return lowerBound(k, n) }

// ChanceOfMore is the probability of so many or more at the new backend if the rate is the same at both.
func ChanceOfMore(atNew, ofNew, atOld, ofOld int) float64 {
	return chanceOfMore(atNew, ofNew, atOld, ofOld)
}

// Classes are all classes.
var Classes = classes[:5]

// CompareAnswers is the comparison of a Shadow.
var CompareAnswers = compareAnswers

// Merge adds counts with the table in use.
func (t *Counts) Merge(counted []Count) {
	for _, n := range counted {
		n.Version = t.table
		t.all.merge(n)
	}
}

// AllWords are the words of notes, by kind and language.
func AllWords() map[string]map[Language]string { return allWords() }
