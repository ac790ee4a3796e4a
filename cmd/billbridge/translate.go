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
	Operation string         `required:"" placeholder:"NAME"`
	Message   string         `required:"" enum:"request,reply" placeholder:"request|reply"`
	From      translate.Form `required:"" placeholder:"FORM"`
	To        translate.Form `required:"" placeholder:"FORM"`
	Request   string         `placeholder:"FILE"`
	Table     string         `placeholder:"FILE"`
	Overlay   string         `placeholder:"FILE"`
	Lines     bool
}

// maxDepth is the maximum nesting of a document. The gateway uses limits.depth of its config instead.
const maxDepth = 32

// maxDocument bounds the size of a document, in bytes. With --lines it bounds the memory.
const maxDocument = 16 << 20

// Run translates.
func (c *translateCommand) Run(s system) error {
	translator, err := c.translator()
	if err != nil {
		return err
	}
	var request []byte
	if c.Request != "" {
		if c.Message == "request" {
			return usageError("--request requires --message reply")
		}
		if request, err = readText(c.Request); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(s.documents)
	if c.Lines {
		err = c.translateLines(translator, request, s, out)
	} else {
		var doc []byte
		if doc, err = s.inputWithin(maxDocument>>20, "document"); err == nil {
			err = c.translateDocument(translator, request, doc, "", s, out)
		}
	}
	return errors.Join(err, out.Flush())
}

// A translator translates one document. request is the caller's request, if a reply is translated; it may be nil. note
// is printed on stderr. The results are valid until the next call.
type translator func(request, doc []byte) (out []byte, report translate.Report, note string, err error)

// requestError is the refusal of the caller's request in --request.
type requestError struct{ error }

// translator returns the translator for the flags.
func (c *translateCommand) translator() (translator, error) {
	table, err := compileTable(c.Table, c.Overlay)
	if err != nil {
		return nil, err
	}
	forms := table.Forms()
	for flag, form := range map[string]translate.Form{"--from": c.From, "--to": c.To} {
		if form != forms[0] && form != forms[1] {
			return nil, usageError(fmt.Sprintf("%s must be %s or %s, but is %q", flag, forms[0], forms[1], form))
		}
	}
	callback := table.Callback
	if callback != nil && callback.Name == c.Operation {
		return c.callbackTranslator(callback)
	}
	operation := table.Operation(c.Operation)
	if operation == nil {
		var names []string
		for _, o := range table.Operations() {
			names = append(names, o.Name)
		}
		if callback != nil {
			names = append(names, callback.Name)
		}
		return nil, usageError(fmt.Sprintf("--operation must be one of %s, but is %q",
			strings.Join(names, ", "), c.Operation))
	}
	client, upstream := c.From, c.To
	if c.Message == "reply" {
		client, upstream = c.To, c.From
	}
	translation := operation.Translation(client, upstream)
	if translation == nil {
		return nil, usageError(fmt.Sprintf("%s does not exist in both %s and %s", c.Operation, c.From, c.To))
	}
	call := translation.Start() // reused for all documents
	if c.Message == "reply" && c.Request == "" {
		call = translation.StartReply()
	}
	return func(request, doc []byte) ([]byte, translate.Report, string, error) {
		if c.Message == "request" {
			out, err := call.Request(nil, doc)
			return out, call.Report, "", err
		}
		if request != nil {
			if _, err := call.Request(nil, request); err != nil {
				return nil, call.Report, "", requestError{err}
			}
		}
		out, err := call.Reply(nil, 200, doc)
		return out, call.Report, "", err
	}, nil
}

// callbackTranslator returns the translator for callbacks. A callback that is not recognised stays unchanged.
func (c *translateCommand) callbackTranslator(callback *translate.Callback) (translator, error) {
	if c.Message != "request" {
		return nil, usageError(fmt.Sprintf("%s has no reply to translate: "+
			"the table defines the answer of each form", c.Operation))
	}
	return func(_, doc []byte) ([]byte, translate.Report, string, error) {
		out, notice, err := callback.Translate(nil, doc, c.From, c.To)
		note := ""
		switch {
		case notice.Recognised == translate.Unrecognised:
			note = "not recognised, unchanged"
		case notice.Recognised == translate.InForm && c.From != c.To:
			note = fmt.Sprintf("already in %s, unchanged", c.To)
		case notice.Recognised == translate.Translated && c.From == c.To:
			note = fmt.Sprintf("not in %s, read in the other form", c.From)
		}
		return out, notice.Report, note, err
	}, nil
}

// translateLines translates line by line. It reports a refused line, and a line that is too long, by its number, and
// continues.
func (c *translateCommand) translateLines(translator translator, request []byte, s system, out *bufio.Writer) error {
	in := withoutMark(s.in)
	var line []byte
	refused, end := 0, false
	for n := 1; !end; n++ {
		var tooLong bool
		var err error
		line, tooLong, err = readLine(in, line[:0])
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case tooLong:
			printf(s.err, "line %d: larger than %d MiB, skipped\n", n, maxDocument>>20)
			refused++
		case len(bytes.TrimSpace(line)) > 0:
			err := c.translateDocument(translator, request, line, fmt.Sprintf("line %d: ", n), s, out)
			if errors.Is(err, errReported) {
				refused++
			} else if err != nil {
				return err
			}
		}
		if s.terminal && n%10000 == 0 {
			printf(s.err, "lines: %d, refused: %d\n", n, refused)
		}
	}
	if refused > 0 {
		return errReported
	}
	return nil
}

