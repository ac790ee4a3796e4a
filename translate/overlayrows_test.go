package translate_test

import (
	"strings"
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

// Of several rows that one row replaces, the keys that are equal in all of them are kept.
func TestOneRowForTheRowsOfAnOption(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "operations: {bill.create: {reply: [{v2: member, legacy: mbr, replaces: v2, new: true}]}}")
	change := table.Changes()[0]
	equal(t, change.After, "{v2: member, legacy: mbr, repeats_request: member}")
}

// A row of an overlay stands in the place of the row that it changes, and at the end if it is new.
func TestPlaceOfAReplacedRow(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "operations: {bill.destroy: {request: [{v2: apiKey, legacy: merchant, replaces: v2}, "+
		"{v2: merchant, legacy: apikey, replaces: v2}, {v2: bill.memo, legacy: memo, new: true}]}}")
	var got []string
	for _, f := range table.Operation("bill.destroy").Fields() {
		if f.Message == "request" && f.From == "v2" {
			got = append(got, f.Source+"="+f.Target)
		}
	}
	want := "apiKey=merchant member=member merchant=apikey bill.billId=bill_id bill.price=price bill.hash=hash bill.memo=memo"
	equal(t, strings.Join(got, " "), want)
}
