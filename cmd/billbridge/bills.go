package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"text/tabwriter"

	"billbridge/proxy/operate"
)

type billsCommand struct {
	List billsList `cmd:"" help:"List bills, or writes of bills with an unknown outcome."`
	Read billsRead `cmd:"" help:"Read one bill at its owning backend."`
}

type billsList struct {
	adminFlags
	partnerFlags
	Bill    *string `placeholder:"ID" help:"Only the bill with this id."`
	Owner   string  `enum:",old,new" default:"" placeholder:"BACKEND" help:"Only bills that the old or the new backend owns."`
	Open    bool    `help:"Only bills that may still be open: not past their last day, and not seen destroyed or cancelled."`
	Outcome string  `enum:",unknown" default:"" placeholder:"unknown" help:"List writes that had no answer and may have taken effect, with the result of the last read. A write is listed until a read resolves it."`
	Doubled bool    `help:"List bills that both backends have, each with the call that showed it. A bill is listed until billbridge rollout bill --assign sets its owner."`
	Limit   int     `default:"100" placeholder:"N" help:"The maximum number of rows (${default}), from 1 to 10000."`
	JSON    bool    `name:"json" help:"Print one JSON object per line instead of a table."`
}

// Help implements kong's detailed help.
func (billsList) Help() string {
	return examples("billbridge bills list --outcome unknown", "billbridge bills list --doubled", "billbridge bills list --owner old --open --partner 6e2b0f4cd1aa", "billbridge bills list --bill INV-1 --json") +
		"\n\nThe ledger does not have bills that were created before the gateway was in use. If there are more rows than --limit, the" +
		"\nlast line says how many; with --json it is on stderr."
}

// Run lists bills.
func (c *billsList) Run(ctx context.Context, s system) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	f := operate.BillFilter{Owner: c.Owner, Open: c.Open, Outcome: c.Outcome, Doubled: c.Doubled, Limit: operate.AtMost(c.Limit)}
	if c.Bill != nil {
		if f.Bill = *c.Bill; f.Bill == "" {
			return usageError("--bill is empty")
		}
	}
	var err error
	if f.PartnerRef, err = c.partnerFlags.ref(); err != nil {
		return err
	}
	var list operate.BillList
	if err := c.get(ctx, "/rollout/bills", f, &list); err != nil {
		return err
	}
	summary := s.out
	if c.JSON {
		summary = s.err
		for _, line := range list.Bills {
			if err := json.NewEncoder(s.out).Encode(line); err != nil {
				return err
			}
		}
	} else if err := printBills(s.out, list.Bills, c.Outcome != "" || c.Doubled); err != nil {
		return err
	}
	if list.LeftOut > 0 {
		printf(summary, "%d more rows are not shown. To see them, raise --limit, or filter by --partner, --bill or --owner.\n", list.LeftOut)
	}
	return nil
}

func printBills(out io.Writer, lines []operate.BillLine, writes bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if writes {
		printf(w, "AT\tWRITE\tPARTNER\tBILL\tOWNER\tLEDGER\tREAD\tREAD AT\tREQUEST\n")
	} else {
		printf(w, "PARTNER\tBILL\tOWNER\tLEDGER\tSINCE\tENDS\tSEEN ENDED\n")
	}
	for _, l := range lines {
		if u := l.Write; u != nil {
			read := u.Result
			if u.State != "" {
				read += ": state " + quoted(u.State)
			}
			if u.Amount != "" {
				read += ", amount " + quoted(u.Amount)
			}
			printf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", formatTime(u.At), u.Operation,
				operate.Label(l.Partner, l.Name), quoted(l.Bill), cmp.Or(l.Owner, "-"), cmp.Or(l.State, "-"), read, formatOptionalTime(u.ReadAt), cmp.Or(u.Request, "not known, the gateway ended"))
			continue
		}
		printf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", operate.Label(l.Partner, l.Name), quoted(l.Bill), l.Owner, l.State,
			formatOptionalTime(l.Since), formatOptionalTime(l.Ends), formatOptionalTime(l.Ended))
	}
	return w.Flush()
}

type billsRead struct {
	adminFlags
	billFlags
	ID   string `arg:"" placeholder:"ID" help:"The id of the bill."`
	JSON bool   `name:"json" help:"Print JSON instead of lines."`
}

// Help implements kong's detailed help.
func (billsRead) Help() string {
	return examples("billbridge bills read INV-1 --partner 6e2b0f4cd1aa", "billbridge bills read INV-1 --key-file partner.key --merchant store-7") +
		"\n\nThe ledger records the result: a destroyed or cancelled bill is no longer open, and an unknown outcome is resolved when no" +
		"\nwrite can still be under way. A bill without an owner is read at both backends. To read every bill at both, or to set the" +
		"\nowner of a bill, run billbridge rollout bill."
}

// Run reads a bill.
func (c *billsRead) Run(ctx context.Context, s system) error {
	if c.ID == "" {
		return usageError("the bill id is empty")
	}
	ref, err := c.ref(c.ID)
	if err != nil {
		return err
	}
	return showBill(ctx, s, &c.adminFlags, "/rollout/read", ref, c.JSON)
}
