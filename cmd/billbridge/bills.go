package main

import (
	"context"
	"net/http"
	"time"

	"billbridge/proxy/operate"
)

type billsCommand struct {
	List billsList `cmd:"" help:"List bills, or those with a write whose outcome is unknown."`
	Read billsRead `cmd:"" help:"Read a bill at both backends, and set its owner if you say so; or read the bills of all writes with an unknown outcome."`

	Dismiss billsDismiss `cmd:"" help:"Dismiss the unknown outcomes of a bill, which you know from elsewhere."`
}

type billsList struct {
	adminFlags
	partnerFlags
	Bill    given  `placeholder:"ID" help:"Only the bill with this id."`
	Owner   string `enum:",old,new" default:"" placeholder:"BACKEND" help:"Only bills that the old or the new backend owns."`
	Open    bool   `help:"Only bills that may still be open: not past their last day, and not seen destroyed or cancelled."`
	Outcome string `enum:",unknown,unclear,resolved" default:"" placeholder:"OUTCOME" help:"List bills with a write that had no answer, in a line for each such write, with the result of the last read. unknown: it may have taken effect, and no read has resolved the outcome. unclear: those of them that the gateway's reads of the first hour have not resolved. resolved: a read has resolved the outcome in the last 30 days."`
	Doubled bool   `help:"List bills that both backends have, each with the call that showed it. A bill is listed until billbridge bills read --assign sets its owner."`
	Limit   int    `default:"100" placeholder:"N" help:"The maximum number of bills (${default}), from 1 to 10000."`
	JSON    bool   `name:"json" help:"Print one JSON object per line instead of a table."`
}

// Run lists bills.
func (c *billsList) Run(ctx context.Context, partner operate.PartnerRef) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	f := operate.BillFilter{
		PartnerRef: partner, Bill: string(c.Bill), Owner: c.Owner, Open: c.Open, Outcome: c.Outcome, Doubled: c.Doubled,
		Limit: operate.AtMost(c.Limit),
	}
	var list operate.BillList
	if err := c.get(ctx, "/rollout/bills", &list, f); err != nil {
		return err
	}
	name, summary := "bills", c.out
	if c.Outcome != "" || c.Doubled {
		name = "writes"
	}
	if c.JSON {
		summary = c.err
	}
	if err := showRows(c.out, c.JSON, name, list.Bills); err != nil {
		return err
	}
	if list.LeftOut > 0 {
		printf(summary, "Bills that are not shown: %d. To see them, raise --limit, or filter by --partner, --bill or "+
			"--owner.\n", list.LeftOut)
	}
	return nil
}

// billFlags name the partner of a bill, and the credentials for reading the bill at a backend.
type billFlags struct {
	Partner  given  `placeholder:"REF" help:"The partner: its name in the config, or at least the first 12 hex digits of the SHA-256 of its key, as in logs and reports."`
	KeyFile  given  `placeholder:"FILE" help:"The partner whose key is in this file. The command sends the key to the gateway, which needs it to read the bill if the partner has not called since the gateway started."`
	Member   string `placeholder:"NAME" help:"The member to read the bill with. If omitted, that of a write of the bill with an unknown outcome, or of the partner's first call."`
	Merchant string `placeholder:"NAME" help:"The merchant to read the bill with. If omitted, that of a write of the bill with an unknown outcome, of the bill in the ledger, or of the partner's first call."`
}

// ref returns the bill for package operate, with the key if --key-file is given.
func (f *billFlags) ref(bill string) (ref operate.BillRef, err error) {
	ref = operate.BillRef{Bill: bill, Member: f.Member, Merchant: f.Merchant}
	flags := partnerFlags{Partner: f.Partner, KeyFile: f.KeyFile}
	switch ref.PartnerRef, err = flags.ProvidePartner(); {
	case err != nil:
		return ref, err
	case ref.Partner == "":
		return ref, usageError("give one of --partner and --key-file")
	case f.KeyFile != "":
		ref.Partner = ""
		ref.Key, err = readKey(string(f.KeyFile))
	}
	return ref, err
}

