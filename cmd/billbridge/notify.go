package main

import (
	"context"
	"net/http"

	"billbridge/proxy/operate"
)

type notifyCommand struct {
	Test notifyTest `cmd:""`
}

type notifyTest struct {
	adminFlags
	Kind   given `placeholder:"EVENT"`
	DryRun bool
	JSON   bool `name:"json"`
}

// Run sends examples.
func (c *notifyTest) Run(ctx context.Context) error {
	var all []operate.SentExample
	test := operate.EventTest{Kind: string(c.Kind), DryRun: c.DryRun}
	if err := c.send(ctx, http.MethodPost, "/notify/test", &all, test); err != nil {
		return err
	}
	if !c.DryRun {
		printf(c.err, "%d queued. What became of one: billbridge callbacks show ID\n", len(all))
	}
	return showRows(c.out, c.JSON, "events", all)
}
