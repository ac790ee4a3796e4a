package main

import (
	"context"

	"billbridge/proxy/operate"
)

type storeCommand struct {
	Backup storeBackup `cmd:""`
	Key    storeKey    `cmd:""`
	Clock  storeClock  `cmd:""`
}

type storeClock struct {
	decisionFlags
	Confirm bool
}

// Run shows the clocks, or confirms the machine's.
func (c *storeClock) Run(ctx context.Context) error {
	var clocks operate.Clock
	if !c.Confirm {
		return c.show(ctx, "/store/clock", "clock", false, &clocks)
	}
	err := c.do(ctx, verb{path: "/store/clock", said: "clock"}, &clocks)
	if err == nil && !clocks.Stepped {
		printf(c.out, "Confirmed: expired rows are removed by the machine's clock.\n")
	}
	return err
}
