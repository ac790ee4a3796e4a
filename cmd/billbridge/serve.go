package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/coreos/go-systemd/v22/activation"
)

type serveCommand struct {
	Config  string `placeholder:"FILE" help:"YAML config. If omitted, a sandbox runs in the same process as a v2 upstream."`
	Rollout bool   `help:"Without a config: run the sandbox as two backends, old in legacy and new in v2, for billbridge rollout try."`
	Listen  string `placeholder:"ADDR" help:"The address for partners, instead of listen in the config."`
	Admin   string `placeholder:"ADDR" help:"The address of the admin listener, instead of admin.listen in the config."`
}

// Help implements kong's detailed help.
func (serveCommand) Help() string {
	return examples("billbridge serve", "billbridge serve --rollout", "billbridge serve --config billbridge.yaml") +
		"\n\nSIGHUP, or POST /-/reload on the admin listener, reloads the config. SIGTERM drains and exits."
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, s system) error {
	if c.Rollout && c.Config != "" {
		return usageError("--rollout and --config cannot be combined: to configure a rollout, add a rollout section to the config")
	}
	if s.ignoreBrokenPipes != nil {
		s.ignoreBrokenPipes()
	}
	logger := slog.New(s.log)
	load := func() (*config.Config, error) { return c.load(c.Config, s) }
	if c.Config == "" {
		var stop func()
		var err error
		if load, stop, err = c.startSandbox(s); err != nil {
			return err
		}
		defer stop()
	}
	checked, err := load()
	if err != nil {
		return err
	}
	accesslog.Use(logger, checked.Log)
	if c.Config == "" {
		load = nil
	}
	sockets, err := systemdSockets()
	if err != nil {
		return err
	}
	if c := checked.Callbacks; sockets["callbacks.listen"] != nil && (c == nil || c.Listen == "") {
		return errors.New("systemd passed a socket named callbacks, but the config has no callbacks.listen")
	}
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT is not set
		// Without a memory limit the heap can be twice as large as the live data, so limits.memory would not bound it.
		debug.SetMemoryLimit(int64(checked.Limits.Memory) + 128<<20)
	}
	server, err := server.Listen(ctx, checked, load, sockets, build(), logger)
	switch {
	case err != nil && ctx.Err() != nil: // stopped while it waited for the store
		return nil
	case err != nil:
		return err
	}
	reloads, stop := context.WithCancel(ctx)
	defer stop()
	go reloadOnHangup(reloads, s.hangup, server)
	if c.Config == "" {
		printf(s.out, "%s", lines(trialGreeting(server, checked)))
	} else {
		printf(s.out, "Listening for partners on %s, admin on %s.\n", server.Address(), server.AdminAddress())
	}
	return server.Run(ctx)
}

// reloadOnHangup reloads the config at each signal, until ctx ends.
func reloadOnHangup(ctx context.Context, hangup <-chan os.Signal, server *server.Server) {
	for {
		select {
		case <-hangup:
			_ = server.Reload() // which logs an error
		case <-ctx.Done():
			return
		}
	}
}

// systemdSockets returns the listeners that systemd opened for this process (socket activation), by the config key that each
// replaces. The name of a socket (FileDescriptorName=) selects the key. A single socket may have any name: it is for partners.
func systemdSockets() (map[string]net.Listener, error) {
	byName, err := activation.ListenersWithNames()
	if err != nil || len(byName) == 0 {
		return nil, err
	}
	sockets := map[string]net.Listener{}
	for name, listeners := range byName {
		key, ok := socketNames[name]
		if !ok && len(byName) == 1 {
			key, ok = "listen", true
		}
		if !ok || len(listeners) != 1 || listeners[0] == nil {
			return nil, fmt.Errorf("systemd passed %d sockets named %q: set FileDescriptorName to listen, admin or callbacks, a different one for each socket, and Accept=no", len(listeners), name)
		}
		sockets[key] = listeners[0]
	}
	return sockets, nil
}

var socketNames = map[string]string{"listen": "listen", "admin": "admin.listen", "callbacks": "callbacks.listen"}

func (c *serveCommand) load(path string, s system) (*config.Config, error) {
	checked, err := config.Load(path, s.env)
	if err != nil {
		return nil, err
	}
	return c.applyFlags(checked)
}

