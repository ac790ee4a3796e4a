package translate_test

import (
	"testing"

	"billbridge/translate"
)

func TestMeans(t *testing.T) {
	t.Parallel()
	type row struct {
		Name, Overlay, Code string
		Form                translate.Form
		Means, Not          translate.Meaning
	}
	for _, row := range cases[row](t, "means") {
		e := overlaid(t, row.Overlay).Envelope(row.Form)
		if row.Means != "" && !e.Means(row.Code, translate.Malformed, row.Means) || e.Means(row.Code, row.Not) {
			t.Errorf("%s: %s of %s does not mean %s, or means %s", row.Name, row.Code, row.Form, row.Means, row.Not)
		}
	}
}
