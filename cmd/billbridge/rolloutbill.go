package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"billbridge/proxy/rollout"
)

// askFlags say of which partner a bill is, and in whose name the backends are asked for it.
type askFlags struct {
	Partner  *string `placeholder:"REF" help:"The partner: at least the first 12 hex digits of the SHA-256 of its key."`
	KeyFile  *string `placeholder:"FILE" help:"The partner whose key is in this file. Here the key is sent to the gateway, which asks the backends with it: wanted if the partner has not called since the gateway started."`
	Member   string  `placeholder:"NAME" help:"The partner's user in whose name the backends are asked; if left out, that of its first call."`
	Merchant string  `placeholder:"NAME" help:"The partner's store, the same."`
}

// ask is what the admin listener is asked about a bill, and the body that has the partner's key, nil without one.
func (f *askFlags) ask(bill string) (q url.Values, body []byte, err error) {
	q = url.Values{"bill": {bill}}
	for key, value := range map[string]string{"member": f.Member, "merchant": f.Merchant} {
		if value != "" {
			q.Set(key, value)
		}
	}
	named := partnerFlags{Partner: f.Partner, KeyFile: f.KeyFile}
	ref, err := named.ref()
	switch {
	case err != nil:
		return nil, nil, err
	case ref == "":
		return nil, nil, usageError("say which partner: --partner or --key-file")
	case f.KeyFile == nil:
		q.Set("partner", ref)
		return q, nil, nil
	}
	key, err := os.ReadFile(*f.KeyFile) // ref has looked at it
	if err != nil {
		return nil, nil, err
	}
	body, err = json.Marshal(map[string]string{"key": strings.TrimSuffix(strings.TrimSuffix(string(key), "\n"), "\r")})
	return q, body, err
}

type rolloutBill struct {
	decisionFlags
	askFlags
	Bill   string `required:"" placeholder:"ID" help:"The bill."`
	Assign string `enum:",old,new" default:"" placeholder:"SIDE" help:"Decide that the bill is at the old or the new backend: every call about it goes there from then on. For a bill that both have."`
	Force  bool   `help:"With --assign, also if not both backends have the bill, or they cannot be asked."`
	JSON   bool   `name:"json" help:"JSON instead of lines."`
}

// Help implements kong's detailed help.
func (rolloutBill) Help() string {
	return examples("billbridge rollout bill --partner 6e2b0f4cd1aa --bill INV-1", "billbridge rollout bill --key-file partner.key --bill INV-1 --merchant store-7",
		"billbridge rollout bill --partner 6e2b0f4cd1aa --bill INV-1 --assign old --by anna")
}

// Run shows a bill, or decides where it is.
func (c *rolloutBill) Run(ctx context.Context, s surroundings) error {
	if c.Force && c.Assign == "" {
		return usageError("--force goes with --assign")
	}
	q, body, err := c.ask(c.Bill)
	if err != nil {
		return err
	}
	if c.Assign != "" {
		q.Set("to", c.Assign)
		made, err := c.decideWith(ctx, s, "assign", forcing(c.Force, q), body)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "Bill %s of partner %s is at %s from now on%s.\n", quoted(made.Subject), made.Partner, made.To, forced(made.Forced))
		return nil
	}
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	return showBill(ctx, s, &c.adminFlags, method, "/rollout/bill?"+q.Encode(), body, c.JSON)
}

// showBill prints what the admin listener says of a bill.
func showBill(ctx context.Context, s surroundings, admin *adminFlags, method, path string, body []byte, asJSON bool) error {
	var b rollout.Bill
	if err := admin.callWith(ctx, method, path, body, func(r io.Reader) error { return json.NewDecoder(r).Decode(&b) }); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(s.out).Encode(b)
	}
	return printBill(s.out, b)
}

