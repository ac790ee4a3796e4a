package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/desk"
	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/server"
)

type deskCommand struct {
	Run         deskRun         `cmd:"" help:"Certify the integration of a partner: run cases against its test system, and judge what it does."`
	Verify      deskVerify      `cmd:"" help:"Verify the evidence of a run: chain, signature, and every verdict."`
	Sign        deskSign        `cmd:"" help:"Sign reviews of a run, and accept its warnings, by name."`
	Certificate deskCertificate `cmd:"" help:"Create the certificate of a run, for the config of a gateway."`
	Compare     deskCompare     `cmd:"" help:"Compare a direct run with one through a gateway. A case with another result is a finding about the gateway."`
	Cases       deskCases       `cmd:"" help:"List the cases."`
}

const (
	exitDiffers = 4 // of desk compare
	// exitDeskUsage is that of a wrong usage, EX_USAGE of sysexits.h: 2 is a run that was interrupted.
	exitDeskUsage = 64
)

type deskRun struct {
	Plan     string   `required:"" placeholder:"FILE" help:"The plan: what the partner declares about its integration."`
	Hook     string   `required:"" placeholder:"URL" help:"The base URL of the order hook, five calls of the partner's test system."`
	Listen   string   `default:"127.0.0.1:8081" placeholder:"ADDR" help:"The address for the partner's calls (${default})."`
	Via      string   `placeholder:"URL" help:"Pass the partner's calls on to this gateway, whose upstream is the address of --backend. built-in: to a gateway of this command, whose upstream has the other form."`
	Backend  string   `default:"127.0.0.1:8083" placeholder:"ADDR" help:"With --via: the address of the service, for the gateway (${default})."`
	Practice bool     `help:"A practice run in a few minutes: the clock of the service is advanced. It is not signed."`
	Key      string   `placeholder:"FILE" help:"Sign the evidence with this Ed25519 key (PEM). If omitted, the run is a practice."`
	Case     []string `placeholder:"ID" help:"Run only these cases or groups, such as U1 or K."`
	Expected string   `placeholder:"FILE" help:"Failures that do not fail the run, each with a reason and a last day. They are on the certificate."`
	Attempts int      `default:"1" placeholder:"N" help:"The attempts at a case that does not pass (${default}). All stay in the evidence."`
	Evidence string   `placeholder:"FILE" help:"Write the evidence to this file. It must not exist."`
	JUnit    string   `name:"junit" placeholder:"FILE" help:"Write the results as JUnit XML."`
	Report   string   `placeholder:"FILE" help:"Write the results as one HTML page."`
}

// signedSpeed divides the waiting times of cases in a run with a signature, so that it takes less than an hour. What a
// partner does later still counts, until some minutes after the last case.
const signedSpeed = 6

