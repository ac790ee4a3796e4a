package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"billbridge/config"
	"billbridge/translate"
)

type hashCommand struct {
	Operation string         `required:"" placeholder:"NAME" help:"The operation, such as bill.create."`
	Form      translate.Form `required:"" placeholder:"FORM" help:"The form of the request, such as legacy or v2."`
	secretFlag
	tableFlags
}

// secretFlag names the file of a secret. A flag with the secret itself would be seen by other users of the machine.
type secretFlag struct {
	HashSecretFile string `placeholder:"FILE" help:"The file of the partner's secret, if hashes need one."`
}

// A signer returns the hash of a request, and the text that is hashed.
type signer = func(operation, form string, request []byte) (text, hash string, err error)

// maxRequest bounds the request on stdin, in bytes.
const maxRequest = 1 << 20

// Run prints the text and the hash.
func (c *hashCommand) Run(s system) error {
	table, _, err := c.load(s)
	if err != nil {
		return err
	}
	secret, err := c.secret(table)
	if err != nil {
		return err
	}
	if o := table.Operation(c.Operation); o == nil || !o.HasHash() || o.Path(c.Form) == "" {
		return usageError(fmt.Sprintf("--operation %s --form %s has no hash: use one of %s",
			c.Operation, c.Form, strings.Join(withHash(table), ", ")))
	}
	body, err := io.ReadAll(io.LimitReader(s.in, maxRequest+1))
	if err != nil {
		return err
	}
	if len(body) > maxRequest {
		return errors.New("the request is larger than 1 MiB")
	}
	signed, err := sign(table, c.Operation, c.Form, body, secret)
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
	for _, o := range t.Operations() {
		for _, form := range t.Forms() {
			if o.HasHash() && o.Path(form) != "" {
				list = append(list, fmt.Sprintf("%s in %s", o.Name, form))
			}
		}
	}
	return list
}

// sign signs a request of an operation that has a hash.
func sign(
	t *translate.Table, operation string, form translate.Form, request []byte, secret string,
) (translate.Signature, error) {
	call := t.Operation(operation).Translation(form, form).Start()
	defer call.Release()
	if err := call.Read(request); err != nil {
		return translate.Signature{}, err
	}
	signed, err := call.Sign(secret)
	signed.Text, signed.Carried = strings.Clone(signed.Text), strings.Clone(signed.Carried)
	return signed, err
}

// secret returns the secret, or "" if the table needs none.
func (f secretFlag) secret(t *translate.Table) (string, error) {
	if f.HashSecretFile == "" {
		for _, form := range t.Forms() {
			if t.HashNeedsSecret(form) {
				return "", usageError(fmt.Sprintf("the table computes hashes of %s with a secret: "+
					"add --hash-secret-file", form))
			}
		}
		return "", nil
	}
	data, err := os.ReadFile(f.HashSecretFile)
	if err != nil {
		return "", err
	}
	secret, err := config.SecretText(string(data))
	if err == nil && secret == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return "", fmt.Errorf("%s %w", f.HashSecretFile, err)
	}
	return secret, nil
}

// signer returns what signs requests by a table.
func (f secretFlag) signer(t *translate.Table) (signer, error) {
	secret, err := f.secret(t)
	return func(operation, form string, request []byte) (text, hash string, err error) {
		signed, err := sign(t, operation, translate.Form(form), request, secret)
		return signed.Text, signed.Hash, err
	}, err
}
