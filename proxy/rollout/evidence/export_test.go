package evidence

// UpperBound and LowerBound are the two bounds of a rate.
func UpperBound(k, n int) float64 { return upperBound(k, n) }
func LowerBound(k, n int) float64 { return lowerBound(k, n) }

// ChanceOfMore is the chance that what came more often at the new backend did so by chance.
func ChanceOfMore(atNew, ofNew, atOld, ofOld int) float64 {
	return chanceOfMore(atNew, ofNew, atOld, ofOld)
}
