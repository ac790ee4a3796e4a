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

// Help implements kong's detailed help.
func (storeClock) Help() string {
	return examples("billbridge store clock", "billbridge store clock --confirm --by anna") +
		"\n\nThe gateway removes expired rows of bills and callback addresses from the store. A clock that is wrong by years would make" +
		"\nall rows look expired. So the store keeps a clock of its own, which advances only while a gateway runs, and nothing is" +
		"\nremoved while the two clocks differ by more than a day."
}

// Run shows the clocks, or confirms the machine's.
func (c *storeClock) Run(ctx context.Context, s system) error {
	method := http.MethodGet
	var author operate.Author
	if c.Confirm {
		if err := c.sign(ctx, s, &author); err != nil {
			return err
		}
		method = http.MethodPost
	}
	var clocks operate.Clock
	if err := c.send(ctx, method, "/store/clock", author, &clocks); err != nil {
		return err
	}
	printf(s.out, "store    %s\nmachine  %s\n", formatTime(clocks.Store), formatTime(clocks.Machine()))
	switch {
	case clocks.Stepped:
		printf(s.out, "The clocks differ by more than a day: expired rows are not removed. If the machine's clock is right, run billbridge store clock --confirm\n")
	case c.Confirm:
		printf(s.out, "Confirmed: expired rows are removed by the machine's clock.\n")
	}
	return nil
}
