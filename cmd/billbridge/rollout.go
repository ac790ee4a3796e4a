package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
)

type rolloutCommand struct {
	Status   rolloutStatus   `cmd:"" help:"Show the backends, the kill switch, and the stage of every partner."`
	Report   rolloutReport   `cmd:"" help:"Show comparisons, counts and verdicts: the evidence for the next stage."`
	Next     rolloutNext     `cmd:"" help:"Move a partner to the next stage."`
	Set      rolloutSet      `cmd:"" help:"Set the stage of a partner, or the default stage."`
	Unset    rolloutUnset    `cmd:"" help:"Remove the stage of a partner, so that the default applies; or the default stage, so that the config's applies."`
	Stop     rolloutStop     `cmd:"" help:"Turn the kill switch on: the new bills of all partners are created at the old backend."`
	Resume   rolloutResume   `cmd:"" help:"Turn the kill switch off: the stages apply again."`
	Begin    rolloutBegin    `cmd:"" help:"Declare, on a new store, that the new backend has no bills of these partners."`
	Bill     rolloutBill     `cmd:"" help:"Show a bill: its owner, its state, and a read at both backends. Or set its owner."`
	Moved    rolloutMoved    `cmd:"" help:"Allow one change of the URL of a backend that has bills."`
	Restored rolloutRestored `cmd:"" help:"Declare that the store was restored from a backup."`
	Reset    rolloutReset    `cmd:"" help:"Start the counts of the report again, after the cause of a FAIL is fixed."`
	Audit    auditCommand    `cmd:"" help:"List who changed what, the last change first."`
}

// partnerFlags name a partner.
type partnerFlags struct {
	Partner *string `placeholder:"REF" help:"The partner: at least the first 12 hex digits of the SHA-256 of its key, as in logs and reports."`
	KeyFile *string `placeholder:"FILE" help:"The partner whose key is in this file. The command sends the hash, not the key."`
}

// partner returns the partner as the admin listener expects it, or "" if none is named. It neither sends nor prints a
// --partner that is not a hash: it could be a key.
func (f *partnerFlags) partner() (string, error) {
	switch {
	case f.Partner != nil && f.KeyFile != nil:
		return "", usageError("--partner and --key-file cannot be combined")
	case f.KeyFile != nil:
		id, err := hashKeyFile(*f.KeyFile)
		return string(id), err
	case f.Partner == nil:
		return "", nil
	}
	if _, ok := partner.Parse(*f.Partner); !ok {
		return "", usageError("--partner must be 12 to 64 lower-case hex digits of the SHA-256 of the partner's key. To give the key, use --key-file")
	}
	return *f.Partner, nil
}

// ref returns the partner for package operate, of all if none is named.
func (f *partnerFlags) ref() (operate.PartnerRef, error) {
	partner, err := f.partner()
	return operate.PartnerRef{Partner: partner}, err
}

// target returns the one partner that a change is for, or all if the flag --NAME is given, which stands for many.
func (f *partnerFlags) target(name string, given bool, all string) (operate.PartnerRef, error) {
	if named := f.Partner != nil || f.KeyFile != nil; named == given {
		return operate.PartnerRef{}, usageError("give one of --partner, --key-file and --" + name)
	}
	if given {
		return operate.PartnerRef{Partner: all}, nil
	}
	return f.ref()
}

// maxKeyFile bounds the size of a key file, in bytes.
const maxKeyFile = 64 << 10

// hashKeyFile returns the hash of the key in a file.
func hashKeyFile(file string) (partner.ID, error) {
	if file == "" {
		return "", usageError("--key-file is empty")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return "", err
	}
	key := trimLineEnd(text)
	switch {
	case len(text) > maxKeyFile:
		return "", fmt.Errorf("%s is larger than 64 KiB: the file must have the key alone", file)
	case key == "":
		return "", fmt.Errorf("%s is empty: the file must have the key alone", file)
	case strings.Contains(key, "\n"):
		return "", fmt.Errorf("%s has more than one line: the file must have the key alone", file)
	}
	return partner.Of(key), nil
}

// trimLineEnd removes one line end, which editors add. Everything else belongs to the key.
func trimLineEnd(text []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
}

type rolloutSet struct {
	decisionFlags
	partnerFlags
	Default bool      `help:"Set the default stage, for all partners without a stage of their own, also for new ones."`
	Stage   string    `required:"" enum:"old,shadow,canary,new,drained" placeholder:"STAGE" help:"The stage: old, shadow, canary, new or drained."`
	Percent *int      `placeholder:"N" help:"Required with canary: the percentage of the partner's new bills that are created at the new backend, 0 to 100. With rollout.split: merchant, the percentage of its merchants."`
	Force   forceFlag `placeholder:"REASONS" help:"Change the stage although there are these reasons against it. Without --force the command prints them with their names."`
}