type billsRead struct {
	decisionFlags
	billFlags
	ID     given         `arg:"" optional:"" placeholder:"ID" help:"The id of the bill."`
	All    bool          `help:"Read the bills of all writes with an unknown outcome, of all partners or of one."`
	Assign string        `enum:",old,new" default:"" placeholder:"BACKEND" help:"Set the owner of the bill, for a bill that is at both backends: all later calls go to the old or the new backend."`
	Force  operate.Force `placeholder:"REASONS" help:"With --assign, not_at_both: set the owner although not both backends have the bill, or a backend cannot be read."`
	JSON   bool          `name:"json" help:"Print JSON instead of lines."`
}

// Run reads a bill, or those of all writes with an unknown outcome, or sets the owner of a bill.
func (c *billsRead) Run(ctx context.Context) error {
	switch {
	case c.All == (c.ID != ""):
		return usageError("give one of: the id of a bill, and --all")
	case c.All && c.Assign != "":
		return usageError("--assign is for one bill")
	case len(c.Force) > 0 && c.Assign == "":
		return usageError("--force requires --assign")
	case c.All:
		return c.readAll(ctx)
	}
	ref, err := c.ref(string(c.ID))
	if err != nil {
		return err
	}
	if c.Assign != "" {
		return c.change(ctx, "assign", operate.Assign{BillRef: ref, To: c.Assign}, operate.Decision{Force: c.Force})
	}
	var b operate.Bill
	if err := c.send(ctx, http.MethodPost, "/rollout/read", &b, ref); err != nil {
		return err
	}
	return showOrJSON(c.out, c.JSON, "bill", b)
}

// giveUpAfter is how long the command waits for the next read of a gateway.
const giveUpAfter = 20 * time.Second

// readAll makes the gateways read all bills, and shows how far they are.
func (c *billsRead) readAll(ctx context.Context) error {
	if c.Member != "" || c.Merchant != "" || c.KeyFile != "" {
		return usageError("--all reads each bill with the member and the merchant of its write: " +
			"--member, --merchant and --key-file are for one bill")
	}
	of := operate.PartnerRef{Partner: reference(c.Partner)}
	var first, now operate.Reads
	if err := c.send(ctx, http.MethodPost, "/rollout/read-all", &first, of); err != nil {
		return err
	}
	if first.Unknown == 0 {
		printf(c.out, "No write has an unknown outcome.\n")
		return nil
	}
	now = first
	for changed := time.Now(); now.Due > 0 && time.Since(changed) < giveUpAfter; {
		c.progressf("%d of %d read", first.Due-now.Due, first.Due)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		was := now.Due
		if err := c.get(ctx, "/rollout/reads", &now, of); err != nil {
			return err
		}
		if now.Due != was {
			changed = time.Now()
		}
	}
	c.progressf("")
	return show(c.out, "reads", struct {
		operate.Reads
		All, Read, Resolved int
	}{now, first.Due, max(0, first.Due-now.Due), max(0, first.Unknown-now.Unknown)})
}

type billsDismiss struct {
	decisionFlags
	partnerFlags
	ID       given  `arg:"" placeholder:"ID" help:"The id of the bill."`
	Merchant string `placeholder:"NAME" help:"Only the outcomes of this merchant. It can be omitted if all are of one."`
}

// Run resolves the outcomes of a bill.
func (c *billsDismiss) Run(ctx context.Context, ref operate.PartnerRef) error {
	if ref.Partner == "" {
		return usageError("give one of --partner and --key-file")
	}
	var n operate.Dismissed
	d := operate.Dismissal{PartnerRef: ref, Bill: string(c.ID), Merchant: c.Merchant}
	if err := c.post(ctx, "/rollout/dismiss", &n, d); err != nil {
		return err
	}
	printf(c.out, "Outcomes dismissed: %d.\n", n.Writes)
	return nil
}
