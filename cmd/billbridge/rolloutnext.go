package main

import (
	"context"
	"net/http"

	"billbridge/proxy/operate"
)

type rolloutNext struct {
	decisionFlags
	partnerFlags
	Force  operate.Force `placeholder:"REASONS" help:"Change the stage although there are these reasons against it. Without --force the command prints them with their names."`
	DryRun bool          `help:"Print the next stage, its effect and the reasons against it, and change nothing."`
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
	next := operate.PartnerRef{Partner: partner}
	if !c.DryRun {
		return c.change(ctx, s, "next", next, operate.Decision{Force: c.Force})
	}
	var preview operate.Change
	if err := c.send(ctx, http.MethodPost, "/rollout/next", &preview, next, operate.Switch{Preview: true}); err != nil {
		return err
	}
	return showChange(s, "next stage", preview)
}
