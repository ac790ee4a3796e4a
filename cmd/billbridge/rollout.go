package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/rollout"
)

type rolloutCommand struct {
	Status   rolloutStatus   `cmd:"" help:"Show the sides, the kill switch, and where every partner stands."`
	Report   rolloutReport   `cmd:"" help:"Show what was compared and counted, and the verdicts: what a move to a later stage rests on."`
	Set      rolloutSet      `cmd:"" help:"Put a partner, or all that have no stage of their own, into a stage."`
	Unset    rolloutUnset    `cmd:"" help:"Take a partner's own stage away: it follows the default again. Or what was set of the default: it is the config's again."`
	Stop     rolloutStop     `cmd:"" help:"The kill switch: new bills of every partner are made at the old backend, at once."`
	Resume   rolloutResume   `cmd:"" help:"Take the kill switch back: the stages decide again."`
	Begin    rolloutBegin    `cmd:"" help:"Declare, on a new store, that the new backend has no bills of partners that come through here."`
	Bill     rolloutBill     `cmd:"" help:"Show one bill: its owner, its state, and what both backends say now. Or decide which backend has it."`
	Moved    rolloutMoved    `cmd:"" help:"Declare that a backend that has bills is about to get another address."`
	Restored rolloutRestored `cmd:"" help:"Declare that the store was restored from a backup."`
	Reset    rolloutReset    `cmd:"" help:"Start the counts of the report again, after the cause of a FAIL was fixed."`
	Audit    rolloutAudit    `cmd:"" help:"List who changed what, the last change first."`
	Try      rolloutTry      `cmd:"" help:"Move the demo partner from old to new, at a gateway that runs by billbridge serve --rollout."`
}

// partnerFlags name a partner.
type partnerFlags struct {
	Partner *string `placeholder:"REF" help:"This partner: at least the first 12 hex digits of the SHA-256 of its key, as logs and reports name it."`
	KeyFile *string `placeholder:"FILE" help:"The partner whose key is in this file. The key is hashed here and not sent."`
}

// ref is the partner as the admin listener reads it, "" if none was named. What is no hash is not sent, and not shown:
// it may be a key.
func (f *partnerFlags) ref() (string, error) {
	switch {
	case f.Partner != nil && f.KeyFile != nil:
		return "", usageError("name the partner by --partner or by --key-file, not by both")
	case f.KeyFile != nil:
		return hashOf(*f.KeyFile)
	case f.Partner == nil:
		return "", nil
	case len(*f.Partner) < 12 || len(*f.Partner) > 64 || strings.Trim(*f.Partner, "0123456789abcdef") != "":
		return "", usageError("--partner must be 12 to 64 lower-case hex digits of the SHA-256 of the partner's key, never the key: for that is --key-file")
	}
	return *f.Partner, nil
}

// about is a path with the partner, if one was named.
func (f *partnerFlags) about(path string) (string, error) {
	partner, err := f.ref()
	if err == nil && partner != "" {
		path += "?" + url.Values{"partner": {partner}}.Encode()
	}
	return path, err
}

// keyLimit bounds what is read of a file with a key, in bytes.
const keyLimit = 64 << 10

