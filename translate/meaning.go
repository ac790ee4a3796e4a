package translate

import (
	"maps"
	"slices"
)

// A Meaning is what may be concluded from a code, beyond that a call failed. The catalogue of the table gives a code its
// meaning.
type Meaning string

// The meanings that a code can have.
const (
	NotFound      Meaning = "not_found"      // what the call is about does not exist
	Exists        Meaning = "exists"         // what the call would create exists already
	Refused       Meaning = "refused"        // the request was refused for what it asks; nothing was done
	CallerRefused Meaning = "caller_refused" // the caller was refused, whatever the call is about; nothing was done
	Malformed     Meaning = "malformed"      // something in the request is missing or has the wrong format; nothing was done
	Unavailable   Meaning = "unavailable"    // the service failed; the code says nothing about the call
)

var allMeanings = []string{string(NotFound), string(Exists), string(Refused), string(CallerRefused), string(Malformed), string(Unavailable)}

// A CodeMeaning is what a code means.
type CodeMeaning struct {
	Code  string
	Form  Form // "" for a code of the catalogue
	Means Meaning
}

// Meanings are the codes that have a meaning: those of the catalogue, in its order, and then those of each form.
func (t *Table) Meanings() (list []CodeMeaning) {
	for _, code := range t.catalogue {
		if m := t.catalogued[code]; m != "" {
			list = append(list, CodeMeaning{code, "", m})
		}
	}
	for f, codes := range t.meanings {
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			list = append(list, CodeMeaning{code, t.forms[f].name, codes[code]})
		}
	}
	return list
}

// Means tells whether a code of a form, as an upstream wrote it, has one of the meanings: in this form, or, by the table's
// pairs, in the catalogue.
func (t *Table) Means(f Form, code string, meanings ...Meaning) bool {
	form := t.formIndex(f)
	if form < 0 || code == "" {
		return false
	}
	return slices.Contains(meanings, t.meanings[form][code]) || slices.Contains(meanings, t.catalogued[t.Code(code, f, t.forms[0].name)])
}
