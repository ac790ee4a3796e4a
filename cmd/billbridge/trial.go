package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A trial is serve without a config. It has backends in this process.
type trial struct {
	load     func() (*config.Config, error)
	greeting func(*server.Server, *config.Config) string
	begin    func(context.Context, *server.Server) // after the listeners are open
	stop     func()                                // after the gateway has stopped
}

// startTrial starts the backends of a trial, on free ports.
func (c *serveCommand) startTrial(s system) (*trial, error) {
	if !c.Demo {
		return c.startSandbox(s)
	}
	rate := 5
	if c.Rate != nil {
		rate = *c.Rate
	}
	d, err := startDemo(s, rate)
	if err != nil {
		return nil, err
	}
	return &trial{
		load: func() (*config.Config, error) {
			checked, err := d.config(s.env)
			if err != nil {
				return nil, err
			}
			return c.applyFlags(checked)
		},
		greeting: d.greeting,
		begin:    d.begin,
		stop:     func() { _ = d.close() }, // all data is in memory
	}, nil
}

// startSandbox starts the sandbox on a free port.
func (c *serveCommand) startSandbox(s system) (*trial, error) {
	service := sandbox.New(sandbox.Options{Log: slog.New(s.log)})
	httpServer := &http.Server{Handler: service, ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	go func() { _ = httpServer.Serve(listener) }()
	return &trial{
		load: func() (*config.Config, error) {
			text := builtInConfig("http://" + listener.Addr().String())
			checked, err := config.Parse(translate.File{Name: "built-in", Data: []byte(text)}, s.env)
			if err != nil {
				return nil, err
			}
			relayInMemory(checked)
			return c.applyFlags(checked)
		},
		greeting: trialGreeting,
		begin:    func(context.Context, *server.Server) {},
		stop: func() {
			_ = httpServer.Close()
			_ = service.Close() // without a data file there is nothing to lose
		},
	}, nil
}

// sandboxTable returns the table with the sandbox's own words.
func sandboxTable(depth int) (*translate.Table, error) {
	return translate.Compile(depth, billing.Table(), translate.File{Name: "built-in overlay", Data: []byte(sandboxOverlay)})
}

// builtInConfig returns the config that is used if none is given.
func builtInConfig(sandboxURL string) string {
	return "upstreams: {sandbox: {form: v2, url: \"" + sandboxURL + "\"}}\n"
}

// sandboxOverlay pairs the sandbox's legacy words with its v2 values, which the interface document does not pair.
const sandboxOverlay = `operations:
  bill.read:
    reply:
      - v2: apprPayType
        legacy: appr_pay_type
        as: digits
        values: [{v2: 0, legacy: SIMPLE_PAY}, {v2: 1, legacy: CARD_VAN}, {v2: 2, legacy: KEYIN}, {v2: 3, legacy: OFFLINE_CARD}, {v2: 4, legacy: OFFLINE_CASH}]
      - {v2: apprCashTrader, legacy: appr_cash_trader, values: [{v2: "", legacy: ""}, {v2: PERSONAL, legacy: "0"}, {v2: BUSINESS, legacy: "1"}]}
`

// relayInMemory relays callbacks to this machine, with a store in memory. A config file cannot set this.
func relayInMemory(c *config.Config) {
	callbacks := config.DefaultCallbacks()
	callbacks.Ports = nil
	for _, loopback := range []string{"127.0.0.0/8", "::1/128"} {
		callbacks.Allow = append(callbacks.Allow, config.Network{Prefix: netip.MustParsePrefix(loopback)})
	}
	c.Callbacks, c.Store.URL = &callbacks, config.NewSecret(config.Memory)
}

// addressList is the list of the addresses of a trial.
func addressList(server *server.Server) string {
	return "  partners  http://" + server.Address() + "\n" +
		"  metrics   http://" + server.AdminAddress() + "/metrics\n" +
		"  console   http://" + server.AdminAddress() + "/\n"
}

// trialGreeting describes the trial, and has a command to run next.
func trialGreeting(server *server.Server, c *config.Config) string {
	first := c.Upstreams[0]
	return strings.Join([]string{
		"Trial without a config. A sandbox runs in this process as a " + string(first.Form) + " upstream (" + first.Address.String() + ").",
		"All data is in memory.",
		"",
		addressList(server),
		"A first call in the legacy form, which the gateway translates to v2 and back:",
		"",
		firstCall("legacy", "http://"+server.Address()),
		"",
		"",
	}, "\n")
}