func printBill(out io.Writer, b rollout.Bill) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "partner\t%s\nbill\t%s\n", b.Partner, quoted(b.Bill))
	ledger := "does not have it: both backends are asked at its next call"
	if l := b.Ledger; l != nil {
		switch l.State {
		case "owned":
			ledger = fmt.Sprintf("owned by %s since %s", l.Owner, clock(l.Since))
		case "pending":
			ledger = fmt.Sprintf("pending at %s since %s: a create may have been sent there", l.Owner, clock(l.Since))
		default:
			ledger = fmt.Sprintf("released at %s: no create of it had an effect, and it has no owner", clock(l.Since))
		}
		if l.Open > 0 {
			ledger += fmt.Sprintf("; %d creates under way or cut off", l.Open)
		}
		if l.Unknown {
			ledger += "; a create had an unknown outcome, or found the id taken"
		}
	}
	fmt.Fprintf(w, "ledger\t%s\n", ledger)
	if l := b.Ledger; l != nil && l.Ended != nil {
		fmt.Fprintf(w, "ended\tseen destroyed or cancelled at %s\n", clock(*l.Ended))
	}
	has := 0
	for _, backend := range b.Backends {
		says := backend.Finding
		if backend.State != "" {
			says += ": state " + quoted(backend.State)
			has++
		}
		if backend.Amount != "" {
			says += ", amount " + quoted(backend.Amount)
		}
		if backend.Code != "" {
			says += " (" + quoted(backend.Code) + ")"
		}
		fmt.Fprintf(w, "%s\t%s\n", backend.Upstream, says)
	}
	if as := b.AskedAs; as != nil {
		fmt.Fprintf(w, "asked as\tmember %s, merchant %s\n", quoted(as.Member), quoted(as.Merchant))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case b.AskedAs == nil:
		fmt.Fprintln(out, "\nThe backends were not asked: the partner has not called this gateway since it started. Give its key with --key-file.")
	case has == 2:
		fmt.Fprintln(out, "\nBoth backends have this bill. Decide which one counts with --assign old or --assign new, and destroy or cancel the other one at its backend.")
	}
	return nil
}

// quoted is a text of a partner or a backend as a terminal can show it.
func quoted(text string) string {
	if q := fmt.Sprintf("%q", text); text == "" || q != `"`+text+`"` {
		return q
	}
	return text
}

type storeCommand struct {
	Backup storeBackup `cmd:"" help:"Copy an SQLite store to a new file, while the gateway runs."`
	Clock  storeClock  `cmd:"" help:"Compare the machine's clock with the one that the store knows, and confirm it."`
}

type storeClock struct {
	decisionFlags
	Confirm bool `help:"The machine's clock, or PostgreSQL's, is right: remove by it from now on what is over."`
}

// Help implements kong's detailed help.
func (storeClock) Help() string {
	return examples("billbridge store clock", "billbridge store clock --confirm --by anna") +
		"\n\nRows of bills and callback addresses are removed from the store some time after they are over. A clock that is wrong by years would remove" +
		"\nall of them, so the store keeps a clock of its own, which runs only while a gateway runs. If the two differ by more than a day, nothing is removed."
}

// Run shows the clock, or confirms it.
func (c *storeClock) Run(ctx context.Context, s surroundings) error {
	method, path := http.MethodGet, "/store/clock"
	if c.Confirm {
		by, err := c.decider(s)
		if err != nil {
			return err
		}
		method, path = http.MethodPost, path+"?"+url.Values{"by": {by}}.Encode()
	}
	var clocks rollout.Clock
	if err := c.call(ctx, method, path, func(r io.Reader) error { return json.NewDecoder(r).Decode(&clocks) }); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "store    %s\nmachine  %s\n", clock(clocks.Store), clock(clocks.Machine()))
	switch {
	case clocks.Stepped:
		fmt.Fprintln(s.out, "They differ by more than a day, and nothing is removed from the store. If the machine's clock is right: billbridge store clock --confirm")
	case c.Confirm:
		fmt.Fprintln(s.out, "Confirmed: what is over is removed by the machine's clock.")
	}
	return nil
}

// decider is who decides, for the audit log.
func (f *decisionFlags) decider(s surroundings) (string, error) {
	by, given := s.env("USER")
	switch {
	case f.By != nil && *f.By == "":
		return "", usageError("--by is empty")
	case f.By != nil:
		return *f.By, nil
	case !given || by == "":
		return "", usageError("say who decides with --by: the environment has no USER")
	}
	return by, nil
}
