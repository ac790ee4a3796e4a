package main

import (
	"context"
	"net/url"
	"slices"
	"strings"

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
	q := url.Values{"partner": {partner}}
	if c.DryRun {
		return c.preview(ctx, s, q)
	}
	changed, err := c.change(ctx, s, "next", c.Force.in(q), nil)
	if err != nil {
		return err
	}
	printStage(s, changed)
	return nil
}

// preview prints what would change.
func (c *rolloutNext) preview(ctx context.Context, s system, q url.Values) error {
	var changed rollout.Changed
	if err := c.call(ctx, "POST", "/rollout/next?preview=true&"+q.Encode(), nil, decodeInto(&changed)); err != nil {
		return err
	}
	printf(s.out, "%s: is %s, the next stage is %s. Nothing was changed.\n",
		rollout.Label(changed.Partner, changed.Name), rollout.InWords(changed.From, changed.FromPercent), rollout.InWords(changed.To, changed.ToPercent))
	printEffect(s, changed)
	if len(changed.Reasons) == 0 {
		return nil
	}
	var kinds []string
	for _, reason := range changed.Reasons {
		if kind := string(reason.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	printf(s.out, "Reasons against it, so that the change needs --force %s:\n", strings.Join(kinds, ","))
	for _, reason := range changed.Reasons {
		printf(s.out, "  %s [%s]\n", reason.Text, reason.Kind)
	}
	return nil
}
