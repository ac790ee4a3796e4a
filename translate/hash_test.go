package translate_test

import (
	"testing"

	"billbridge/translate"
)

// The hashes are those of printf %s TEXT | sha256sum.
func TestSignRequest(t *testing.T) {
	t.Parallel()
	type row struct {
		Name, Overlay, Operation, Request, Text, Hash string
		Form                                          translate.Form
	}
	for _, row := range cases[row](t, "hash") {
		call := overlaid(t, row.Overlay).Operation(row.Operation).Translation(row.Form, row.Form).Start()
		must(t, call.Read([]byte(row.Request)))
		got, err := call.Sign()
		must(t, err)
		equal(t, got.Text+" "+got.Hash, row.Text+" "+row.Hash, row.Name)
		call.Release()
	}
}