// readLine appends the next line to line, without its end. A line larger than maxDocument is read to its end, but not
// stored. At the end of the input the error is io.EOF, also if it has a line.
func readLine(in *bufio.Reader, line []byte) (read []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(bytes.TrimRight(part, "\r\n")) > maxDocument; !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), tooLong, err
		}
	}
}

// translateDocument translates one document and prints its report. place precedes every line of the report.
func (c *translateCommand) translateDocument(
	translator translator, request, doc []byte, place string, s system, out *bufio.Writer,
) error {
	result, report, note, err := translator(request, doc)
	var refusal *translate.Refusal
	var wrongRequest requestError
	switch {
	case errors.As(err, &wrongRequest):
		printf(s.err, "%s%s: %v\n", place, c.Request, err)
		return errReported
	case errors.As(err, &refusal):
		field := refusal.Field
		if field == "" {
			field = "body"
		}
		printf(s.err, "%s%s %s: %s\n", place, refusal.Code, field, refusal.Reason)
		return errReported
	case err != nil:
		printf(s.err, "%s%v\n", place, err)
		return errReported
	}
	printFields := func(what string, fields []string) {
		for _, field := range fields {
			printf(s.err, "%s%s %s\n", place, what, field)
		}
	}
	printFields("dropped", report.Dropped)
	printFields("dropped unknown", report.UnknownNames)
	if more := report.Unknown - len(report.UnknownNames); more > 0 {
		printf(s.err, "%sdropped unknown, not listed: %d\n", place, more)
	}
	printFields("defaulted", report.Defaulted)
	printFields("echoed", report.Echoed)
	for i, field := range report.Mismatched {
		printf(s.err, "%s%s %s\n", place, field, report.Mismatches[i])
	}
	if note != "" {
		printf(s.err, "%s%s\n", place, note)
	}
	_, err = out.Write(append(bytes.TrimRight(result, "\n"), '\n'))
	return err
}

// compileTable compiles a table with an overlay. Both are file names: an empty table is the built-in one, an empty
// overlay none.
func compileTable(table, overlay string) (*translate.Table, error) {
	files := []translate.File{billing.Table()}
	for i, name := range []string{table, overlay} {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files[:i], translate.File{Name: name, Data: data})
	}
	return translate.Compile(maxDepth, files[0], files[1:]...)
}
