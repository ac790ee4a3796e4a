package main

import (
	"context"
	"net/http"

	"billbridge/proxy/operate"
)

type storeCommand struct {
	Backup storeBackup `cmd:"" help:"Copy an SQLite store to a new file, while the gateway runs."`
	Clock  storeClock  `cmd:"" help:"Show the machine's clock and the store's clock, or confirm the machine's."`
}

type storeClock struct {
	decisionFlags
	Confirm bool `help:"Declare that the machine's clock, or PostgreSQL's, is right: expired rows are removed by it again."`
}

// Run shows the clocks, or confirms the machine's.
func (c *storeClock) Run(ctx context.Context, s system) error {
	method, by := http.MethodGet, operate.Author{}
	if c.Confirm {
		var err error
		if by, err = c.author(ctx, s); err != nil {
			return err
		}
		method = http.MethodPost
	}
	var clocks operate.Clock
	if err := c.send(ctx, method, "/store/clock", &clocks, by); err != nil {
		return err
	}
	err := show(s.out, "clock", clocks)
	if c.Confirm && !clocks.Stepped {
		printf(s.out, "Confirmed: expired rows are removed by the machine's clock.\n")
	}
	return err
}
