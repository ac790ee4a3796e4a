package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
)

type rolloutCompare struct {
	adminFlags
	partnerFlags
	IDs  given `name:"ids" required:"" placeholder:"FILE"`
	JSON bool  `name:"json"`
}

// Run compares bills.
func (c *rolloutCompare) Run(ctx context.Context, one operate.PartnerRef) error {
	if one.Partner == "" {
		return usageError("give one of --partner and --key-file")
	}
	lines, err := linesIn(c.IDs, c.in)
	if err != nil {
		return err
	}
	compared, err := c.compare(ctx, one, lines)
	if err != nil {
		return err
	}
	c.progressf("")
	if err := showRows(c.out, c.JSON, "compare", []operate.ComparedBills{compared}); err != nil {
		return err
	}
	differ := compared.Bills[string(evidence.Differs)]
	switch {
	case differ > 0:
		return fmt.Errorf("%d of %d bills differ", differ, len(lines)-compared.Left)
	case compared.Left > 0:
		return errReported
	}
	return nil
}

// compare compares the bills of a partner, until all are compared, the gateway stops, or ctx ends.
func (c *rolloutCompare) compare(
	ctx context.Context, p operate.PartnerRef, lines []placed,
) (sum operate.ComparedBills, err error) {
	sum.Bills, sum.Left = map[string]int{}, len(lines)
	for sum.Left > 0 && sum.Stopped == "" {
		done := len(lines) - sum.Left
		in := operate.BillsToCompare{PartnerRef: p}
		for _, line := range lines[done:min(done+100, len(lines))] { // more than an answer has
			in.IDs += line.text + "\n"
		}
		var r operate.ComparedBills
		if err := c.send(ctx, http.MethodPost, "/rollout/compare", &r, in); err != nil {
			if ctx.Err() == nil || done == 0 {
				return sum, err
			}
			sum.Stopped = "interrupted"
			break
		}
		now := 0
		for class, n := range r.Bills {
			sum.Bills[class] += n
			now += n
		}
		sum.Who, sum.Stopped, sum.Fields = r.Who, r.Stopped, append(sum.Fields, r.Fields...)
		sum.OldOnly, sum.NewOnly = sum.OldOnly+r.OldOnly, sum.NewOnly+r.NewOnly
		sum.Left -= now
		c.progressf("%s: %d of %d bills", r.Label(), done+now, len(lines))
		if now == 0 && sum.Left > 0 {
			sum.Stopped = cmp.Or(sum.Stopped, "no bill was read in time")
		}
	}
	return sum, nil
}

// A placed text is a line of a file, with its place: FILE:LINE.
type placed struct{ place, text string }

// linesIn returns the lines of a file, or of stdin for -, without empty ones and those that begin with #.
func linesIn(file given, stdin io.Reader) (all []placed, err error) {
	name, data, err := input(string(file), stdin)
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			all = append(all, placed{fmt.Sprintf("%s:%d", name, n), text})
		}
	}
	return all, err
}

// input returns the name and the text of a file, or of stdin for -, without a byte order mark.
func input(file string, stdin io.Reader) (name string, text []byte, err error) {
	if file == "-" {
		text, err = io.ReadAll(withoutMark(stdin))
		return "stdin", text, err
	}
	text, err = readText(file)
	return file, text, err
}

// byteOrderMark is what editors on Windows put before a text in UTF-8. It is no part of the text.
const byteOrderMark = "\ufeff"

// readText returns the text of a file, without a byte order mark.
func readText(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	return bytes.TrimPrefix(text, []byte(byteOrderMark)), err
}

// withoutMark reads what r has, without a byte order mark at its beginning.
func withoutMark(r io.Reader) *bufio.Reader {
	in := bufio.NewReader(r)
	if first, err := in.Peek(len(byteOrderMark)); err == nil && string(first) == byteOrderMark {
		_, _ = in.Discard(len(byteOrderMark)) // which Peek has read
	}
	return in
}

// inputWithin returns all of stdin without a byte order mark, which must not be larger than some MiB. what is the input
// in the words of an error.
func (s *system) inputWithin(mebibytes int64, what string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(withoutMark(s.in), mebibytes<<20+1))
	if err == nil && int64(len(text)) > mebibytes<<20 {
		err = fmt.Errorf("the %s is larger than %d MiB", what, mebibytes)
	}
	return text, err
}
