package main

import (
	"fmt"
	"strconv"
	"strings"

	"billbridge/translate"
)

type hashCommand struct {
	Operation string         `required:"" placeholder:"NAME"`
	Form      translate.Form `required:"" placeholder:"FORM"`
	tableFlags
}

// Run prints the text and the hash.
func (c *hashCommand) Run(s system) error {
	table, _, err := c.load(s)
	if err != nil {
		return err
	}
	if o := table.Operation(c.Operation); o == nil || !o.HasHash() || o.Path(c.Form) == "" {
		return usageError(fmt.Sprintf("--operation %s --form %s has no hash: use one of %s",
			c.Operation, c.Form, strings.Join(withHash(table), ", ")))
	}
	body, err := s.inputWithin(1, "request")
	if err != nil {
		return err
	}
	signed, err := sign(table, c.Operation, c.Form, body)
	if err != nil {
		return err
	}
	printf(s.out, "text: %s\nhash: %s\n", signed.Text, signed.Hash)
	if signed.Carried != "" && signed.Carried != signed.Hash {
		printf(s.err, "The hash in the request is different: %s\n", strconv.Quote(signed.Carried))
	}
	return nil
}

// withHash returns the operations whose requests have a hash, each with its forms.
func withHash(t *translate.Table) (list []string) {
	for _, o := range t.Operations {
		for _, form := range t.Forms() {
			if o.HasHash() && o.Path(form) != "" {
				list = append(list, fmt.Sprintf("%s in %s", o.Name, form))
			}
		}
	}
	return list
}

// sign signs a request of an operation that has a hash.
func sign(t *translate.Table, operation string, form translate.Form, request []byte) (translate.Signature, error) {
	call := t.Operation(operation).Translation(form, form).Start()
	defer call.Release()
	if err := call.Read(request); err != nil {
		return translate.Signature{}, err
	}
	signed, err := call.Sign()
	signed.Text, signed.Carried = strings.Clone(signed.Text), strings.Clone(signed.Carried)
	return signed, err
}
