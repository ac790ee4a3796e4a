package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"billbridge/translate"
	"billbridge/translate/billing"
)

type translateCommand struct {
	Operation string         `required:"" placeholder:"NAME" help:"Operation, such as bill.create; billbridge map lists them."`
	Message   string         `required:"" enum:"request,reply" placeholder:"request|reply" help:"Which message of the operation stdin has."`
	From      translate.Form `required:"" placeholder:"v2|legacy" help:"The form that stdin is in."`
	To        translate.Form `required:"" placeholder:"v2|legacy" help:"The form to write."`
	Request   string         `placeholder:"FILE" help:"The caller's request, in its own form: a reply may echo from it, and a bare read is proved by it."`
	Table     string         `placeholder:"FILE" help:"Use this table instead of the built-in one."`
	Overlay   string         `placeholder:"FILE" help:"Lay this overlay over the table."`
	Lines     bool           `help:"One document a line, in and out. A line that is refused gives no line."`
}

// Help implements kong's detailed help.
func (translateCommand) Help() string {
	return examples(
		"billbridge translate --operation bill.create --message request --from legacy --to v2 < send.json",
		"billbridge translate --operation bill.destroy --message reply --from v2 --to legacy --request destroy.json < reply.json",
		"billbridge translate --operation callback.payment --message request --from v2 --to legacy < callback.json") +
		"\n\nWhat was dropped, defaulted or echoed goes to stderr. A reply is taken as one with HTTP 200. A refusal is\n" +
		"CODE field: reason on stderr, and the exit code is 1."
}

// depth is how deep a document may nest here; the gateway's is limits.depth of its config.
const depth = 32

// longest is the longest line or document that is read.
const longest = 64 << 20

