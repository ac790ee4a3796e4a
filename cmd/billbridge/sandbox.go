package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/desk"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/sandbox/web"
)

type sandboxCommands struct {
	Run     sandboxCommand `cmd:"" default:"withargs" help:"Run a sandbox of the billing service, for development and tests (the default). Not for production."`
	Forward sandboxForward `cmd:"" help:"Forward callbacks of a sandbox on another machine to a program on this one."`
}

type sandboxCommand struct {
	Listen  string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"The address for partners (${default})."`
	Control string `default:"127.0.0.1:8082" placeholder:"ADDR" help:"The address of the pages for developers, and of the control API, which pays bills, sets faults, and shows the log of calls (${default})."`
	Partner string `name:"partners" type:"path" placeholder:"FILE" help:"Add the partners of this file, a JSON list of what POST /partners of the control API takes. Each needs a control_token, with which it signs in on the pages of the control address and sees only itself."`
	Data    string `placeholder:"FILE" help:"Keep the data in this file, also after a restart or a kill. If omitted, in memory."`

	HashOverlay string `placeholder:"FILE" help:"Check hashes as the table with this overlay says, and not as the built-in table."`
	secretFlag

	sandboxFlags
}

// sandboxFlags are the flags for sandbox.Options. They have the same fields.
type sandboxFlags struct {
	Environment           sandbox.Environment      `default:"development" enum:"development,production" help:"development or production. They differ in the minimum amount and, with --bill-ids=exact, in the bill ids."`
	BaseURL               string                   `name:"base-url" placeholder:"URL" help:"The base of short URLs and registration URLs. If omitted, the host that the caller used."`
	ControlToken          string                   `env:"BILLBRIDGE_SANDBOX_TOKEN" placeholder:"TOKEN" help:"Require this bearer token for the control API, or that of a partner. Required if --control is not loopback, and for the pages if --listen is not. Prefer the environment variable: other users can see the arguments of a process."`
	Clock                 func() time.Time         `kong:"-"`
	Partners              []sandbox.Partner        `kong:"-"`
	FailureData           string                   `default:"null" group:"Where the interface document is silent" placeholder:"JSON" help:"The field data of a v2 refusal (${default})."`
	LegacyCodes           map[string]string        `name:"legacy-code" group:"Where the interface document is silent" placeholder:"CODE=CODE" help:"The code of a legacy refusal instead of the catalogue's; \"*\" for all others: BILL_001=9800;BILL_003=9980;*=9999."`
	SwapLegacySend        bool                     `group:"Where the interface document is silent" help:"Exchange member and merchant in the legacy send reply, as the document's example does."`
	NoLegacyShortURL      bool                     `name:"no-legacy-short-url" group:"Where the interface document is silent" help:"Omit shortURL from the legacy send reply."`
	BillIDs               sandbox.BillIDRule       `name:"bill-ids" default:"letters-digits-marks" enum:"letters-digits-marks,letters-or-digits,any,exact" group:"Where the interface document is silent" help:"The allowed bill ids. letters-digits-marks: 1 to 20 letters, digits, - or _. letters-or-digits: 1 to 20 of these. any: 1 to 20 characters. exact: 20 letters or digits, in development beginning with a business number."`
	GlobalBillIDs         bool                     `name:"global-bill-ids" group:"Where the interface document is silent" help:"A bill id is unique over all partners. If omitted, within its partner."`
	AnyMerchant           bool                     `group:"Where the interface document is silent" help:"Find a bill also if a call names another member or merchant than the create."`
	DestroyRefused        string                   `default:"BILL_002" group:"Where the interface document is silent" placeholder:"CODE" help:"The code if a bill to be destroyed is not unpaid (${default})."`
	WrongAmount           string                   `default:"VALIDATION_001" group:"Where the interface document is silent" placeholder:"CODE" help:"The code if a destroy or cancel names another amount than the bill (${default})."`
	PayTypes              map[string]int           `name:"pay-type" group:"Where the interface document is silent" placeholder:"WORD=N" help:"The payment methods, each with its legacy word and v2 number: CARD_VAN=1;KEYIN=2."`
	NumbersWhenUnpaid     sandbox.NumberWhenUnpaid `name:"unpaid-numbers" default:"zero" enum:"zero,null,empty,omit" group:"Where the interface document is silent" help:"apprPayType, apprDt and apprOriginDt in a v2 read of an unpaid bill. zero: 0. null: null. empty: \"\". omit: the fields are omitted."`
	NumbersAsStrings      bool                     `group:"Where the interface document is silent" help:"Show the numbers of a v2 read as strings."`
	NumericPriceOnly      bool                     `group:"Where the interface document is silent" help:"Refuse a v2 price that is a string of digits."`
	StringPriceOnly       bool                     `group:"Where the interface document is silent" help:"Refuse a legacy price that is a JSON number."`
	AnyCallbackURL        bool                     `name:"any-callback-url" group:"Where the interface document is silent" help:"Accept a callbackUrl that is not an http or https URL, such as undefined/api/webhook. Its callbacks fail."`
	ExpiresAtDawn         bool                     `group:"Where the interface document is silent" help:"A bill expires when the day of its expireDt begins. If omitted, when the day ends."`
	Mobile                *regexp.Regexp           `group:"Where the interface document is silent" placeholder:"REGEXP" help:"The accepted mobile numbers. If omitted, Korean ones."`
	Sign                  signer                   `kong:"-"`
	FailureStatus         int                      `default:"200" group:"Where the interface document is silent" placeholder:"N" help:"The HTTP status of a refusal (${default})."`
	CallbackInterval      time.Duration            `default:"1h" group:"Callbacks" placeholder:"TIME" help:"The time between two attempts (${default})."`
	CallbackRetries       int                      `default:"24" group:"Callbacks" placeholder:"N" help:"The number of attempts after the first (${default})."`
	CallbackTimeout       time.Duration            `default:"10s" group:"Callbacks" placeholder:"TIME" help:"The timeout of an attempt (${default})."`
	CallbackAny2xx        bool                     `name:"callback-any-2xx" group:"Callbacks" help:"Every HTTP 2xx is a success. If omitted, only HTTP 200 with the code 0000."`
	CallbackCancelDestroy bool                     `group:"Callbacks" help:"Send callbacks also for cancels and destroys (apprState C and D). If omitted, only for payments."`
	CopyTo                *sandbox.Service         `kong:"-"`
	Transport             http.RoundTripper        `kong:"-"`
	Observe               func(sandbox.Exchange)   `kong:"-"`
	Log                   *slog.Logger             `kong:"-"`
}

// options returns the options of the sandbox, and checks what the parser does not check.
func (c *sandboxCommand) options(s system) (sandbox.Options, error) {
	o := sandbox.Options(c.sandboxFlags)
	o.Log = slog.New(s.log)
	table, err := compileTable("", c.HashOverlay)
	if err != nil {
		return o, err
	}
	if o.Sign, err = c.signer(table); err != nil {
		return o, err
	}
	if o.BillIDs == "letters-digits-marks" {
		o.BillIDs = sandbox.LettersDigitsMarks
	}
	if o.NumbersWhenUnpaid == "zero" {
		o.NumbersWhenUnpaid = sandbox.ZeroWhenUnpaid
	}
	if o.CallbackRetries == 0 {
		o.CallbackRetries = -1 // none; in Options 0 is the default
	}
	if c.Partner != "" {
		text, err := os.ReadFile(c.Partner)
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
	runs := desk.Runs{Build: versionLine(), Base: cmp.Or(strings.TrimSuffix(c.BaseURL, "/"), base), Context: ctx}
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
		{
			Handler: pages, ReadHeaderTimeout: 5 * time.Second,
			BaseContext: func(net.Listener) context.Context { return ctx }, // ends requests of forwarders, which wait
		},
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