// Help implements kong's detailed help.
func (rolloutSet) Help() string {
	return examples("billbridge rollout set --partner 6e2b0f4cd1aa --stage canary --percent 10", "billbridge rollout set --key-file partner.key --stage new",
		"billbridge rollout set --default --stage shadow") +
		"\n\nThe stages in their order: old; shadow (old, and reads are compared); canary (some new bills are created at the new backend);" +
		"\nnew; drained (new, and the old backend is not used any more). No stage moves an existing bill." +
		"\n\nReasons against a change: the settling period of the partner is not over, the report has no PASS, the backend cannot carry" +
		"\ncalls that the partner makes, or a partner to be drained has bills at the old backend that may be open."
}

// Run sets a stage.
func (c *rolloutSet) Run(ctx context.Context, s system) error {
	partner, err := c.target("default", c.Default, operate.Default)
	switch {
	case err != nil:
		return err
	case (c.Percent != nil) != (c.Stage == string(rollout.StageCanary)):
		return usageError("--percent is required with --stage canary, and not allowed with other stages")
	case c.Percent != nil && (*c.Percent < 0 || *c.Percent > 100):
		return usageError(fmt.Sprintf("--percent must be 0 to 100, but is %d", *c.Percent))
	}
	m := operate.Move{PartnerRef: partner, Stage: rollout.Stage(c.Stage), Percent: c.Percent}
	m.Force = operate.Force(c.Force)
	changed, err := c.change(ctx, s, "stage", &m, &m.Author)
	if err != nil {
		return err
	}
	printStage(s, changed)
	return nil
}

// printStage prints a change of a stage.
func printStage(s system, changed operate.Change) {
	printf(s.out, "%s: %s, was %s%s\n", operate.Label(changed.Partner, changed.Name), changed.New(), changed.Old(),
		forcedSuffix(changed.Forced, changed.Overridden...))
	printEffect(s, changed)
}

// printEffect prints the warning of a change, and its effect on new bills.
func printEffect(s system, changed operate.Change) {
	if changed.Warning != "" {
		printf(s.err, "Warning: %s.\n", changed.Warning)
	}
	if e := changed.Effect; e != nil {
		printf(s.out, "At the new backend: %s.\n", e)
		if p := *changed.ToPercent; e.Bills > 0 && e.Percent != p && (e.Percent == 0 || e.Percent == 100) {
			printf(s.out, "With rollout.split: merchant, all bills of a merchant go to one backend. To divide them, set rollout.split: bill in the config.\n")
		}
	}
}

type rolloutUnset struct {
	decisionFlags
	partnerFlags
	Default bool      `help:"Remove the default stage that was set, so that the config's applies."`
	Force   forceFlag `placeholder:"REASONS" help:"Change the stage although there are these reasons against it. Without --force the command prints them with their names."`
}

// Help implements kong's detailed help.
func (rolloutUnset) Help() string { return examples("billbridge rollout unset --partner 6e2b0f4cd1aa") }

// Run removes a stage.
func (c *rolloutUnset) Run(ctx context.Context, s system) error {
	partner, err := c.target("default", c.Default, operate.Default)
	if err != nil {
		return err
	}
	u := operate.Unset{PartnerRef: partner}
	u.Force = operate.Force(c.Force)
	changed, err := c.change(ctx, s, "unset", &u, &u.Author)
	if err != nil {
		return err
	}
	printf(s.out, "%s: follows %s, was %s%s\n", operate.Label(changed.Partner, changed.Name), changed.New(), changed.Old(),
		forcedSuffix(changed.Forced, changed.Overridden...))
	printEffect(s, changed)
	return nil
}

type rolloutStop struct {
	decisionFlags
	Force forceFlag `placeholder:"REASONS" help:"Stop although there are these reasons against it: calls (the old backend cannot carry calls that partners make), restored."`
}

// Help implements kong's detailed help.
func (rolloutStop) Help() string {
	return examples("billbridge rollout stop", "billbridge rollout stop --by anna --force calls") +
		"\n\nExisting bills stay at their backends. The stages are kept, and billbridge rollout resume applies them again. While stopped," +
		"\nthe gateway does not probe the new backend before a bill is created."
}