// Run translates.
func (c *translateCommand) Run(s surroundings) error {
	carry, err := c.carrier()
	if err != nil {
		return err
	}
	var request []byte
	if c.Request != "" {
		if c.Message == "request" {
			return usageError("--request is for --message reply")
		}
		if request, err = os.ReadFile(c.Request); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(s.out)
	if c.Lines {
		err = c.lines(carry, request, s, out)
	} else {
		var doc []byte
		doc, err = io.ReadAll(io.LimitReader(s.in, longest+1))
		switch {
		case err != nil:
		case len(doc) > longest:
			err = fmt.Errorf("the document is longer than %d MiB", longest>>20)
		default:
			err = c.one(carry, request, doc, "", s, out)
		}
	}
	return errors.Join(err, out.Flush())
}

// A carrier carries one message over, and gives the report of it and what else there is to say; they hold until the
// next message. request is the caller's request before a reply, if any.
type carrier func(request, doc []byte) (out []byte, report translate.Report, more string, err error)

// errRequest is the caller's request that would have been refused.
type errRequest struct{ error }

func (c *translateCommand) carrier() (carrier, error) {
	table, err := compile(c.Table, c.Overlay)
	if err != nil {
		return nil, err
	}
	forms := table.Forms()
	for flag, form := range map[string]translate.Form{"--from": c.From, "--to": c.To} {
		if form != forms[0] && form != forms[1] {
			return nil, usageError(fmt.Sprintf("%s must be %s or %s, but is %q", flag, forms[0], forms[1], form))
		}
	}
	callback := table.Callback()
	if callback != nil && callback.Name() == c.Operation {
		return c.callback(callback)
	}
	operation := table.Operation(c.Operation)
	if operation == nil {
		var names []string
		for _, o := range table.Operations() {
			names = append(names, o.Name)
		}
		if callback != nil {
			names = append(names, callback.Name())
		}
		return nil, usageError(fmt.Sprintf("--operation %q is none of %s", c.Operation, strings.Join(names, ", ")))
	}
	client, upstream := c.From, c.To
	if c.Message == "reply" {
		client, upstream = c.To, c.From
	}
	translation := operation.Translation(client, upstream)
	if translation == nil {
		return nil, usageError(fmt.Sprintf("%s does not exist in both %s and %s", c.Operation, c.From, c.To))
	}
	call := translation.Start() // for all documents, one after the other
	return func(request, doc []byte) ([]byte, translate.Report, string, error) {
		if c.Message == "request" {
			out, err := call.Request(nil, doc)
			return out, call.Report, "", err
		}
		if request != nil {
			if _, err := call.Request(nil, request); err != nil {
				return nil, call.Report, "", errRequest{err}
			}
		}
		out, err := call.Reply(nil, 200, doc)
		return out, call.Report, "", err
	}, nil
}

// callback brings what the upstream sends of itself.
func (c *translateCommand) callback(callback *translate.Callback) (carrier, error) {
	if c.Message != "request" {
		return nil, usageError(fmt.Sprintf("%s has no reply to translate: each form's answer stands in the table", c.Operation))
	}
	return func(_, doc []byte) ([]byte, translate.Report, string, error) {
		out, notice, err := callback.Translate(nil, doc, c.From, c.To)
		more := ""
		switch {
		case notice.Recognised == translate.Unrecognised:
			more = "not recognised, passed as it is"
		case notice.Recognised == translate.InForm && c.From != c.To:
			more = fmt.Sprintf("already in %s, passed as it is", c.To)
		case notice.OtherForm:
			more = fmt.Sprintf("not in %s but in the other form, read in that", c.From)
		}
		return out, notice.Report, more, err
	}, nil
}

// lines translates line by line. A bad line is told by its number and the rest goes on.
func (c *translateCommand) lines(carry carrier, request []byte, s surroundings, out *bufio.Writer) error {
	scanner := bufio.NewScanner(s.in)
	scanner.Buffer(nil, longest)
	bad, n := 0, 0
	for scanner.Scan() {
		n++
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		err := c.one(carry, request, scanner.Bytes(), fmt.Sprintf("line %d: ", n), s, out)
		if errors.Is(err, errRefused) {
			bad++
		} else if err != nil {
			return err
		}
		if s.terminal && n%10000 == 0 {
			fmt.Fprintf(s.err, "%d lines, %d refused\n", n, bad)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	if bad > 0 {
		return errRefused
	}
	return nil
}

// one translates one document. where stands before everything that is said about it.
func (c *translateCommand) one(carry carrier, request, doc []byte, where string, s surroundings, out *bufio.Writer) error {
	result, report, more, err := carry(request, doc)
	var refusal *translate.Refusal
	var asked errRequest
	switch {
	case errors.As(err, &asked):
		fmt.Fprintf(s.err, "%s%s: %v\n", where, c.Request, err)
		return errRefused
	case errors.As(err, &refusal):
		field := refusal.Field
		if field == "" {
			field = "body"
		}
		fmt.Fprintf(s.err, "%s%s %s: %s\n", where, refusal.Code, field, refusal.Reason)
		return errRefused
	case err != nil:
		fmt.Fprintf(s.err, "%s%v\n", where, err)
		return errRefused
	}
	say := func(what string, fields []string) {
		for _, field := range fields {
			fmt.Fprintf(s.err, "%s%s %s\n", where, what, field)
		}
	}
	say("dropped", report.Dropped)
	say("dropped unknown", report.UnknownNames)
	if more := report.Unknown - len(report.UnknownNames); more > 0 {
		fmt.Fprintf(s.err, "%sdropped %d unknown more\n", where, more)
	}
	say("defaulted", report.Defaulted)
	say("echoed", report.Echoed)
	say("does not fit or is missing", report.Mismatched)
	if more != "" {
		fmt.Fprintf(s.err, "%s%s\n", where, more)
	}
	_, err = out.Write(append(bytes.TrimRight(result, "\n"), '\n'))
	return err
}

// compile reads the table that a command works with.
func compile(table, overlay string) (*translate.Table, error) {
	base := billing.Table()
	var overlays []translate.File
	if table != "" {
		data, err := os.ReadFile(table)
		if err != nil {
			return nil, err
		}
		base = translate.File{Name: table, Data: data}
	}
	if overlay != "" {
		data, err := os.ReadFile(overlay)
		if err != nil {
			return nil, err
		}
		overlays = append(overlays, translate.File{Name: overlay, Data: data})
	}
	return translate.Compile(depth, base, overlays...)
}