// Run runs the plan.
func (c *deskRun) Run(ctx context.Context, s system) error {
	text, err := os.ReadFile(c.Plan)
	if err != nil {
		return err
	}
	run := desk.Config{Hook: c.Hook, Attempts: c.Attempts, Via: c.Via}
	if run.Plan, err = desk.ParsePlan(text); err != nil {
		return fmt.Errorf("%s: %w", c.Plan, err)
	}
	if c.Key != "" {
		if c.Practice {
			return usageError("--key: a practice is not signed")
		}
		if run.Key, err = signingKey(c.Key); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	}
	run.Plan.Build, run.Plan.Practice = versionLine(), run.Key == nil
	if err := run.Plan.Choose(c.Case); err != nil {
		return usageError("--" + err.Error())
	}
	switch {
	case c.Practice:
		run.Plan.Speed = desk.PracticeSpeed
	case run.Key != nil:
		run.Plan.Speed = signedSpeed
	}
	if c.Expected != "" {
		text, err := os.ReadFile(c.Expected)
		if err == nil {
			err = run.Plan.Expect(text)
		}
		if err != nil {
			return fmt.Errorf("--expected: %w", err)
		}
	}
	if run.Listener, err = net.Listen("tcp", c.Listen); err != nil {
		return err
	}
	run.Out = io.Discard
	if c.Evidence != "" {
		file, err := os.OpenFile(c.Evidence, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // every line is already written
		run.Out = file
	}
	if c.Via != "" {
		stop, err := c.startBackend(ctx, s, &run)
		if err != nil {
			return err
		}
		defer stop()
	}
	printf(s.err, "The partner's base URL is http://%s.\n", run.Listener.Addr())
	run.Progress = func(one desk.Case, v desk.Verdict) {
		_ = show(s.err, "desk progress", struct {
			desk.Case
			desk.Verdict
		}{one, v})
	}
	res, err := desk.Certify(ctx, run)
	if err != nil {
		return err
	}
	if err := errors.Join(writePage(c.JUnit, desk.JUnit, res), writePage(c.Report, desk.Report, res)); err != nil {
		return err
	}
	return conclude(s, res)
}

// writePage writes a result to a file, or does nothing without a name.
func writePage(name string, write func(io.Writer, desk.Result) error, res desk.Result) error {
	if name == "" {
		return nil
	}
	var page bytes.Buffer
	return errors.Join(write(&page, res), os.WriteFile(name, page.Bytes(), 0o600))
}

// startBackend opens the address of the service behind a gateway, and starts the built-in gateway.
func (c *deskRun) startBackend(ctx context.Context, s system, run *desk.Config) (stop func(), err error) {
	if run.Backend, err = net.Listen("tcp", c.Backend); err != nil || c.Via != builtIn {
		return func() {}, err
	}
	other := map[string]string{"v2": "legacy", "legacy": "v2"}[run.Plan.Form]
	text := fmt.Sprintf(deskGatewayText, other, run.Backend.Addr())
	checked, err := parseBuiltIn(text, s.env)
	if err != nil {
		return nil, err
	}
	if err := useSandboxTable(checked); err != nil {
		return nil, err
	}
	if run.Plan.Speed > 1 {
		checked.Callbacks.Schedule = deskSchedule
	}
	for _, all := range []string{"0.0.0.0/0", "::/0"} { // as the service without a gateway
		checked.Callbacks.Allow = append(checked.Callbacks.Allow, config.Network{Prefix: netip.MustParsePrefix(all)})
	}
	logger := slog.New(s.log)
	accesslog.Use(logger, checked.Log)
	gateway, err := server.Listen(ctx, checked, nil, nil, build(), logger)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = gateway.Run(ctx)
	}()
	run.Via = "http://" + gateway.Address()
	return func() { cancel(); <-ended }, nil
}

// builtIn is the --via of a gateway in this process.
const builtIn = "built-in"

// deskGatewayText is the config of that gateway.
const deskGatewayText = `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {desk: {form: %s, url: "http://%s"}}
drain: {delay: 0s}
log: {level: error}
`

// deskSchedule is its time before each attempt to deliver a callback, in a practice.
var deskSchedule = slices.Repeat([]config.DurationOrZero{config.DurationOrZero(2 * time.Second)}, 100)

// conclude prints the outcome of a run, which is the exit code.
func conclude(s system, res desk.Result) error {
	counts, outcome := map[string]int{}, desk.Outcome(res.Plan, res.Verdicts)
	for _, v := range desk.Last(res.Verdicts) {
		counts[v.Result]++
		if v.Open(res.Plan) {
			counts["open"]++
		}
	}
	expires := ""
	if one, err := res.Certificate(); err == nil {
		expires = one.Expires.Format(time.DateOnly)
	}
	_ = show(s.out, "desk outcome", struct {
		desk.Result
		Outcome, Expires string
		Counts           map[string]int
	}{res, outcome, expires, counts})
	if code := desk.ExitCodes[outcome]; code != 0 {
		return exitCode(code)
	}
	return nil
}

type deskVerify struct {
	File      string `arg:"" placeholder:"FILE" help:"The evidence."`
	PublicKey string `placeholder:"FILE" help:"The public key of the operator's desk (PEM). If omitted, any signer is accepted, and printed."`
	Report    string `placeholder:"FILE" help:"Write the results as one HTML page."`
}

// evidenceIn verifies a file. If public is "", any signer is accepted.
func evidenceIn(name, public string) (res desk.Result, err error) {
	var key ed25519.PublicKey
	if public != "" {
		text, err := os.ReadFile(public)
		if err != nil {
			return res, fmt.Errorf("--public-key: %w", err)
		}
		if key, err = certificate.PublicKey(text); err != nil {
			return res, fmt.Errorf("--public-key: %s %w", public, err)
		}
	}
	file, err := os.Open(name)
	if err != nil {
		return res, err
	}
	defer func() { _ = file.Close() }() // it is only read
	if res, err = desk.Verify(file, key); err != nil {
		return res, fmt.Errorf("%s is not valid evidence: %w", name, err)
	}
	if key != nil && res.Signer == nil {
		return res, fmt.Errorf("%s is not signed: it is of a practice", name)
	}
	return res, nil
}

