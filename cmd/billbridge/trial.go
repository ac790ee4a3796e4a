package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
	"billbridge/translate"
)

// A trial is serve without a config. Its backends run in this process.
type trial struct {
	demo     *demo            // with --demo
	rate     int              // of their calls, per second
	old, new *sandbox.Service // the backends; old is nil without --demo
	servers  []*http.Server
	urls     []string // of the servers: the new backend, and with --demo the old one and the receiver of callbacks
	log      *slog.Logger
	table    *translate.Table
	traffic  sync.WaitGroup
}

// startTrial starts the backends of a trial.
func (c *serveCommand) startTrial(s system) (*trial, error) {
	t := &trial{log: slog.New(s.log), rate: c.Rate}
	if c.Demo {
		return t, t.startDemo()
	}
	t.new = sandbox.New(sandbox.Options{Log: t.log})
	return t, t.serve(t.new)
}

// serve starts servers, each on a free port.
func (t *trial) serve(handlers ...http.Handler) error {
	for _, handler := range handlers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		t.servers, t.urls = append(t.servers, server), append(t.urls, "http://"+listener.Addr().String())
		go func() { _ = server.Serve(listener) }()
	}
	return nil
}

// stop ends the backends. It must be called after the gateway has stopped, and the context of begin has ended.
func (t *trial) stop() {
	t.traffic.Wait()
	for _, server := range t.servers {
		_ = server.Close()
	}
	for _, service := range []*sandbox.Service{t.old, t.new} {
		if service != nil {
			_ = service.Close() // without a data file there is nothing to lose
		}
	}
}

// config returns the config of the gateway.
func (t *trial) config(env func(string) (string, bool)) (*config.Config, error) {
	if t.demo != nil {
		return t.demoConfig(env)
	}
	return parseBuiltIn(builtInConfig(t.urls[0]), env)
}

// parseBuiltIn parses a config that is not in a file. Callbacks are relayed to this machine, with a store in memory: a
// file cannot set this.
func parseBuiltIn(text string, env func(string) (string, bool)) (*config.Config, error) {
	c, err := config.Parse(translate.File{Name: "built-in", Data: []byte(text)}, env)
	if err != nil {
		return nil, err
	}
	callbacks := config.DefaultCallbacks()
	callbacks.Ports = nil
	for _, loopback := range []string{"127.0.0.0/8", "::1/128"} {
		callbacks.Allow = append(callbacks.Allow, config.Network{Prefix: netip.MustParsePrefix(loopback)})
	}
	c.Callbacks, c.Store.URL = &callbacks, config.NewSecret(config.Memory)
	return c, nil
}

// builtInConfig returns the config that is used if none is given.
func builtInConfig(sandboxURL string) string {
	return "upstreams: {sandbox: {form: v2, url: \"" + sandboxURL + "\"}}\n"
}

// greet describes the trial, and has a command to run next.
func (t *trial) greet(out io.Writer, server *server.Server, c *config.Config) {
	name, known := "trial", 0
	if t.demo != nil {
		name, known = "demo", len(t.demo.Partners)
	}
	_ = show(out, name, struct {
		*config.Config
		URLs            []string
		Known           int
		Gateway, Manage string
	}{c, t.urls, known, "http://" + server.Address(), "http://" + server.AdminAddress()})
}