// Run turns the kill switch on.
func (c *rolloutStop) Run(ctx context.Context, s system) error {
	d := operate.Decision{Force: operate.Force(c.Force)}
	changed, err := c.change(ctx, s, "stop", &d, &d.Author)
	switch {
	case err != nil:
		return err
	case changed.Already:
		printf(s.out, "Already stopped at %s by %s: new bills are created at the old backend.\n", formatTime(changed.At), changed.By)
		return nil
	}
	if changed.Unstored != "" {
		return fmt.Errorf("stopped on this gateway only, which creates new bills at the old backend. The store did not record it: %s\n"+
			"The gateway retries every second. Until the store has recorded it, other gateways are not stopped, and a restart of this one ends it", changed.Unstored)
	}
	printf(s.out, "Stopped: new bills are created at the old backend.\n")
	return nil
}

type rolloutBegin struct {
	decisionFlags
	Force forceFlag `placeholder:"REASONS" help:"bills_at_new: begin although the ledger of the new store already has bills at the new backend."`
}

// Help implements kong's detailed help.
func (rolloutBegin) Help() string {
	return examples("billbridge rollout begin --by anna") +
		"\n\nA new store may replace one that was lost. Until this command is run, both backends are probed for every bill that is not in" +
		"\nthe ledger, and creates of such bills are refused during the settling period. If there was a store before, do not run this command:" +
		"\nrestore the store from its backup, and run billbridge rollout restored."
}

// Run begins the rollout.
func (c *rolloutBegin) Run(ctx context.Context, s system) error {
	d := operate.Decision{Force: operate.Force(c.Force)}
	changed, err := c.change(ctx, s, "begin", &d, &d.Author)
	if err != nil {
		return err
	}
	printf(s.out, "Begun%s: bills that are not in the ledger are not at the new backend.\n", forcedSuffix(changed.Forced, changed.Overridden...))
	return nil
}

type rolloutMoved struct {
	decisionFlags
	Upstream string `arg:"" placeholder:"NAME" help:"The name of the upstream in the config."`
}

// Help implements kong's detailed help.
func (rolloutMoved) Help() string {
	return examples("billbridge rollout moved old --by anna") +
		"\n\nFor a backend that keeps its bills and gets another URL. The command allows one change within 24 hours: change the url in the" +
		"\nconfig and reload."
}

// Run allows the change.
func (c *rolloutMoved) Run(ctx context.Context, s system) error {
	m := operate.MovedUpstream{Upstream: c.Upstream}
	changed, err := c.change(ctx, s, "moved", &m, &m.Author)
	if err != nil {
		return err
	}
	printf(s.out, "The url of upstream %s may change once until %s. Change it in the config, and reload.\n", changed.Subject, formatTime(changed.At.Add(24*time.Hour)))
	return nil
}

type rolloutReset struct {
	decisionFlags
	partnerFlags
	All   bool      `help:"Reset the counts of all partners."`
	Force forceFlag `placeholder:"REASONS" help:"verdict: reset although a verdict is FAIL, because its cause is fixed."`
}

// Help implements kong's detailed help.
func (rolloutReset) Help() string {
	return examples("billbridge rollout reset --partner 6e2b0f4cd1aa", "billbridge rollout reset --all") +
		"\n\nOther gateways on the same store may still add what they counted in the last seconds."
}

// Run resets counts.
func (c *rolloutReset) Run(ctx context.Context, s system) error {
	partner, err := c.target("all", c.All, operate.All)
	if err != nil {
		return err
	}
	r := operate.Reset{PartnerRef: partner}
	r.Force = operate.Force(c.Force)
	changed, err := c.change(ctx, s, "reset", &r, &r.Author)
	if err != nil {
		return err
	}
	printf(s.out, "%s: the counts of the report start again\n", operate.Label(changed.Partner, changed.Name))
	return nil
}

type rolloutResume struct{ decisionFlags }

// Help implements kong's detailed help.
func (rolloutResume) Help() string { return examples("billbridge rollout resume") }

// Run turns the kill switch off.
func (c *rolloutResume) Run(ctx context.Context, s system) error {
	return c.changeOnly(ctx, s, "resume", "Resumed: the stages apply again.")
}

type rolloutRestored struct{ decisionFlags }

// Help implements kong's detailed help.
func (rolloutRestored) Help() string {
	return examples("billbridge rollout restored --by anna") +
		"\n\nRun this after you have restored the store from a backup: at one gateway, before other gateways start and before partners call." +
		"\nAfterwards both backends are probed for every bill that is not in the ledger, also for drained partners. Creates of" +
		"\nsuch bills are refused during the settling period.\n\nThis cannot be undone."
}

// Run declares the store restored.
func (c *rolloutRestored) Run(ctx context.Context, s system) error {
	return c.changeOnly(ctx, s, "restored", "Recorded: both backends are probed for every bill that is not in the ledger.")
}