// Run verifies evidence. Its exit code is that of the run.
func (c *deskVerify) Run(s system) error {
	res, err := evidenceIn(c.File, c.PublicKey)
	if err != nil {
		return err
	}
	if err := writePage(c.Report, desk.Report, res); err != nil {
		return err
	}
	printf(s.out, "%s is valid: %d records, each verdict follows from them\n", c.File, len(res.Records))
	_ = show(s.out, "desk verdicts", desk.Last(res.Verdicts))
	return conclude(s, res)
}

type deskSign struct {
	File string   `arg:"" placeholder:"FILE" help:"The evidence. The reviews are added to it."`
	Key  string   `required:"" placeholder:"FILE" help:"The Ed25519 key (PEM) of the desk, that of the run."`
	Case []string `required:"" placeholder:"ID" help:"The cases in REVIEW or WARNING that are signed."`
	By   string   `required:"" placeholder:"NAME" help:"Who has reviewed them."`
	With string   `placeholder:"NAME" help:"The second person, for cases that need two."`
	Text string   `required:"" placeholder:"TEXT" help:"What was seen, or why the warning is accepted."`
}

// Run adds reviews to evidence.
func (c *deskSign) Run(s system) error {
	key, err := signingKey(c.Key)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	log, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	var reviews []certificate.Signed
	for _, id := range c.Case {
		reviews = append(reviews, certificate.Signed{Case: id, By: c.By, With: c.With, Text: c.Text})
	}
	added, err := desk.Sign(log, key, reviews...)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.File, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(added)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	res, err := evidenceIn(c.File, "")
	if err != nil {
		return err
	}
	return conclude(s, res)
}

type deskCertificate struct {
	File string `arg:"" placeholder:"FILE" help:"The evidence of a full run with all reviews signed."`
	Key  string `required:"" placeholder:"FILE" help:"The Ed25519 key (PEM) of the desk, that of the run."`
	Out  string `required:"" placeholder:"FILE" help:"The file of the certificate. It must not exist."`
}

// Run writes the certificate of a run.
func (c *deskCertificate) Run(s system) error {
	key, err := signingKey(c.Key)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	res, err := evidenceIn(c.File, "")
	if err != nil {
		return err
	}
	if res.Signer != nil && !key.Public().(ed25519.PublicKey).Equal(res.Signer) {
		return fmt.Errorf("%s is signed with another key", c.File)
	}
	one, err := res.Certificate()
	if err != nil {
		return fmt.Errorf("%s: no certificate: %w", c.File, err)
	}
	text, err := one.Sign(key)
	if err != nil {
		return err
	}
	if err := createFile(c.Out, append(text, '\n')); err != nil {
		return err
	}
	printf(s.out, "%s: partner %s, form %s, until %s, for the client %s\n", c.Out, lines(one.Partner), one.Form,
		one.Expires.Format(time.DateOnly), strings.Join(one.Clients, ", "))
	return nil
}

type deskCompare struct {
	Direct    string `arg:"" placeholder:"DIRECT" help:"The evidence of a direct run."`
	Via       string `arg:"" placeholder:"VIA" help:"The evidence of a run with --via."`
	PublicKey string `placeholder:"FILE" help:"The public key of the operator's desk (PEM). If omitted, any signer is accepted, and a practice."`
}

// Run compares two runs.
func (c *deskCompare) Run(s system) error {
	direct, err := evidenceIn(c.Direct, c.PublicKey)
	if err != nil {
		return err
	}
	via, err := evidenceIn(c.Via, c.PublicKey)
	if err != nil {
		return err
	}
	differs, compared, err := desk.Compare(direct, via)
	if err != nil {
		return err
	}
	_ = show(s.out, "desk findings", differs)
	printf(s.out, "%d cases compared, %d differ\n", compared, len(differs))
	if len(differs) > 0 {
		return exitCode(exitDiffers)
	}
	return nil
}

type deskCases struct{}

// Run lists the cases.
func (c *deskCases) Run(s system) error {
	return show(s.out, "desk cases", desk.Cases())
}

// signingKey reads an Ed25519 key in PKCS #8, as openssl genpkey -algorithm ed25519 writes it.
func signingKey(name string) (ed25519.PrivateKey, error) {
	block, err := pemFile(name)
	if err != nil {
		return nil, err
	}
	parsed, _ := x509.ParsePKCS8PrivateKey(block) // nil if it is not one
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s has no Ed25519 private key: create one with "+
			"openssl genpkey -algorithm ed25519", name)
	}
	return key, nil
}

// pemFile returns the first block of a PEM file.
func pemFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", name)
	}
	return block.Bytes, nil
}
