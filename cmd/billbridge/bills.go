package main

import (
	"context"
	"net/http"
	"time"

	"billbridge/proxy/operate"
)

type billsCommand struct {
	List billsList `cmd:""`
	Read billsRead `cmd:""`

	Dismiss billsDismiss `cmd:""`
}

type billsList struct {
	adminFlags
	partnerFlags
	Bill    given  `placeholder:"ID"`
	Owner   string `enum:",old,new" default:"" placeholder:"BACKEND"`
	Open    bool
	Outcome string `enum:",unknown,unclear,resolved" default:"" placeholder:"OUTCOME"`
	Doubled bool
	Limit   int  `default:"100" placeholder:"N"`
	JSON    bool `name:"json"`
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
	Partner  given  `placeholder:"REF"`
	KeyFile  given  `placeholder:"FILE"`
	Member   string `placeholder:"NAME"`
	Merchant string `placeholder:"NAME"`
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
	ID     given `arg:"" optional:"" placeholder:"ID"`
	All    bool
	Assign string        `enum:",old,new" default:"" placeholder:"BACKEND"`
	Force  operate.Force `placeholder:"REASONS"`
	JSON   bool          `name:"json"`
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
		return c.rollout(ctx, "assign", operate.Assign{BillRef: ref, To: c.Assign}, operate.Decision{Force: c.Force})
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
	ID       given  `arg:"" placeholder:"ID"`
	Merchant string `placeholder:"NAME"`
}

// Run resolves the outcomes of a bill.
func (c *billsDismiss) Run(ctx context.Context, ref operate.PartnerRef) error {
	if ref.Partner == "" {
		return usageError("give one of --partner and --key-file")
	}
	d := operate.Dismissal{PartnerRef: ref, Bill: string(c.ID), Merchant: c.Merchant}
	return c.do(ctx, verb{path: "/rollout/dismiss", said: "dismissed"}, &operate.Dismissed{}, d)
}
