package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"billbridge/proxy/desk"
)

// exitDeskUsage is that of a wrong usage, EX_USAGE of sysexits.h: 2 is a run that was interrupted.
const exitDeskUsage = 64

type deskCommand struct {
	Cases  bool
	Plan   string   `placeholder:"FILE"`
	Listen string   `default:"127.0.0.1:8081" placeholder:"ADDR"`
	Case   []string `placeholder:"ID"`
	JUnit  string   `name:"junit" placeholder:"FILE"`
	Report string   `placeholder:"FILE"`
}

// Run runs the plan, or lists the cases.
func (c *deskCommand) Run(ctx context.Context, s system) error {
	switch {
	case c.Cases:
		return show(s.out, "desk cases", desk.Cases())
	case c.Plan == "":
		return usageError("give --plan or --cases")
	}
	text, err := os.ReadFile(c.Plan)
	if err != nil {
		return err
	}
	plan, err := desk.ParsePlan(text, s.env)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Plan, err)
	}
	if c.Case != nil {
		plan.Only = c.Case
	}
	if err := plan.CheckOnly(); err != nil {
		return usageError("--" + err.Error())
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: 5 * time.Second}
	defer func() { _ = server.Close() }()
	printf(s.err, "The partner's base URL is http://%s.\n", listener.Addr())
	res := desk.Run(ctx, desk.Config{
		Plan: plan,
		Mount: func(h http.Handler) {
			server.Handler = h
			go func() { _ = server.Serve(listener) }()
		},
		Progress: func(v desk.Verdict) { _ = show(s.err, "desk progress", v) },
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(writePage(c.JUnit, desk.JUnit, res), writePage(c.Report, desk.Report, res)); err != nil {
		return err
	}
	_ = show(s.out, "desk outcome", res)
	if code := desk.ExitCodes[res.Outcome()]; code != 0 {
		return exitCode(code)
	}
	return nil
}

// writePage writes a result to a file, or does nothing without a name.
func writePage(name string, write func(io.Writer, desk.Result) error, res desk.Result) error {
	if name == "" {
		return nil
	}
	var page bytes.Buffer
	return errors.Join(write(&page, res), os.WriteFile(name, page.Bytes(), 0o600))
}
