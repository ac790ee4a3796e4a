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
	send := c.get
	if c.Confirm {
		send = c.post
	}
	var clocks operate.Clock
	if err := send(ctx, "/store/clock", &clocks); err != nil {
		return err
	}
	err := show(c.out, "clock", clocks)
	if c.Confirm && !clocks.Stepped {
		printf(c.out, "Confirmed: expired rows are removed by the machine's clock.\n")
	}
	return err
}
