package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime/debug"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/server"

	"github.com/coreos/go-systemd/v22/activation"
)

type serveCommand struct {
	Config string `placeholder:"FILE"`
	Demo   bool
	Rate   int    `default:"5" placeholder:"N"`
	Listen string `placeholder:"ADDR"`
	Admin  string `placeholder:"ADDR"`
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, s system) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	if s.ignoreBrokenPipes != nil {
		s.ignoreBrokenPipes()
	}
	logger := slog.New(s.log)
	load := func() (*config.Config, error) { return c.applyFlags(s.load(c.Config, s.env)) }
	var trial *trial
	if c.Config == "" {
		var err error
		trial, err = c.startTrial(s)
		defer trial.stop()
		if err != nil {
			return err
		}
		load = func() (*config.Config, error) { return c.applyFlags(trial.config(s.env)) }
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
	server, err := server.Listen(ctx, checked, load, sockets, c.build(), logger)
	switch {
	case err != nil && ctx.Err() != nil: // stopped while it waited for the store
		return nil
	case err != nil:
		return err
	}
	manager := serviceManager{logger}
	reloads, stop := context.WithCancel(ctx)
	defer stop()
	go reloadOnHangup(reloads, s.hangup, func() { manager.reload(server) })
	if trial != nil {
		trial.greet(s.out, server, checked)
		trial.begin(ctx, server)
	} else {
		printf(s.out, "Listening for partners on %s, admin on %s.\n", server.Address(), server.AdminAddress())
	}
	return manager.serve(ctx, server)
}

// reloadOnHangup reloads the config at each signal, until ctx ends.
func reloadOnHangup(ctx context.Context, hangup <-chan os.Signal, reload func()) {
	for {
		select {
		case <-hangup:
			reload()
		case <-ctx.Done():
			return
		}
	}
}

// systemdSockets returns the listeners that systemd opened for this process (socket activation), by the config key
// that each replaces. The name of a socket (FileDescriptorName=) selects the key. A single socket may have any name:
// it is for partners.
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
			return nil, fmt.Errorf("systemd passed %d sockets named %q: set FileDescriptorName to listen, admin or "+
				"callbacks, a different one for each socket, and Accept=no", len(listeners), name)
		}
		sockets[key] = listeners[0]
	}
	return sockets, nil
}

var socketNames = map[string]string{"listen": "listen", "admin": "admin.listen", "callbacks": "callbacks.listen"}

// build identifies the program, and says to the console whether it shows a demo.
func (c *serveCommand) build() server.Build {
	b := build()
	b.Demo = c.Demo
	return b
}

// checkFlags refuses combinations of flags.
func (c *serveCommand) checkFlags() error {
	switch {
	case c.Demo && c.Config != "":
		return usageError("--demo and --config cannot be combined: the demo has a config of its own")
	case c.Rate != 5 && !c.Demo:
		return usageError("--rate needs --demo")
	case c.Rate < 1 || c.Rate > 1000:
		return usageError(fmt.Sprintf("--rate must be from 1 to 1000, but is %d", c.Rate))
	}
	return nil
}

// applyFlags replaces the addresses of the config by those of the flags, and fits it into the process.
func (c *serveCommand) applyFlags(checked *config.Config, err error) (*config.Config, error) {
	if err != nil {
		return nil, err
	}
	if c.Listen != "" {
		checked.Listen = c.Listen
	}
	if c.Admin != "" {
		host, _, err := net.SplitHostPort(c.Admin)
		loopback := err == nil && config.Loopback(host)
		if !loopback && len(checked.Admin.AllTokens()) == 0 {
			return nil, usageError(fmt.Sprintf(
				"--admin %s is not loopback: set admin.token or admin.tokens in a config", c.Admin))
		}
		checked.Admin.Listen = c.Admin
	}
	checked.FitOpenFiles(config.OpenFiles())
	return checked, nil
}
