package main

import (
	"errors"
	"io"
	"strconv"

	"billbridge/proxy/sandbox"
)

type hashCommand struct {
	Operation string `required:"" enum:"bill.create,bill.destroy,bill.cancel" placeholder:"NAME" help:"The operation: bill.create, bill.destroy or bill.cancel. Others have no hash."`
	Form      string `required:"" enum:"legacy,v2" placeholder:"FORM" help:"The form of the request: legacy or v2."`
}

// maxRequest bounds the request on stdin, in bytes.
const maxRequest = 1 << 20

// Run prints the text and the hash.
func (c *hashCommand) Run(s system) error {
	body, err := io.ReadAll(io.LimitReader(s.in, maxRequest+1))
	if err != nil {
		return err
	}
	if len(body) > maxRequest {
		return errors.New("the request is larger than 1 MiB")
	}
	signed, err := sandbox.Sign(c.Operation, c.Form, body)
	if err != nil {
		return err
	}
	printf(s.out, "text: %s\nhash: %s\n", signed.Text, signed.Hash)
	if signed.Carried != "" && signed.Carried != signed.Hash {
		printf(s.err, "The hash in the request is different: %s\n", strconv.Quote(signed.Carried))
	}
	return nil
}
