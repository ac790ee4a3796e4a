package translate

import "slices"

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

// A CodeMeaning is a code and its meaning.
type CodeMeaning struct {
	Code  string
	Form  Form // "" for a code of the catalogue
	Means Meaning
}

// Unpaired reports whether a code that an upstream of the form sends is unknown to clients of the other form: it is
// neither in the catalogue nor paired, nor is it open, which says that nothing corresponds to it.
func (e Envelope) Unpaired(code string) bool {
	means, listed := e.form.known[code]
	return !e.form.table.InCatalogue(e.form.inFirst(code)) && (!listed || means != "")
}

// WordsWithoutPairs returns the paths, in a form, of reply fields with role: code that this form may write as words,
// that the other form has as whole numbers, and that have neither pairs nor `otherwise`: a word passes unchanged.
func (t *Table) WordsWithoutPairs(f Form) (paths []string) {
	form := t.formIndex(f)
	if form < 0 {
		return nil
	}
	for _, o := range t.Operations {
		for _, r := range o.rows[Reply] {
			words := r.mayBeWord() && r.otherwise == ""
			isText := r.onlyForm() < 0 && r.digitsIn(&t.forms[form]) == text
			if words && isText && !slices.Contains(paths, r.Path[form]) {
				paths = append(paths, r.Path[form])
			}
		}
	}
	return paths
}

// CodeThatMeans returns the first code of the catalogue with a meaning, or "".
func (t *Table) CodeThatMeans(m Meaning) string {
	for _, code := range t.Catalogue {
		if t.inCatalogue[code].Means == m {
			return code
		}
	}
	return ""
}

// An OwnFailure is why the gateway itself fails or refuses a call. The table has a code for each, in `failures`.
type OwnFailure string

// The failures of the gateway.
const (
	OwnFailed      OwnFailure = "failed"      // there is no such path, or a read got no answer
	OwnUnavailable OwnFailure = "unavailable" // nothing was sent; the call can be made again
	OwnNoUpstream  OwnFailure = "no_upstream" // no upstream has the operation
	OwnInvalid     OwnFailure = "invalid"     // the request cannot be read
)

// Means reports whether a code, as an upstream wrote it in the form, has one of the meanings: as a code of this form,
// or as a code of the catalogue after translation by the table's pairs.
func (e Envelope) Means(code string, meanings ...Meaning) bool {
	inCatalogue := e.form.table.inCatalogue[e.form.inFirst(code)].Means
	return code != "" && (slices.Contains(meanings, e.form.known[code]) || slices.Contains(meanings, inCatalogue))
}