// hashOf is the hash of the key in a file. One end of line after it is the editor's; all else is the key's.
func hashOf(file string) (string, error) {
	if file == "" {
		return "", usageError("--key-file is empty")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	key, err := io.ReadAll(io.LimitReader(f, keyLimit+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(key), "\n"), "\r")
	switch {
	case len(key) > keyLimit:
		return "", fmt.Errorf("%s is over 64 KiB: it holds no key", file)
	case text == "":
		return "", fmt.Errorf("%s holds no key", file)
	case strings.Contains(text, "\n"):
		return "", fmt.Errorf("%s holds more than one line: a file with the key alone is wanted", file)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), nil
}

// decisionFlags are of every change.
type decisionFlags struct {
	adminFlags
	By *string `placeholder:"NAME" help:"Who decides, for the audit log; if left out, the environment's USER."`
}

// decide has the gateway make a change.
func (f *decisionFlags) decide(ctx context.Context, s surroundings, what string, q url.Values) (c rollout.Changed, err error) {
	return f.decideWith(ctx, s, what, q, nil)
}

// decideWith is decide with a body.
func (f *decisionFlags) decideWith(ctx context.Context, s surroundings, what string, q url.Values, body []byte) (c rollout.Changed, err error) {
	by, err := f.decider(s)
	if err != nil {
		return c, err
	}
	q.Set("by", by)
	err = f.callWith(ctx, http.MethodPost, "/rollout/"+what+"?"+q.Encode(), body, func(body io.Reader) error { return json.NewDecoder(body).Decode(&c) })
	var failed *adminError
	if errors.As(err, &failed) && failed.status >= http.StatusInternalServerError {
		// It gave up waiting for the store, which may have made the change, or make it yet.
		err = fmt.Errorf("the gateway failed (%d): %s\nUnless it says so, it is not known whether the change was made: look at billbridge rollout status", failed.status, failed.text)
	}
	return c, err
}

type rolloutSet struct {
	decisionFlags
	partnerFlags
	Default bool   `help:"All partners that have no stage of their own, those to come included."`
	Stage   string `required:"" enum:"old,shadow,canary,new,drained" placeholder:"STAGE" help:"old, shadow, canary, new or drained."`
	Percent *int   `placeholder:"N" help:"Of canary: how many in a hundred of the partner's new bills are made at the new backend, 0 to 100. With rollout.split: merchant, of its merchants."`
	Force   bool   `help:"Also where the gateway warns: the partner was not seen for the settling time, the report has no PASS, the side cannot carry calls that it makes, or it is to be drained and has bills at the old backend."`
}

// Help implements kong's detailed help.
func (rolloutSet) Help() string {
	return examples("billbridge rollout set --partner 6e2b0f4cd1aa --stage canary --percent 10", "billbridge rollout set --key-file partner.key --stage new",
		"billbridge rollout set --default --stage shadow") +
		"\n\nStages, in their order: old, shadow (old, and reads are compared), canary (a part of what is new goes to the new backend)," +
		"\nnew, drained (new, and nothing is left at the old backend). Bills stay where they are in every stage."
}

// Run sets a stage.
func (c *rolloutSet) Run(ctx context.Context, s surroundings) error {
	partner, err := c.ref()
	named := c.Partner != nil || c.KeyFile != nil
	switch {
	case named == c.Default:
		return usageError("say which: --partner, --key-file, or --default for all that have no stage of their own")
	case err != nil:
		return err
	case (c.Percent != nil) != (c.Stage == string(rollout.StageCanary)):
		return usageError("--percent is wanted with --stage canary, and only with it")
	case c.Percent != nil && (*c.Percent < 0 || *c.Percent > 100):
		return usageError(fmt.Sprintf("--percent must be 0 to 100, but is %d", *c.Percent))
	case c.Default:
		partner = "default"
	}
	q := url.Values{"partner": {partner}, "stage": {c.Stage}}
	if c.Percent != nil {
		q.Set("percent", strconv.Itoa(*c.Percent))
	}
	made, err := c.decide(ctx, s, "stage", forcing(c.Force, q))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: %s, was %s%s\n", made.Partner, rollout.InWords(made.To, made.ToPercent), rollout.InWords(made.From, made.FromPercent), forced(made.Forced))
	explain(s, made)
	return nil
}

// explain says what a change of a stage comes to.
func explain(s surroundings, made rollout.Changed) {
	if made.Warning != "" {
		fmt.Fprintf(s.err, "Warning: %s.\n", made.Warning)
	}
	if e := made.Effect; e != nil {
		fmt.Fprintf(s.out, "At the new backend: %s.\n", e)
		if p := *made.ToPercent; e.Bills > 0 && e.Percent != p && (e.Percent == 0 || e.Percent == 100) {
			fmt.Fprintln(s.out, "With rollout.split: merchant, all bills of a merchant go to one backend. To divide them, set rollout.split: bill in the config.")
		}
	}
}

type rolloutUnset struct {
	decisionFlags
	partnerFlags
	Default bool `help:"The stage that was set for all that have none of their own."`
	Force   bool `help:"Also where the gateway warns."`
}

// Help implements kong's detailed help.
func (rolloutUnset) Help() string { return examples("billbridge rollout unset --partner 6e2b0f4cd1aa") }

// Run takes a stage away.
func (c *rolloutUnset) Run(ctx context.Context, s surroundings) error {
	partner, err := c.ref()
	switch {
	case err != nil:
		return err
	case (partner != "") == c.Default:
		return usageError("say which: --partner, --key-file, or --default")
	case c.Default:
		partner = "default"
	}
	made, err := c.decide(ctx, s, "unset", forcing(c.Force, url.Values{"partner": {partner}}))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: follows %s, was %s%s\n", made.Partner, rollout.InWords(made.To, made.ToPercent), rollout.InWords(made.From, made.FromPercent), forced(made.Forced))
	explain(s, made)
	return nil
}

// forcing adds force to what is asked, where it is wanted.
func forcing(force bool, q url.Values) url.Values {
	if force {
		q.Set("force", "true")
	}
	return q
}

type rolloutStop struct {
	decisionFlags
	Force bool `help:"Also where the gateway warns: the old backend cannot carry calls that partners make."`
}

// Help implements kong's detailed help.
func (rolloutStop) Help() string {
	return examples("billbridge rollout stop", "billbridge rollout stop --by anna --force") +
		"\n\nBills that are made stay where they are, and so do the stages, for billbridge rollout resume. The new backend is asked nothing before a bill is made."
}

// Run stops.
func (c *rolloutStop) Run(ctx context.Context, s surroundings) error {
	made, err := c.decide(ctx, s, "stop", forcing(c.Force, url.Values{}))
	switch {
	case err != nil:
		return err
	case made.Already:
		fmt.Fprintf(s.out, "Stopped already, since %s by %s: new bills are made at the old backend.\n", clock(made.At), made.By)
		return nil
	}
	if made.Unstored != "" {
		return fmt.Errorf("stopped on this gateway alone: it makes new bills at the old backend, but that could not be stored: %s\n"+
			"The gateway tries again every second. Until it is stored, other gateways do not know of it, and a restart forgets it", made.Unstored)
	}
	fmt.Fprintln(s.out, "Stopped: new bills are made at the old backend.")
	return nil
}

type rolloutBegin struct {
	decisionFlags
	Force bool `help:"Also if the ledger, which is new, has bills at the new backend."`
}

// Help implements kong's detailed help.
func (rolloutBegin) Help() string {
	return examples("billbridge rollout begin --by anna") +
		"\n\nA store that is new may stand in the place of one that was lost. So both backends are asked about every bill that it does not know, and for the" +
		"\nsettling period no bill is made, until you say that the new backend has no bills of partners that come through here. If there was a store before:" +
		"\ndo not say so, but restore it from its backup, and run billbridge rollout restored."
}

// Run begins.
func (c *rolloutBegin) Run(ctx context.Context, s surroundings) error {
	made, err := c.decide(ctx, s, "begin", forcing(c.Force, url.Values{}))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Begun%s: a bill that the ledger does not know was not made at the new backend.\n", forced(made.Forced))
	return nil
}

type rolloutMoved struct {
	decisionFlags
	Upstream string `arg:"" placeholder:"NAME" help:"The upstream, by its name in the config."`
}

// Help implements kong's detailed help.
func (rolloutMoved) Help() string {
	return examples("billbridge rollout moved old --by anna") +
		"\n\nFor a backend that keeps its bills and gets another url in the config. It holds for one change, within 24 hours. Then change the config, and reload."
}

// Run declares.
func (c *rolloutMoved) Run(ctx context.Context, s surroundings) error {
	made, err := c.decide(ctx, s, "moved", url.Values{"upstream": {c.Upstream}})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Upstream %s may get another url until %s, once. Change the config, and reload.\n", made.Subject, clock(made.At.Add(24*time.Hour)))
	return nil
}

type rolloutReset struct {
	decisionFlags
	partnerFlags
	All   bool `help:"What was counted of every partner."`
	Force bool `help:"Also where a verdict is FAIL: what it tells of was mended."`
}

// Help implements kong's detailed help.
func (rolloutReset) Help() string {
	return examples("billbridge rollout reset --partner 6e2b0f4cd1aa", "billbridge rollout reset --all") +
		"\n\nWhat other gateways on the same store have counted in the last seconds may still come to it."
}

// Run begins anew.
func (c *rolloutReset) Run(ctx context.Context, s surroundings) error {
	partner, err := c.ref()
	named := c.Partner != nil || c.KeyFile != nil
	switch {
	case named == c.All:
		return usageError("say which: --partner, --key-file, or --all")
	case err != nil:
		return err
	case c.All:
		partner = "all"
	}
	made, err := c.decide(ctx, s, "reset", forcing(c.Force, url.Values{"partner": {partner}}))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: the report begins anew\n", made.Partner)
	return nil
}

type rolloutResume struct{ decisionFlags }

// Help implements kong's detailed help.
func (rolloutResume) Help() string { return examples("billbridge rollout resume") }

// Run resumes.
func (c *rolloutResume) Run(ctx context.Context, s surroundings) error {
	return c.declare(ctx, s, "resume", "Resumed: the stages decide again.")
}

type rolloutRestored struct{ decisionFlags }

// Help implements kong's detailed help.
func (rolloutRestored) Help() string {
	return examples("billbridge rollout restored --by anna") +
		"\n\nTo be said after the store was restored from a backup, to one gateway, before any other runs and before partners call again. From then on both backends are asked" +
		"\nfor a bill that the ledger does not know, of drained partners too, and for the settling period no bill is made that the ledger does not know." +
		"\nIt cannot be taken back."
}

// Run declares.
func (c *rolloutRestored) Run(ctx context.Context, s surroundings) error {
	return c.declare(ctx, s, "restored", "Noted: of a bill that the ledger does not know, both backends are asked.")
}

func (f *decisionFlags) declare(ctx context.Context, s surroundings, what, outcome string) error {
	if _, err := f.decide(ctx, s, what, url.Values{}); err != nil {
		return err
	}
	fmt.Fprintln(s.out, outcome)
	return nil
}
