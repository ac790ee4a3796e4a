package translate

import (
	"maps"
	"slices"
)

// A Meaning is what a code says, beyond "the call failed". The catalogue of the table gives codes their meaning.
type Meaning string

// The meanings of codes.
const (
	NotFound      Meaning = "not_found"      // what the call is about does not exist
	Exists        Meaning = "exists"         // what the call would create exists already
	Refused       Meaning = "refused"        // the content of the request was refused; nothing was done
	CallerRefused Meaning = "caller_refused" // the caller was refused, whatever the call is about; nothing was done
	Malformed     Meaning = "malformed"      // something is missing or has the wrong format; nothing was done
	Unavailable   Meaning = "unavailable"    // the service failed; the code says nothing about the call
)

var allMeanings = []Meaning{NotFound, Exists, Refused, CallerRefused, Malformed, Unavailable}

// A CodeMeaning is a code and its meaning.
type CodeMeaning struct {
	Code  string
	Form  Form // "" for a code of the catalogue
	Means Meaning
}

// Meanings returns the codes that have a meaning: those of the catalogue, in its order, then those of each form.
func (t *Table) Meanings() (list []CodeMeaning) {
	for _, code := range t.catalogue {
		if m := t.meanings[code]; m != "" {
			list = append(list, CodeMeaning{code, "", m})
		}
	}
	for form, codes := range t.formMeanings {
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			list = append(list, CodeMeaning{code, t.forms[form].name, codes[code]})
		}
	}
	return list
}

// Unpaired reports whether a code that an upstream of the form sends is unknown to clients of the other form: it is
// neither in the catalogue nor paired, nor is it listed with form: and without a meaning, which says that nothing
// corresponds to it.
func (t *Table) Unpaired(f Form, code string) bool {
	i := t.formIndex(f)
	return i >= 0 && code != "" && !t.InCatalogue(t.Code(code, f, t.forms[0].name)) && !t.uncounted[i][code]
}

// WordsWithoutPairs returns the paths, in a form, of reply fields with role: code that this form may write as words,
// that the other form has as whole numbers, and that have no pairs: a word passes unchanged.
func (t *Table) WordsWithoutPairs(f Form) (paths []string) {
	form := t.formIndex(f)
	for _, o := range t.operations {
		for _, r := range o.rows[Reply] {
			words := r.digits && r.role.Many && len(r.pairs.list) == 0
			if words && r.onlyForm() < 0 && t.forms[form].digits == text && !slices.Contains(paths, r.path[form]) {
				paths = append(paths, r.path[form])
			}
		}
	}
	return paths
}

// RefusalCode returns the code of a permanent refusal. For a create it is the first code of the catalogue that means
// exists, so that no client takes the create for one without an effect.
func (t *Table) RefusalCode(creates bool) string {
	for _, code := range t.catalogue {
		if creates && t.meanings[code] == Exists {
			return code
		}
	}
	return t.invalid
}

// Means reports whether a code, as an upstream wrote it in a form, has one of the meanings: as a code of this form,
// or as a code of the catalogue after translation by the table's pairs.
func (t *Table) Means(f Form, code string, meanings ...Meaning) bool {
	form := t.formIndex(f)
	if form < 0 || code == "" {
		return false
	}
	catalogued := t.meanings[t.Code(code, f, t.forms[0].name)]
	return slices.Contains(meanings, t.formMeanings[form][code]) || slices.Contains(meanings, catalogued)
}
