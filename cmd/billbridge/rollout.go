package main

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"

	"github.com/alecthomas/kong"
)

type rolloutCommand struct {
	Status   rolloutStatus  `cmd:"" help:"Show the backends, the kill switch, and the stage of every partner."`
	Report   rolloutReport  `cmd:"" help:"Show comparisons, counts and verdicts: the evidence for the next stage."`
	Compare  rolloutCompare `cmd:"" help:"Read bills at both backends now, and compare them: more evidence than the reads of partners give."`
	Next     rolloutNext    `cmd:"" help:"Move a partner to the next stage."`
	Set      rolloutSet     `cmd:"" help:"Set the stage of a partner, or the default stage."`
	Stop     rolloutStop    `cmd:"" help:"Turn the kill switch on: the new bills of all partners are created at the old backend."`
	Resume   rolloutChange  `cmd:"" help:"Turn the kill switch off: the stages apply again."`
	Begin    rolloutBegin   `cmd:"" help:"Declare, on a new store, that the new backend has no bills of these partners."`
	Moved    rolloutMoved   `cmd:"" help:"Allow one change of the URL of a backend that has bills."`
	Restored rolloutChange  `cmd:"" help:"Declare that the store was restored from a backup."`
	Reset    rolloutReset   `cmd:"" help:"Start the counts of the report again, after the cause of a FAIL is fixed."`
	Key      rolloutKey     `cmd:"" help:"Add a new key to a partner."`
}

// partnerFlags name a partner.
type partnerFlags struct {
	Partner given `placeholder:"REF" help:"The partner: its name in the config, or at least the first 12 hex digits of the SHA-256 of its key, as in logs and reports."`
	KeyFile given `placeholder:"FILE" help:"The partner whose key is in this file. The command sends the hash, not the key."`
}

// reference returns what the admin listener gets for a --partner: a hash as it is, and for every other text that of a
// name. The text itself is neither sent nor printed: it could be a key.
func reference(p given) string {
	if _, isHash := partner.Parse(string(p)); isHash || p == "" {
		return string(p)
	}
	return operate.Named(string(p))
}

// ProvidePartner returns the partner for package operate, all if none is named. With it kong fills the parameter of a
// method Run.
func (f *partnerFlags) ProvidePartner() (ref operate.PartnerRef, err error) {
	switch ref.Partner = reference(f.Partner); {
	case f.Partner != "" && f.KeyFile != "":
		err = usageError("--partner and --key-file cannot be combined")
	case f.KeyFile != "":
		var key string
		key, err = readKey(string(f.KeyFile))
		ref.Partner = string(partner.Of(key))
	}
	return ref, err
}

// maxKeyFile bounds the size of a key file, in bytes.
const maxKeyFile = 64 << 10

// readKey returns the key in a file, without the byte order mark and the line end that editors add. A key has no blanks
// and quotes: with one, the hash would be that of a partner that does not exist.
func readKey(file string) (string, error) {
	text, err := readText(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > maxKeyFile:
		return "", fmt.Errorf("%s is larger than 64 KiB: the file must have the key alone", file)
	case key == "":
		return "", fmt.Errorf("%s is empty: the file must have the key alone", file)
	case strings.Contains(key, "\n"):
		return "", fmt.Errorf("%s has more than one line: the file must have the key alone", file)
	case strings.ContainsFunc(key, unicode.IsSpace), strings.Trim(key, "\"'") != key:
		return "", fmt.Errorf("%s has a blank or quotes: the file must have the key alone", file)
	}
	if _, err := config.SecretText(key); err != nil {
		return "", fmt.Errorf("%s %w", file, err)
	}
	return key, nil
}

type rolloutSet struct {
	moveFlags
	Default bool   `help:"Set the default stage, for all partners without a stage of their own, also for new ones."`
	Stage   string `required:"" enum:"old,shadow,canary,new,drained,default" placeholder:"STAGE" help:"The stage: old, shadow (with bills: shared), canary, new or drained; or default to remove the partner's own one; with --default, to return to that of the config."`
	Percent *int   `placeholder:"N" help:"Required with canary: the percentage of the partner's new bills that are created at the new backend, 0 to 100."`
}

// Run sets a stage.
func (c *rolloutSet) Run(ctx context.Context, partner operate.PartnerRef) error {
	switch {
	case (c.Percent != nil) != (c.Stage == string(rollout.StageCanary)):
		return usageError("--percent is required with --stage canary, and not allowed with other stages")
	case c.Percent != nil && (*c.Percent < 0 || *c.Percent > 100):
		return usageError(fmt.Sprintf("--percent must be 0 to 100, but is %d", *c.Percent))
	}
	return c.move(ctx, "stage", partner, c.Default, operate.Move{Stage: rollout.Stage(c.Stage), Percent: c.Percent})
}

type rolloutStop struct {
	decisionFlags
	Force operate.Force `placeholder:"REASONS" help:"Stop although there are these reasons against it: calls (the old backend cannot carry calls that partners make), restored."`
}

// Run turns the kill switch on.
func (c *rolloutStop) Run(ctx context.Context) error {
	changed, err := c.decide(ctx, "stop", operate.Decision{Force: c.Force})
	switch {
	case err != nil:
		return err
	case changed.Unstored != "" && !changed.Already:
		return fmt.Errorf("stopped on this gateway only, which creates new bills at the old backend. The store did "+
			"not record it: %s\n"+
			"The gateway retries every second. Until the store has recorded it, other gateways are not stopped, "+
			"and a restart of this one ends it", changed.Unstored)
	}
	return c.showChange("stop", changed)
}

type rolloutBegin struct {
	decisionFlags
	Force operate.Force `placeholder:"REASONS" help:"bills_at_new: begin although the ledger of the new store already has bills at the new backend."`
}

// Run begins the rollout.
func (c *rolloutBegin) Run(ctx context.Context) error {
	return c.change(ctx, "begin", operate.Decision{Force: c.Force})
}

type rolloutMoved struct {
	decisionFlags
	Upstream string `arg:"" placeholder:"NAME" help:"The name of the upstream in the config."`
}

// Run allows the change.
func (c *rolloutMoved) Run(ctx context.Context) error {
	return c.change(ctx, "moved", operate.MovedUpstream{Upstream: c.Upstream})
}

type rolloutReset struct {
	decisionFlags
	partnerFlags
	All   bool          `help:"Reset the counts of all partners."`
	Force operate.Force `placeholder:"REASONS" help:"verdict: reset although a verdict is FAIL, because its cause is fixed."`
}

// Run resets counts.
func (c *rolloutReset) Run(ctx context.Context, partner operate.PartnerRef) error {
	switch {
	case (partner.Partner != "") == c.All:
		return usageError("give one of --partner, --key-file and --all")
	case c.All:
		partner.Partner = operate.All
	}
	return c.change(ctx, "reset", partner, operate.Decision{Force: c.Force})
}

// rolloutChange is a command whose name is that of the change.
type rolloutChange struct{ decisionFlags }

// Run makes the change.
func (c *rolloutChange) Run(ctx context.Context, k *kong.Context) error {
	return c.change(ctx, k.Selected().Name)
}
