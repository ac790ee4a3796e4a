package main

import (
	"context"
	"net/http"

	"billbridge/proxy/operate"
)

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

type rolloutBill struct {
	decisionFlags
	billFlags
	Bill   string        `required:"" placeholder:"ID" help:"The id of the bill."`
	Assign string        `enum:",old,new" default:"" placeholder:"BACKEND" help:"Set the owner of the bill, for a bill that is at both backends: all later calls go to the old or the new backend."`
	Force  operate.Force `placeholder:"REASONS" help:"With --assign, not_at_both: set the owner although not both backends have the bill, or a backend cannot be read."`
	JSON   bool          `name:"json" help:"Print JSON instead of lines."`
}

// Run shows a bill, or sets its owner.
func (c *rolloutBill) Run(ctx context.Context) error {
	if len(c.Force) > 0 && c.Assign == "" {
		return usageError("--force requires --assign")
	}
	ref, err := c.ref(c.Bill)
	if err != nil {
		return err
	}
	if c.Assign != "" {
		return c.change(ctx, "assign", operate.Assign{BillRef: ref, To: c.Assign}, operate.Decision{Force: c.Force})
	}
	return c.showBill(ctx, "/rollout/bill", ref, c.JSON)
}

// showBill prints a bill as a path of the admin listener has it. With POST the key of the partner can be in the body.
func (a *adminFlags) showBill(ctx context.Context, path string, ref operate.BillRef, asJSON bool) error {
	var b operate.Bill
	if err := a.send(ctx, http.MethodPost, path, &b, ref); err != nil {
		return err
	}
	return showOrJSON(a.out, asJSON, "bill", b)
}
