package translate_test

import (
	"testing"

	"billbridge/translate"
)

// Changes has each row that overlays change, in their order, with the safety keys that it loses.
func TestChangesOfOverlays(t *testing.T) {
	t.Parallel()
	table := tableOf(t, "library", `
common: {who: [{desk: reader.id, phone: card, new: true}]}
operations:
  book.find:
    request:
      - {desk: isbn, phone: null, loss: drop}
      - {desk: shelf, phone: sh, new: true}
`, "operations: {book.find: {request: [{desk: reader.id, remove: true}]}}\ncodes: [{desk: NO_BOOK, phone: \"405\"}]")
	const who = "{desk: reader.id, phone: rd, required: true, role: reader, about: card number}"
	const card = "{desk: reader.id, phone: card, required: true, role: reader, about: card number}"
	want := []translate.RowChange{
		{File: "1.yaml", Line: 2, Message: "common who", Before: who, After: card},
		{File: "1.yaml", Line: 6, Message: "book.find request", Before: "{desk: isbn, phone: no, role: book, about: number of the book}", After: "{desk: isbn, loss: drop, role: book, about: number of the book}"},
		{File: "1.yaml", Line: 7, Message: "book.find request", After: "{desk: shelf, phone: sh}"},
		{File: "2.yaml", Line: 1, Message: "book.find request", Before: card, Lost: []string{"role", "required"}},
		{File: "2.yaml", Line: 2, Message: "codes", After: `{desk: NO_BOOK, phone: "405"}`},
	}
	equal(t, table.Changes(), want)
	if changes := shipped().Changes(); len(changes) > 0 {
		t.Errorf("without an overlay: %v", changes)
	}
}
