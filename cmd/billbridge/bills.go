package main

import (
	"context"

	"billbridge/proxy/operate"
)

type billsCommand struct {
	List billsList `cmd:"" help:"List bills, or writes of bills with an unknown outcome."`
	Read billsRead `cmd:"" help:"Read one bill at its owning backend."`
}

type billsList struct {
	adminFlags
	partnerFlags
	Bill    given  `placeholder:"ID" help:"Only the bill with this id."`
	Owner   string `enum:",old,new" default:"" placeholder:"BACKEND" help:"Only bills that the old or the new backend owns."`
	Open    bool   `help:"Only bills that may still be open: not past their last day, and not seen destroyed or cancelled."`
	Outcome string `enum:",unknown" default:"" placeholder:"unknown" help:"List writes that had no answer and may have taken effect, with the result of the last read. A write is listed until a read resolves it."`
	Doubled bool   `help:"List bills that both backends have, each with the call that showed it. A bill is listed until billbridge rollout bill --assign sets its owner."`
	Limit   int    `default:"100" placeholder:"N" help:"The maximum number of rows (${default}), from 1 to 10000."`
	JSON    bool   `name:"json" help:"Print one JSON object per line instead of a table."`
}

// Run lists bills.
func (c *billsList) Run(ctx context.Context, s system) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	f := operate.BillFilter{
		Bill: string(c.Bill), Owner: c.Owner, Open: c.Open, Outcome: c.Outcome, Doubled: c.Doubled,
		Limit: operate.AtMost(c.Limit),
	}
	var err error
	if f.PartnerRef, err = c.partnerFlags.ref(); err != nil {
		return err
	}
	var list operate.BillList
	if err := c.get(ctx, "/rollout/bills", &list, f); err != nil {
		return err
	}
	name, summary := "bills", s.out
	if c.Outcome != "" || c.Doubled {
		name = "writes"
	}
	if c.JSON {
		summary = s.err
	}
	if err := showRows(s.out, c.JSON, name, list.Bills); err != nil {
		return err
	}
	if list.LeftOut > 0 {
		printf(summary, "%d more rows are not shown. To see them, raise --limit, or filter by --partner, --bill or "+
			"--owner.\n", list.LeftOut)
	}
	return nil
}

type billsRead struct {
	adminFlags
	billFlags
	ID   given `arg:"" placeholder:"ID" help:"The id of the bill."`
	JSON bool  `name:"json" help:"Print JSON instead of lines."`
}

// Run reads a bill.
func (c *billsRead) Run(ctx context.Context, s system) error {
	ref, err := c.ref(string(c.ID))
	if err != nil {
		return err
	}
	return showBill(ctx, s, &c.adminFlags, "/rollout/read", ref, c.JSON)
}
