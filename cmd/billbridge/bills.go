package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"billbridge/proxy/rollout"
)

type billsCommand struct {
	List billsList `cmd:"" help:"List bills, or the writes of bills whose outcome is unknown."`
	Read billsRead `cmd:"" help:"Read one bill now at its owning backend."`
}

type billsList struct {
	adminFlags
	partnerFlags
	Bill    *string `placeholder:"ID" help:"The bill with this id."`
	Owner   string  `enum:",old,new" default:"" placeholder:"BACKEND" help:"Bills at the old or the new backend."`
	Open    bool    `help:"Bills that may still be open: not past their last day, and not seen destroyed or cancelled."`
	Outcome string  `enum:",unknown" default:"" placeholder:"unknown" help:"Writes that had no answer and may have been done, with what a read showed. A write leaves the list when a later read resolves it."`
	Limit   int     `default:"100" placeholder:"N" help:"At most so many (${default}); up to 10000."`
	JSON    bool    `name:"json" help:"One JSON object a line instead of a table."`
}

// Help implements kong's detailed help.
func (billsList) Help() string {
	return examples("billbridge bills list --outcome unknown", "billbridge bills list --owner old --open --partner 6e2b0f4cd1aa", "billbridge bills list --bill INV-1 --json") +
		"\n\nBills made before the gateway was there are not in its ledger. What was left out for --limit is counted on a last line, with --json on stderr."
}

// Run lists bills.
func (c *billsList) Run(ctx context.Context, s surroundings) error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", c.Limit))
	}
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	for key, value := range map[string]string{"owner": c.Owner, "outcome": c.Outcome} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if c.Open {
		q.Set("open", "true")
	}
	if c.Bill != nil {
		if *c.Bill == "" {
			return usageError("--bill is empty")
		}
		q.Set("bill", *c.Bill)
	}
	partner, err := c.ref()
	if err != nil {
		return err
	}
	if partner != "" {
		q.Set("partner", partner)
	}
	var list rollout.BillList
	if err := c.get(ctx, "/rollout/bills?"+q.Encode(), &list); err != nil {
		return err
	}
	counted := s.out
	if c.JSON {
		counted = s.err
		for _, line := range list.Bills {
			if err := json.NewEncoder(s.out).Encode(line); err != nil {
				return err
			}
		}
	} else if err := printBills(s.out, list.Bills, c.Outcome != ""); err != nil {
		return err
	}
	if list.LeftOut > 0 {
		fmt.Fprintf(counted, "%d more are left out: raise --limit, or name a partner, a bill or an owner.\n", list.LeftOut)
	}
	return nil
}

func printBills(out io.Writer, lines []rollout.BillLine, writes bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if writes {
		fmt.Fprintln(w, "AT\tWRITE\tPARTNER\tBILL\tOWNER\tLEDGER\tREAD\tREAD AT\tREQUEST")
	} else {
		fmt.Fprintln(w, "PARTNER\tBILL\tOWNER\tLEDGER\tSINCE\tENDS\tSEEN ENDED")
	}
	for _, l := range lines {
		if u := l.Write; u != nil {
			read := u.Finding
			if u.State != "" {
				read += ": state " + quoted(u.State)
			}
			if u.Amount != "" {
				read += ", amount " + quoted(u.Amount)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", clock(u.At), u.Operation, l.Partner, quoted(l.Bill), l.Owner,
				cmp.Or(l.State, "-"), read, clockOr(u.ReadAt), cmp.Or(u.Request, "cut off with its gateway"))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Partner, quoted(l.Bill), l.Owner, l.State, clockOr(l.Since), clockOr(l.Ends), clockOr(l.Ended))
	}
	return w.Flush()
}

// clockOr is a time, "-" if there is none.
func clockOr(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return clock(*t)
}

type billsRead struct {
	adminFlags
	askFlags
	ID   string `arg:"" placeholder:"ID" help:"The bill."`
	JSON bool   `name:"json" help:"JSON instead of lines."`
}

// Help implements kong's detailed help.
func (billsRead) Help() string {
	return examples("billbridge bills read INV-1 --partner 6e2b0f4cd1aa", "billbridge bills read INV-1 --key-file partner.key --merchant store-7") +
		"\n\nWhat the backend says is recorded in the ledger: a bill that is destroyed or cancelled is not open any more, and an unknown outcome is resolved once no write" +
		"\ncan be on its way. A bill without an owner is read at both backends. To see both backends in any case, or to decide" +
		"\nwhich one has a bill, there is billbridge rollout bill."
}

// Run reads a bill.
func (c *billsRead) Run(ctx context.Context, s surroundings) error {
	if c.ID == "" {
		return usageError("the id of the bill is empty")
	}
	q, body, err := c.ask(c.ID)
	if err != nil {
		return err
	}
	return showBill(ctx, s, &c.adminFlags, http.MethodPost, "/rollout/read?"+q.Encode(), body, c.JSON)
}
