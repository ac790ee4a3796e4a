package main

import (
	"fmt"
	"slices"

	"billbridge/translate"
	"billbridge/translate/openapi"
)

// openapiCommand is billbridge assets openapi.
type openapiCommand struct {
	Form       translate.Form `required:"" placeholder:"NAME" help:"The form that the partner uses, such as legacy or v2."`
	Collection bool           `help:"Print the requests of the document as a collection that Postman, Bruno and other HTTP clients import."`
	tableFlags
}

// Run prints the document or the collection.
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
	write := openapi.Document
	if c.Collection {
		write = openapi.Collection
	}
	text, err := write(table, c.Form, server)
	return s.write(append(text, '\n'), err)
}
