package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout/evidence"
)

type rolloutCompare struct {
	adminFlags
	partnerFlags
	Wave  given     `placeholder:"NAME" help:"Compare the bills of all partners of this wave, one partner after another."`
	Bills int       `default:"2000" placeholder:"N" help:"The most bills of a partner (${default}): of those in the ledger the newest."`
	Rate  perSecond `default:"20/s" placeholder:"N/s" help:"The most bills per second (${default}), up to 100. A bill is read once at each backend, and again if the answers differ."`
	IDs   given     `name:"ids" placeholder:"FILE" help:"Compare the bills in this file, or - for stdin, one id per line, instead of those in the ledger."`
	After given     `placeholder:"PLACE" help:"Go on where an earlier comparison ended: it has printed the place."`
	JSON  bool      `name:"json" help:"Print one JSON object per partner instead of a table."`
}

// Run compares bills.
func (c *rolloutCompare) Run(ctx context.Context, one operate.PartnerRef) error {
	switch {
	case (one.Partner == "") == (c.Wave == ""):
		return usageError("give one of --partner, --key-file and --wave")
	case c.Wave != "" && (c.IDs != "" || c.After != ""), c.IDs != "" && c.After != "":
		return usageError("--ids and --after are for the bills of one partner, and cannot be combined")
	case c.Bills < 1:
		return usageError("--bills must be 1 or more")
	}
	var ids []string
	if c.IDs != "" {
		lines, err := linesIn(c.IDs, c.in)
		if err != nil {
			return err
		}
		for _, line := range lines {
			ids = append(ids, line.text)
		}
	}
	partners := []operate.PartnerRef{one}
	if c.Wave != "" {
		var w operate.WaveInfo
		query := operate.WaveQuery{Limit: operate.AtMost(10_000)}
		if err := c.get(ctx, waveNamed{string(c.Wave)}.path(), &w, query); err != nil {
			return err
		}
		partners = nil
		for _, row := range w.Partners {
			partners = append(partners, operate.PartnerRef{Partner: row.Partner})
		}
	}
	var all []operate.ComparedBills
	differ, read, ended := 0, 0, false
	for i, p := range partners {
		if len(partners) > 1 {
			c.progressf("%d of %d partners", i, len(partners))
		}
		compared, err := c.compare(ctx, p, ids)
		if isRefusal(err) && len(partners) > 1 {
			printf(c.err, "%s: %v\n", p.Partner, linesOf(err))
			ended = true
			continue
		}
		if err != nil {
			return err
		}
		all = append(all, compared)
		for _, n := range compared.Bills {
			read += n
		}
		differ += compared.Bills[string(evidence.Differs)]
		if ended = ended || compared.Left > 0; ctx.Err() != nil {
			break
		}
	}
	c.progressf("")
	if err := showRows(c.out, c.JSON, "compare", all); err != nil {
		return err
	}
	switch {
	case differ > 0:
		return fmt.Errorf("%d of %d bills differ", differ, read)
	case ended:
		return errReported
	}
	return nil
}

// A perSecond is a rate such as 20/s or 20.
type perSecond int

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *perSecond) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(strings.TrimSuffix(string(text), "/s"))
	if *p = perSecond(n); err != nil || n < 1 || n > 100 {
		return fmt.Errorf("must be 1/s to 100/s, but is %q", text)
	}
	return nil
}

// compare compares the bills of a partner, until all are compared, the gateway stops, or ctx ends.
func (c *rolloutCompare) compare(
	ctx context.Context, p operate.PartnerRef, ids []string,
) (sum operate.ComparedBills, err error) {
	in := operate.BillsToCompare{PartnerRef: p, After: string(c.After), Rate: int(c.Rate)}
	sum.Bills, sum.Left = map[string]int{}, c.Bills
	given := c.IDs != ""
	if given {
		sum.Left = min(sum.Left, len(ids))
	}
	for done := 0; sum.Left > 0 && sum.Stopped == ""; {
		page := min(sum.Left, 10_000)
		if given { // no more than an answer has
			page = min(page, 3*int(c.Rate))
			in.IDs = strings.Join(ids[done:done+page], "\n")
		}
		in.Limit = operate.AtMost(page)
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
		done += now
		if sum.Left -= now; !given {
			sum.Left, in.After = min(r.Left, sum.Left), cmp.Or(r.Next, in.After)
		}
		c.progressf("%s: %d of %d bills", r.Label(), done, done+sum.Left)
		if now == 0 && sum.Left > 0 {
			sum.Stopped = cmp.Or(sum.Stopped, "no bill was read in time")
		}
	}
	if sum.Left > 0 && !given {
		sum.Next = in.After
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

// input returns the name and the text of a file, or of stdin for -.
func input(file string, stdin io.Reader) (name string, text []byte, err error) {
	if file == "-" {
		text, err = io.ReadAll(stdin)
		return "stdin", text, err
	}
	text, err = os.ReadFile(file)
	return file, text, err
}
