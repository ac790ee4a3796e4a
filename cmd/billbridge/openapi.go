package main

import (
	"fmt"
	"slices"

	"billbridge/translate"
	"billbridge/translate/openapi"
)

// openapiCommand is billbridge assets openapi.
type openapiCommand struct {
	Form translate.Form `required:"" placeholder:"NAME" help:"The form that the partner uses, such as legacy or v2."`
	tableFlags
}

// Run prints the document.
func (c *openapiCommand) Run(s system) error {
	table, loaded, err := c.load(s)
	if err != nil {
		return err
	}
	if forms := table.Forms(); !slices.Contains(forms[:], c.Form) {
		return usageError(fmt.Sprintf("--form must be %s or %s, but is %q", forms[0], forms[1], c.Form))
	}
	server := ""
	if loaded != nil {
		server = loaded.PartnerURL()
	}
	text, err := openapi.Document(table, c.Form, server)
	return s.write(append(text, '\n'), err)
}
