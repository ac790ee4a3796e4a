package translate_test

import "testing"

func TestR01_NamesThatDifferInCaseOnly(t *testing.T) {
	t.Parallel()
	runGolden(t, "testdata/golden/R01-names.yaml")
}

func TestR45_RepliesAreAboutTheirPartner(t *testing.T) {
	t.Parallel()
	runGolden(t, "testdata/golden/R45-replies.yaml")
}
