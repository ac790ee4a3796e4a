package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/desk"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/sandbox/web"
)

type sandboxCommand struct {
	Listen  string `default:"127.0.0.1:8081" placeholder:"ADDR"`
	Control string `default:"127.0.0.1:8082" placeholder:"ADDR"`
	Partner string `name:"partners" type:"path" placeholder:"FILE"`
	Data    string `placeholder:"FILE"`

	sandbox.Options
}

// options returns the options of the sandbox, and checks what the parser does not check.
func (c *sandboxCommand) options(s system) (sandbox.Options, error) {
	o := c.Options
	o.Log = slog.New(s.log)
	if o.CallbackRetries == 0 {
		o.CallbackRetries = -1 // none; in Options 0 is the default
	}
	if c.Partner != "" {
		text, err := readText(c.Partner)
		if err != nil {
			return o, err
		}
		added, err := sandbox.ParsePartners(text)
		if err != nil {
			return o, fmt.Errorf("%s: %w", c.Partner, err)
		}
		o.Partners = append(sandbox.DefaultPartners(), added...)
	}
	if host, _, err := net.SplitHostPort(c.Control); err == nil && c.ControlToken == "" && !config.Loopback(host) {
		return o, usageError("--control " + c.Control + " is not loopback: set --control-token, or " +
			"BILLBRIDGE_SANDBOX_TOKEN in the environment")
	}
	for _, address := range []string{c.Listen, c.Control} {
		host, _, err := net.SplitHostPort(address)
		o.Shared = o.Shared || err == nil && !config.Loopback(host)
	}
	if err := o.Check(); err != nil {
		return o, usageError(err.Error())
	}
	return o, nil
}

// Run serves until ctx ends.
func (c *sandboxCommand) Run(ctx context.Context, s system) error {
	options, err := c.options(s)
	if err != nil {
		return err
	}
	partners, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", c.Control)
	if err != nil {
		_ = partners.Close()
		return err
	}
	service, err := sandbox.Open(c.Data, options)
	if err != nil {
		_, _ = partners.Close(), control.Close()
		return err
	}
	base := "http://" + partners.Addr().String()
	runs := desk.Runs{Base: cmp.Or(strings.TrimSuffix(c.BaseURL, "/"), base), Transport: service.Transport()}
	pages, err := web.New(web.Options{
		Service: service, Version: build().Version, Log: options.Log, Runs: runs.Serve,
	})
	if err != nil {
		return err // a programming error
	}
	_ = show(s.out, "sandbox", struct {
		*sandboxCommand
		Known        []sandbox.Partner
		Base, Manage string
	}{c, sandbox.DefaultPartners(), base, "http://" + control.Addr().String()})
	servers := []*http.Server{
		{Handler: runs.Calls(service), ReadHeaderTimeout: 5 * time.Second},
		{Handler: pages, ReadHeaderTimeout: 5 * time.Second},
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
	return errors.Join(err, service.Close())
}

const demoPhone = "01000000000" // not assigned

// A firstBill is a bill that a command creates. The id is new in every second: a business number and the time.
type firstBill struct{ Base, ID, Phone, Price, Expires, Hash string }

// newFirstBill returns a bill for a command. Its last digit is different in the two forms, so that both commands work.
func newFirstBill(digit int, base string) firstBill {
	id := fmt.Sprintf("1234567890%09d%d", time.Now().Unix()%1e9, digit)
	const price = "20000" // the minimum in development
	return firstBill{base, id, demoPhone, price, inAMonth(), sandbox.Hash(id, demoPhone, price)}
}

// inAMonth is the last day of a bill that ends in a month.
func inAMonth() string { return time.Now().AddDate(0, 1, 0).Format(time.DateOnly) }
