package translate_test

import (
	"testing"

	"billbridge/translate"
)

// Changes has each row that overlays change, in their order, with the safety keys that it loses.
func TestChangesOfOverlays(t *testing.T) {
	t.Parallel()
	table := tableOf(t, "library", `
shared: {who: {reader.id: card}}
operations:
  book.find:
    request:
      isbn: {phone: null, lost: drop}
      +shef: sh
roles: {book: {same: count}}
`, "operations: {book.find: {request: {reader.id: null, +shelf: sg}}}")
	const who = "reader.id: {phone: rd, required: true, role: reader}"
	const card = "reader.id: {phone: card, required: true, role: reader}"
	want := []translate.RowChange{
		{File: "1.yaml", Line: 2, Message: "book.reserve request, book.find request", Before: who, After: card},
		{File: "1.yaml", Line: 6, Message: "book.find request", Before: "isbn: {phone: no, role: book}", After: "isbn: {role: book, lost: drop}"},
		{File: "1.yaml", Line: 7, Message: "book.find request", After: "shef: {phone: sh}"},
		{File: "1.yaml", Line: 8, Message: "roles", Before: "book: {same: must}", After: "book: {same: count}", Lost: []string{"same"}},
		{File: "2.yaml", Line: 1, Message: "book.find request", After: "shelf: {phone: sg}", Like: "; did you mean shef?"},
		{File: "2.yaml", Line: 1, Message: "book.find request", Before: card, Lost: []string{"role", "required"}},
	}
	equal(t, table.Changes, want)
	if changes := shipped().Changes; len(changes) > 0 {
		t.Errorf("without an overlay: %v", changes)
	}
}
