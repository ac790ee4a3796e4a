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
	"runtime/debug"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/coreos/go-systemd/v22/activation"
)

type serveCommand struct {
	Config  string `placeholder:"FILE" help:"YAML config. Without one, the sandbox runs in the same process as a v2 upstream."`
	Rollout bool   `help:"Without a config: the sandbox is two backends, old in legacy and new in v2, for billbridge rollout try."`
	Listen  string `placeholder:"ADDR" help:"Where partners call, instead of the config's listen."`
	Admin   string `placeholder:"ADDR" help:"Where the operator calls, instead of the config's admin.listen."`
}

// Help implements kong's detailed help.
func (serveCommand) Help() string {
	return examples("billbridge serve", "billbridge serve --rollout", "billbridge serve --config billbridge.yaml") +
		"\n\nSIGHUP, or POST /-/reload on the admin listener, reads the config again. SIGTERM drains and exits."
}

// Run serves until the context ends.
func (c *serveCommand) Run(ctx context.Context, s surroundings) error {
	if c.Rollout && c.Config != "" {
		return usageError("--rollout is for a trial without a config: say rollout in the config instead")
	}
	logger := newLogger(s)
	var service *sandbox.Service
	load := func() (*config.Config, error) { return c.load(c.Config, s) }
	if c.Config == "" {
		var stop func()
		var err error
		if service, load, stop, err = c.withSandbox(s); err != nil {
			return err
		}
		defer stop()
	}
	checked, err := load()
	if err != nil {
		return err
	}
	if c.Config == "" {
		load = nil
	}
	sockets, err := handedOver()
	if err != nil {
		return err
	}
	if c := checked.Callbacks; sockets["callbacks.listen"] != nil && (c == nil || c.Listen == "") {
		return errors.New("systemd hands over a socket for callbacks, and the config has no callbacks.listen")
	}
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT is not set
		// Without a limit the heap may be twice what is held, and a budget for bodies would bound half of it.
		debug.SetMemoryLimit(int64(checked.Limits.Memory) + 128<<20)
	}
	server, err := server.Listen(ctx, checked, load, sockets, build(), logger)
	switch {
	case err != nil && ctx.Err() != nil: // it was stopped while it waited for its store
		return nil
	case err != nil:
		return err
	}
	reloads, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for {
			select {
			case <-s.hangup:
				_ = server.Reload() // it has logged what is wrong
			case <-reloads.Done():
				return
			}
		}
	}()
	if service != nil {
		fmt.Fprint(s.out, welcome(server, checked))
	} else {
		fmt.Fprintf(s.out, "billbridge serves partners on %s and its operator on %s.\n", server.Address(), server.AdminAddress())
	}
	return server.Run(ctx)
}

// handedOver returns the listeners that systemd opened for this process (socket activation), by the config key that each
// replaces. The name of a socket (FileDescriptorName=) says which one. A single socket with another name is the partner listener.
func handedOver() (map[string]net.Listener, error) {
	named, err := activation.ListenersWithNames()
	if err != nil || len(named) == 0 {
		return nil, err
	}
	sockets := map[string]net.Listener{}
	for name, listeners := range named {
		key, known := socketNames[name]
		if !known && len(named) == 1 {
			key, known = "listen", true
		}
		if !known || len(listeners) != 1 || listeners[0] == nil {
			return nil, fmt.Errorf("systemd hands over %d sockets named %q: give each a FileDescriptorName of its own, listen, admin or callbacks, and Accept=no", len(listeners), name)
		}
		sockets[key] = listeners[0]
	}
	return sockets, nil
}

var socketNames = map[string]string{"listen": "listen", "admin": "admin.listen", "callbacks": "callbacks.listen"}

func (c *serveCommand) load(path string, s surroundings) (*config.Config, error) {
	checked, err := config.Load(path, s.env)
	if err != nil {
		return nil, err
	}
	return c.overridden(checked)
}

