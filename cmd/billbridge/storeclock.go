package main

import (
	"context"

	"billbridge/proxy/operate"
)

type storeCommand struct {
	Backup storeBackup `cmd:"" help:"Copy an SQLite store to a new file, while the gateway runs."`
	Key    storeKey    `cmd:"" help:"Encrypt the store with another key, while no gateway runs."`
	Clock  storeClock  `cmd:"" help:"Show the machine's clock and the store's clock, or confirm the machine's."`
}

type storeClock struct {
	decisionFlags
	Confirm bool `help:"Declare that the machine's clock, or PostgreSQL's, is right: expired rows are removed by it again."`
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
