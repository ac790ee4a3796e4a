package main

import (
	"errors"
	"fmt"
	"io"

	"billbridge/proxy/sandbox"
)

type hashCommand struct {
	Operation string `required:"" enum:"bill.create,bill.destroy,bill.cancel" placeholder:"NAME" help:"bill.create, bill.destroy or bill.cancel: the operations that carry a hash."`
	Form      string `required:"" enum:"legacy,v2" placeholder:"FORM" help:"legacy or v2: the form the request is in."`
}

// Help implements kong's detailed help.
func (hashCommand) Help() string {
	return examples("billbridge hash --operation bill.create --form legacy < request.json") +
		"\n\nReads a request from stdin, prints the text that is hashed and the hash. The text has the price exactly as its" +
		"\ndigits stand in the request, and the phone only where the request itself has one."
}

// requestLimit bounds what is read of stdin, in bytes.
const requestLimit = 1 << 20

// Run prints the text and the hash.
func (c *hashCommand) Run(s surroundings) error {
	body, err := io.ReadAll(io.LimitReader(s.in, requestLimit+1))
	if err != nil {
		return err
	}
	if len(body) > requestLimit {
		return errors.New("the request is over 1 MiB")
	}
	signed, err := sandbox.Sign(c.Operation, c.Form, body)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "text: %s\nhash: %s\n", signed.Text, signed.Hash)
	if signed.Carried != "" && signed.Carried != signed.Hash {
		fmt.Fprintf(s.err, "the request carries another hash: %q\n", signed.Carried)
	}
	return nil
}