func (c *serveCommand) overridden(checked *config.Config) (*config.Config, error) {
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

// withSandbox starts the sandbox on a free port, on two for a rollout, and returns how to load the config that goes to it.
func (c *serveCommand) withSandbox(s surroundings) (*sandbox.Service, func() (*config.Config, error), func(), error) {
	service := sandbox.New(sandbox.Options{Log: newLogger(s)})
	server := &http.Server{Handler: service, ReadHeaderTimeout: 5 * time.Second}
	urls := make([]string, map[bool]int{false: 1, true: 2}[c.Rollout])
	for i := range urls {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, errors.Join(err, server.Close(), service.Close())
		}
		urls[i] = "http://" + listener.Addr().String()
		go func() { _ = server.Serve(listener) }()
	}
	load := func() (*config.Config, error) {
		text := builtIn(urls[0])
		if c.Rollout {
			text = fmt.Sprintf(builtInRollout, urls[0], urls[1])
		}
		checked, err := config.Parse(translate.File{Name: "built-in", Data: []byte(text)}, s.env)
		if err != nil {
			return nil, err
		}
		if c.Rollout {
			if checked.Table, err = translate.Compile(checked.Limits.Depth, billing.Table(), translate.File{Name: "built-in overlay", Data: []byte(sandboxPairs)}); err != nil {
				return nil, err
			}
		}
		trial(checked)
		return c.overridden(checked)
	}
	stop := func() {
		_ = server.Close()
		_ = service.Close() // nothing of it is on a disk
	}
	return service, load, stop, nil
}

// builtIn is the config of a gateway that was given none.
func builtIn(sandboxURL string) string {
	return "upstreams: {sandbox: {form: v2, url: \"" + sandboxURL + "\"}}\n"
}

// builtInRollout is that of a trial of a rollout: two backends of one service, so that both see the same bills.
const builtInRollout = `
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
rollout: {old: old, new: new, bills: shared}
`

// sandboxPairs are the words and numbers of the sandbox that the interface document does not pair.
const sandboxPairs = `operations:
  bill.read:
    reply:
      - v2: apprPayType
        legacy: appr_pay_type
        as: digits
        values: [{v2: 0, legacy: SIMPLE_PAY}, {v2: 1, legacy: CARD_VAN}, {v2: 2, legacy: KEYIN}, {v2: 3, legacy: OFFLINE_CARD}, {v2: 4, legacy: OFFLINE_CASH}]
      - {v2: apprCashTrader, legacy: appr_cash_trader, values: [{v2: PERSONAL, legacy: "0"}, {v2: BUSINESS, legacy: "1"}]}
`

// trial has callbacks relayed, too, on this machine and in memory. No file can ask for that.
func trial(c *config.Config) {
	callbacks := config.DefaultCallbacks()
	callbacks.Ports = nil
	for _, here := range []string{"127.0.0.0/8", "::1/128"} {
		callbacks.Allow = append(callbacks.Allow, config.Network{Prefix: netip.MustParsePrefix(here)})
	}
	c.Callbacks, c.Store.URL = &callbacks, config.NewSecret(config.Memory)
}

// welcome says what runs, and gives a first call that works when pasted.
func welcome(server *server.Server, c *config.Config) string {
	if c.Rollout != nil {
		return strings.Join([]string{
			"No config was given, so this is a trial of a rollout: the sandbox runs in this process as two backends of one service,",
			"old in the legacy form (" + c.Upstreams[0].Address.String() + ") and new in v2 (" + c.Upstreams[1].Address.String() + "), and everything is kept in memory.",
			"",
			"  partners call    http://" + server.Address(),
			"  operator calls   http://" + server.AdminAddress() + "/metrics",
			"",
			"In a second terminal, move the demo partner from old to new:",
			"",
			"billbridge rollout try --partners http://" + server.Address() + " --admin http://" + server.AdminAddress(),
			"",
			"",
		}, "\n")
	}
	first := c.Upstreams[0]
	return strings.Join([]string{
		"No config was given, so this is a trial: the sandbox runs in this process as a " + string(first.Form) + " upstream",
		"(" + first.Address.String() + "), and everything is kept in memory.",
		"",
		"  partners call    http://" + server.Address(),
		"  operator calls   http://" + server.AdminAddress() + "/metrics",
		"",
		"A first call, in the legacy form; it reaches the sandbox in v2 and comes back in legacy:",
		"",
		firstCall("legacy", "http://"+server.Address()),
		"",
		"",
	}, "\n")
}

// newLogger writes text for a person and JSON for a machine.
func newLogger(s surroundings) *slog.Logger {
	if s.terminal {
		return slog.New(slog.NewTextHandler(s.err, nil))
	}
	return slog.New(slog.NewJSONHandler(s.err, nil))
}
