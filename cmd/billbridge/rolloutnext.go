package main

import (
	"context"
	"net/http"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout"
)

type rolloutNext struct {
	decisionFlags
	partnerFlags
	Force  forceFlag `placeholder:"REASONS" help:"Change the stage although there are these reasons against it. Without --force the command prints them with their names."`
	DryRun bool      `help:"Print the next stage, its effect and the reasons against it, and change nothing."`
}

// Help implements kong's detailed help.
func (rolloutNext) Help() string {
	return examples("billbridge rollout next --partner 6e2b0f4cd1aa --dry-run", "billbridge rollout next --partner 6e2b0f4cd1aa") +
		"\n\nThe stages in their order: old, shadow, canary 10 %, canary 25 %, canary 50 %, new, drained. From another percentage of canary the" +
		"\nnext one is the next higher of these, or new. To go to any stage, run billbridge rollout set."
}

// Run moves the partner.
func (c *rolloutNext) Run(ctx context.Context, s system) error {
	partner, err := c.partner()
	switch {
	case err != nil:
		return err
	case partner == "":
		return usageError("give one of --partner and --key-file")
	}
	m := operate.Move{PartnerRef: operate.PartnerRef{Partner: partner}}
	if c.DryRun {
		return c.preview(ctx, s, m)
	}
	m.Force = operate.Force(c.Force)
	changed, err := c.change(ctx, s, "next", &m, &m.Author)
	if err != nil {
		return err
	}
	printStage(s, changed)
	return nil
}

// preview prints what would change.
func (c *rolloutNext) preview(ctx context.Context, s system, m operate.Move) error {
	var changed operate.Change
	m.Preview = true
	if err := c.send(ctx, http.MethodPost, "/rollout/next", m, &changed); err != nil {
		return err
	}
	printf(s.out, "%s: is %s, the next stage is %s. Nothing was changed.\n",
		operate.Label(changed.Partner, changed.Name), changed.Old(), changed.New())
	printEffect(s, changed)
	if len(changed.Reasons) == 0 {
		return nil
	}
	kinds := rollout.JoinKinds(rollout.KindsOf(changed.Reasons))
	printf(s.out, "Reasons against it, so that the change needs --force %s:%s\n", kinds, lines(reasonLines(changed.Reasons)))
	return nil
}
