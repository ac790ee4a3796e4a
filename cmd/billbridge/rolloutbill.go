package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"

	"billbridge/proxy/operate"
)

// billFlags name the partner of a bill, and the credentials for reading the bill at a backend.
type billFlags struct {
	Partner  *string `placeholder:"REF" help:"The partner: at least the first 12 hex digits of the SHA-256 of its key."`
	KeyFile  *string `placeholder:"FILE" help:"The partner whose key is in this file. The command sends the key to the gateway, which needs it to read the bill if the partner has not called since the gateway started."`
	Member   string  `placeholder:"NAME" help:"The member to read the bill with. If omitted, that of the partner's first call."`
	Merchant string  `placeholder:"NAME" help:"The merchant to read the bill with. If omitted, that of the partner's first call."`
}

// ref returns the bill for package operate, with the key if --key-file is given.
func (f *billFlags) ref(bill string) (ref operate.BillRef, err error) {
	ref = operate.BillRef{Bill: bill, Member: f.Member, Merchant: f.Merchant}
	flags := partnerFlags{Partner: f.Partner, KeyFile: f.KeyFile}
	partner, err := flags.partner()
	switch {
	case err != nil:
		return ref, err
	case partner == "":
		return ref, usageError("give one of --partner and --key-file")
	case f.KeyFile == nil:
		ref.Partner = partner
		return ref, nil
	}
	text, err := os.ReadFile(*f.KeyFile) // partner has checked it
	ref.Key = trimLineEnd(text)
	return ref, err
}

type rolloutBill struct {
	decisionFlags
	billFlags
	Bill   string    `required:"" placeholder:"ID" help:"The id of the bill."`
	Assign string    `enum:",old,new" default:"" placeholder:"BACKEND" help:"Set the owner of the bill, for a bill that is at both backends: all later calls go to the old or the new backend."`
	Force  forceFlag `placeholder:"REASONS" help:"With --assign, not_at_both: set the owner although not both backends have the bill, or a backend cannot be read."`
	JSON   bool      `name:"json" help:"Print JSON instead of lines."`
}

// Help implements kong's detailed help.
func (rolloutBill) Help() string {
	return examples("billbridge rollout bill --partner 6e2b0f4cd1aa --bill INV-1", "billbridge rollout bill --key-file partner.key --bill INV-1 --merchant store-7",
		"billbridge rollout bill --partner 6e2b0f4cd1aa --bill INV-1 --assign old --by anna")
}

// Run shows a bill, or sets its owner.
func (c *rolloutBill) Run(ctx context.Context, s system) error {
	if len(c.Force) > 0 && c.Assign == "" {
		return usageError("--force requires --assign")
	}
	ref, err := c.ref(c.Bill)
	if err != nil {
		return err
	}
	if c.Assign != "" {
		a := operate.Assign{BillRef: ref, To: c.Assign}
		a.Force = operate.Force(c.Force)
		changed, err := c.change(ctx, s, "assign", &a, &a.Author)
		if err != nil {
			return err
		}
		printf(s.out, "The owner of bill %s of partner %s is now %s%s.\n", quoted(changed.Subject),
			operate.Label(changed.Partner, changed.Name), changed.To, forcedSuffix(changed.Forced, changed.Overridden...))
		return nil
	}
	return showBill(ctx, s, &c.adminFlags, "/rollout/bill", ref, c.JSON)
}

// showBill prints a bill as a path of the admin listener has it. With POST the key of the partner can be in the body.
func showBill(ctx context.Context, s system, admin *adminFlags, path string, ref operate.BillRef, asJSON bool) error {
	var b operate.Bill
	if err := admin.send(ctx, http.MethodPost, path, ref, &b); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(s.out).Encode(b)
	}
	return printBill(s.out, b)
}

func printBill(out io.Writer, b operate.Bill) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printf(w, "partner\t%s\nbill\t%s\n", operate.Label(b.Partner, b.Name), quoted(b.Bill))
	printf(w, "ledger\t%s\n", ledgerText(b.Ledger))
	if l := b.Ledger; l != nil && l.Ended != nil {
		printf(w, "ended\tseen destroyed or cancelled at %s\n", formatTime(*l.Ended))
	}
	found := 0
	for _, backend := range b.Backends {
		text := backend.Result
		if backend.State != "" {
			text += ": state " + quoted(backend.State)
			found++
		}
		if backend.Amount != "" {
			text += ", amount " + quoted(backend.Amount)
		}
		if backend.Code != "" {
			text += " (" + quoted(backend.Code) + ")"
		}
		printf(w, "%s\t%s\n", backend.Upstream, text)
	}
	if as := b.ReadAs; as != nil {
		printf(w, "read as\tmember %s, merchant %s\n", quoted(as.Member), quoted(as.Merchant))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case b.ReadAs == nil:
		printf(out, "\nThe backends were not read: the partner has not called this gateway since it started. Give the partner's key with --key-file.\n")
	case found == 2:
		printf(out, "\nBoth backends have this bill. Set its owner with --assign old or --assign new, and destroy or cancel the other bill at its backend.\n")
	}
	return nil
}

// ledgerText describes the row of a bill in the ledger.
func ledgerText(l *operate.LedgerBill) (text string) {
	if l == nil {
		return "not in the ledger: both backends are probed at the next call"
	}
	switch l.State {
	case "owned":
		text = fmt.Sprintf("owned by %s since %s", l.Owner, formatOptionalTime(l.Since))
	case "pending":
		text = fmt.Sprintf("pending at %s since %s: a create may have been sent there", l.Owner, formatOptionalTime(l.Since))
	default:
		text = fmt.Sprintf("released at %s: no create had an effect, and the bill has no owner", formatOptionalTime(l.Since))
	}
	if l.Open > 0 {
		text += fmt.Sprintf("; creates under way or interrupted: %d", l.Open)
	}
	if l.Unknown {
		text += "; a create had an unknown outcome or was refused because the id exists"
	}
	return text
}