// applyFlags replaces the addresses of the config by those of the flags.
func (c *serveCommand) applyFlags(checked *config.Config) (*config.Config, error) {
	if c.Listen != "" {
		checked.Listen = c.Listen
	}
	if c.Admin != "" {
		if host, _, err := net.SplitHostPort(c.Admin); !checked.Admin.Token.IsSet() && (err != nil || !config.Loopback(host)) {
			return nil, usageError(fmt.Sprintf("--admin %s is not loopback: set admin.token in a config", c.Admin))
		}
		checked.Admin.Listen = c.Admin
	}
	return checked, nil
}

// startSandbox starts the sandbox on a free port, or on two for a rollout. load returns a config for it.
func (c *serveCommand) startSandbox(s system) (load func() (*config.Config, error), stop func(), err error) {
	service := sandbox.New(sandbox.Options{Log: slog.New(s.log)})
	server := &http.Server{Handler: service, ReadHeaderTimeout: 5 * time.Second}
	urls := make([]string, map[bool]int{false: 1, true: 2}[c.Rollout])
	for i := range urls {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, errors.Join(err, server.Close(), service.Close())
		}
		urls[i] = "http://" + listener.Addr().String()
		go func() { _ = server.Serve(listener) }()
	}
	load = func() (*config.Config, error) {
		text := builtInConfig(urls[0])
		if c.Rollout {
			text = fmt.Sprintf(builtInRollout, urls[0], urls[1])
		}
		checked, err := config.Parse(translate.File{Name: "built-in", Data: []byte(text)}, s.env)
		if err != nil {
			return nil, err
		}
		if c.Rollout {
			if checked.Table, err = translate.Compile(checked.Limits.Depth, billing.Table(), translate.File{Name: "built-in overlay", Data: []byte(sandboxOverlay)}); err != nil {
				return nil, err
			}
		}
		relayInMemory(checked)
		return c.applyFlags(checked)
	}
	stop = func() {
		_ = server.Close()
		_ = service.Close() // without a data file there is nothing to lose
	}
	return load, stop, nil
}

// builtInConfig returns the config that is used if none is given.
func builtInConfig(sandboxURL string) string {
	return "upstreams: {sandbox: {form: v2, url: \"" + sandboxURL + "\"}}\n"
}

// builtInRollout is the config of serve --rollout. The two backends are one sandbox, so they have the same bills.
const builtInRollout = `
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
rollout: {old: old, new: new, bills: shared}
`

// sandboxOverlay pairs the sandbox's legacy words with its v2 values, which the interface document does not pair.
const sandboxOverlay = `operations:
  bill.read:
    reply:
      - v2: apprPayType
        legacy: appr_pay_type
        as: digits
        values: [{v2: 0, legacy: SIMPLE_PAY}, {v2: 1, legacy: CARD_VAN}, {v2: 2, legacy: KEYIN}, {v2: 3, legacy: OFFLINE_CARD}, {v2: 4, legacy: OFFLINE_CASH}]
      - {v2: apprCashTrader, legacy: appr_cash_trader, values: [{v2: PERSONAL, legacy: "0"}, {v2: BUSINESS, legacy: "1"}]}
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

// trialGreeting describes the trial, and has a command to run next.
func trialGreeting(server *server.Server, c *config.Config) string {
	if c.Rollout != nil {
		return strings.Join([]string{
			"Trial of a rollout, without a config. A sandbox runs in this process as two backends with the same bills: old in the legacy",
			"form (" + c.Upstreams[0].Address.String() + ") and new in v2 (" + c.Upstreams[1].Address.String() + "). All data is in memory.",
			"",
			"  partners  http://" + server.Address(),
			"  metrics   http://" + server.AdminAddress() + "/metrics",
			"",
			"To move the demo partner from old to new, run in a second terminal:",
			"",
			"billbridge rollout try --partners http://" + server.Address() + " --admin http://" + server.AdminAddress(),
			"",
			"",
		}, "\n")
	}
	first := c.Upstreams[0]
	return strings.Join([]string{
		"Trial without a config. A sandbox runs in this process as a " + string(first.Form) + " upstream (" + first.Address.String() + ").",
		"All data is in memory.",
		"",
		"  partners  http://" + server.Address(),
		"  metrics   http://" + server.AdminAddress() + "/metrics",
		"",
		"A first call in the legacy form, which the gateway translates to v2 and back:",
		"",
		firstCall("legacy", "http://"+server.Address()),
		"",
		"",
	}, "\n")
}
