package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/sandbox"
	"billbridge/translate"
)

type serveCommand struct {
	Config string `placeholder:"FILE" help:"YAML config. Without one, the sandbox runs in the same process as a v2 upstream."`
	Listen string `placeholder:"ADDR" help:"Where partners call, instead of the config's listen."`
	Admin  string `placeholder:"ADDR" help:"Where the operator calls, instead of the config's admin.listen."`
}

// Help implements kong's detailed help.
func (serveCommand) Help() string {
	return examples("billbridge serve", "billbridge serve --config billbridge.yaml") +
		"\n\nSIGHUP, or POST /-/reload on the admin listener, reads the config again. SIGTERM drains and exits."
}

// Run serves until the context ends.
func (c *serveCommand) Run(ctx context.Context, s surroundings) error {
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
	server, err := proxy.Listen(checked, load, build(), logger)
	if err != nil {
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
		fmt.Fprintf(s.out, "billbridge serves partners on %s and its operator on %s.\n", server.Address(), server.OperatorAddress())
	}
	return server.Run(ctx)
}

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

// withSandbox starts the sandbox on a free port and returns how to load the config that goes to it.
func (c *serveCommand) withSandbox(s surroundings) (*sandbox.Service, func() (*config.Config, error), func(), error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	service := sandbox.New(sandbox.Options{})
	server := &http.Server{Handler: service, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	load := func() (*config.Config, error) {
		checked, err := config.Parse(translate.File{Name: "built-in", Data: []byte(builtIn("http://" + listener.Addr().String()))}, s.env)
		if err != nil {
			return nil, err
		}
		return c.overridden(checked)
	}
	return service, load, func() { _ = server.Close() }, nil
}

// builtIn is the config of a gateway that was given none.
func builtIn(sandboxURL string) string {
	return "upstreams: {sandbox: {form: v2, url: \"" + sandboxURL + "\"}}\n"
}

// welcome says what runs, and gives a first call that works when pasted.
func welcome(server *proxy.Server, c *config.Config) string {
	first := c.Upstreams[0]
	// A bill id is used once. The time makes one of 20 digits: a business number and ten free characters.
	billID := "1234567890" + fmt.Sprintf("%010d", time.Now().Unix()%1e10)
	hash := sandbox.Hash(billID, demoPhone, demoPrice)
	body := fmt.Sprintf(`{"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"bill_id":"%s","product_nm":"11월 수강료","member_nm":"김하늘","phone":"%s","price":"%s","expire_dt":"%s","hash":"%s"}}`,
		billID, demoPhone, demoPrice, time.Now().AddDate(0, 1, 0).Format(time.DateOnly), hash)
	return strings.Join([]string{
		"No config was given, so this is a trial: the sandbox runs in this process as a " + string(first.Form) + " upstream",
		"(" + first.Address.String() + "), and everything is kept in memory.",
		"",
		"  partners call    http://" + server.Address(),
		"  operator calls   http://" + server.OperatorAddress() + "/metrics",
		"",
		"A first call, in the legacy form; it reaches the sandbox in v2 and comes back in legacy:",
		"",
		"curl -s http://" + server.Address() + "/if/bill/send -H 'Content-Type: application/json' -d '" + body + "'",
		"",
		"",
	}, "\n")
}

// An invented number and the smallest amount that a development environment takes.
const (
	demoPhone = "01000000000"
	demoPrice = "20000"
)

// newLogger writes text for a person and JSON for a machine.
func newLogger(s surroundings) *slog.Logger {
	if s.terminal {
		return slog.New(slog.NewTextHandler(s.err, nil))
	}
	return slog.New(slog.NewJSONHandler(s.err, nil))
}

type sandboxCommand struct {
	Listen      string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Where partners call (${default})."`
	Control     string `default:"127.0.0.1:8082" placeholder:"ADDR" help:"Where a tester pays bills and sets faults (${default})."`
	Environment string `default:"development" enum:"development,production" help:"development or production: they differ in the bill id rule and the smallest amount."`
}

// Help implements kong's detailed help.
func (sandboxCommand) Help() string {
	return examples("billbridge sandbox", "billbridge sandbox --listen 127.0.0.1:8081 --environment production",
		"curl -s -X POST http://127.0.0.1:8082/bills/BILL_ID/pay")
}

// Run serves until the context ends.
func (c *sandboxCommand) Run(ctx context.Context, s surroundings) error {
	environment, err := sandbox.ParseEnvironment(c.Environment)
	if err != nil {
		return usageError(err.Error())
	}
	service := sandbox.New(sandbox.Options{Environment: environment})
	partners, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", c.Control)
	if err != nil {
		_ = partners.Close()
		return err
	}
	fmt.Fprintf(s.out, "The billing service of the interface document, for trying and testing. Not for production.\n\n"+
		"  partners call  http://%s\n  control        http://%s\n\nPartners:\n", partners.Addr(), control.Addr())
	for _, p := range sandbox.DefaultPartners() {
		fmt.Fprintf(s.out, "  %-28s %s\n", p.Key, p.Name)
	}
	servers := []*http.Server{
		{Handler: service, ReadHeaderTimeout: 5 * time.Second},
		{Handler: service.Control(), ReadHeaderTimeout: 5 * time.Second},
	}
	failed := make(chan error, len(servers))
	for i, listener := range []net.Listener{partners, control} {
		go func() { failed <- servers[i].Serve(listener) }()
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(drain))
	}
	return err
}
