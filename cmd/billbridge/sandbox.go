package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"

	"billbridge/proxy/sandbox"
)

type sandboxCommand struct {
	Listen      string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Where partners call (${default})."`
	Control     string `default:"127.0.0.1:8082" placeholder:"ADDR" help:"Where a tester pays bills and sets faults (${default})."`
	Data        string `placeholder:"FILE" help:"Keep everything in this SQLite file, across restarts and kills. In memory otherwise."`
	Environment string `default:"development" enum:"development,production" help:"development or production: they differ in the smallest amount, and in the bill id rule with --bill-ids=exact."`
	BaseURL     string `name:"base-url" placeholder:"URL" help:"What stands before the paths of short and registration URLs, if not the host that the caller used."`

	CallbackInterval time.Duration `default:"1h" group:"Callbacks" placeholder:"TIME" help:"Between the attempts of a callback (${default})."`
	CallbackRetries  int           `default:"24" group:"Callbacks" placeholder:"N" help:"Attempts after the first (${default})."`
	CallbackTimeout  time.Duration `default:"10s" group:"Callbacks" placeholder:"TIME" help:"How long an attempt may take (${default})."`

	CallbackAny2xx        bool `name:"callback-any-2xx" group:"Callbacks" help:"Every 2xx is a success, whatever its body. Otherwise 200 with the code 0000."`
	CallbackCancelDestroy bool `group:"Callbacks" help:"A callback for a cancel and a destroy too (apprState C and D), not only for a payment."`

	FailureStatus    int               `default:"200" group:"Where the interface document is silent" placeholder:"N" help:"HTTP status of a refusal (${default})."`
	FailureData      string            `default:"null" group:"Where the interface document is silent" placeholder:"JSON" help:"data of a v2 refusal (${default})."`
	LegacyCode       map[string]string `group:"Where the interface document is silent" placeholder:"CODE=CODE" help:"Code of a legacy refusal instead of the catalogue's; \"*\" for all others: BILL_001=9800;BILL_003=9980;*=9999."`
	SwapLegacySend   bool              `group:"Where the interface document is silent" help:"Exchange member and merchant in the legacy send reply, as the document's example does."`
	NoLegacyShortURL bool              `name:"no-legacy-short-url" group:"Where the interface document is silent" help:"Leave shortURL out of the legacy send reply."`
	BillIDs          string            `name:"bill-ids" default:"letters-digits-hyphens" enum:"letters-digits-hyphens,letters-or-digits,any,exact" group:"Where the interface document is silent" help:"letters-digits-hyphens, letters-or-digits: 1 to 20 of them. any: 1 to 20 characters. exact: 20 letters or digits, in development after a business number."`
	GlobalBillIDs    bool              `name:"global-bill-ids" group:"Where the interface document is silent" help:"A bill id is unique over all partners, not only within its own."`
	AnyStore         bool              `group:"Where the interface document is silent" help:"Find a bill whatever member and merchant a call names."`
	DestroyRefused   string            `default:"BILL_002" group:"Where the interface document is silent" placeholder:"CODE" help:"Code of a destroy of a bill that is not unpaid (${default})."`
	WrongAmount      string            `default:"VALIDATION_001" group:"Where the interface document is silent" placeholder:"CODE" help:"Code of a destroy or cancel for another amount than was charged (${default})."`
	PayType          map[string]int    `group:"Where the interface document is silent" placeholder:"WORD=N" help:"A payment method: its legacy word and v2 number. If given, the only ones: CARD_VAN=1;KEYIN=2."`
	UnpaidNumbers    string            `default:"zero" enum:"zero,null,empty,omit" group:"Where the interface document is silent" help:"What a v2 read of an unpaid bill shows for apprPayType, apprDt and apprOriginDt. zero: 0. null. empty: \"\". omit: nothing."`
	NumbersAsStrings bool              `group:"Where the interface document is silent" help:"Show the numbers of a v2 read as strings."`
	NumericPriceOnly bool              `group:"Where the interface document is silent" help:"Refuse a v2 price that is a string of digits."`
	StringPriceOnly  bool              `group:"Where the interface document is silent" help:"Refuse a legacy price that is a JSON number."`
	AnyCallbackURL   bool              `name:"any-callback-url" group:"Where the interface document is silent" help:"Accept a callbackUrl that is no http or https URL, such as undefined/api/webhook. Its callbacks fail."`
	ExpiresAtDawn    bool              `group:"Where the interface document is silent" help:"A bill is over when the day of its expireDt begins, not when it ends."`
	Mobile           string            `group:"Where the interface document is silent" placeholder:"REGEXP" help:"Mobile numbers that are accepted. Korean ones otherwise."`
}

// Help implements kong's detailed help.
func (sandboxCommand) Help() string {
	return examples("billbridge sandbox", "billbridge sandbox --data demo.db --environment production",
		"curl -s -X POST http://127.0.0.1:8082/bills/BILL_ID/pay", "curl -s http://127.0.0.1:8082/callbacks")
}

// options checks what the parser cannot.
func (c *sandboxCommand) options(s surroundings) (o sandbox.Options, err error) {
	o = sandbox.Options{
		BaseURL: c.BaseURL, FailureStatus: c.FailureStatus, FailureData: c.FailureData, LegacyCodes: c.LegacyCode,
		SwapLegacySend: c.SwapLegacySend, NoLegacyShortURL: c.NoLegacyShortURL, GlobalBillIDs: c.GlobalBillIDs,
		BillIDs: map[string]sandbox.BillIDRule{
			"letters-digits-hyphens": sandbox.LettersDigitsHyphens, "letters-or-digits": sandbox.LettersOrDigits,
			"any": sandbox.AnyCharacters, "exact": sandbox.ExactlyTwenty,
		}[c.BillIDs],
		AnyStore: c.AnyStore, DestroyRefused: c.DestroyRefused, WrongAmount: c.WrongAmount, PayTypes: c.PayType,
		NumbersWhenUnpaid: map[string]sandbox.NumberWhenUnpaid{
			"zero": sandbox.ZeroWhenUnpaid, "null": sandbox.NullWhenUnpaid, "empty": sandbox.EmptyWhenUnpaid, "omit": sandbox.OmitWhenUnpaid,
		}[c.UnpaidNumbers],
		NumericPriceOnly: c.NumericPriceOnly, StringPriceOnly: c.StringPriceOnly, ExpiresAtDawn: c.ExpiresAtDawn,
		AnyCallbackURL: c.AnyCallbackURL, NumbersAsStrings: c.NumbersAsStrings,
		CallbackAny2xx: c.CallbackAny2xx, CallbackCancelDestroy: c.CallbackCancelDestroy, CallbackInterval: c.CallbackInterval,
		CallbackRetries: c.CallbackRetries, CallbackTimeout: c.CallbackTimeout, Log: newLogger(s),
	}
	if o.Environment, err = sandbox.ParseEnvironment(c.Environment); err != nil {
		return o, usageError(err.Error())
	}
	if c.CallbackRetries == 0 {
		o.CallbackRetries = -1 // none, where 0 is the default
	}
	if c.Mobile != "" {
		if o.Mobile, err = regexp.Compile(c.Mobile); err != nil {
			return o, usageError("--mobile: " + err.Error())
		}
	}
	if err := o.Check(); err != nil {
		return o, usageError(err.Error())
	}
	return o, nil
}

// Run serves until the context ends.
func (c *sandboxCommand) Run(ctx context.Context, s surroundings) error {
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
	fmt.Fprint(s.out, c.greeting("http://"+partners.Addr().String(), "http://"+control.Addr().String()))
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
	return errors.Join(err, service.Close())
}

// greeting says what runs and who may call, and gives a first call in each form.
func (c *sandboxCommand) greeting(partners, control string) string {
	kept := "in memory"
	if c.Data != "" {
		kept = "in " + c.Data
	}
	text := "The billing service of the interface document, for trying and testing. Not for production.\n\n" +
		"  partners call  " + partners + "\n  control        " + control + "\n" +
		"  environment    " + c.Environment + "\n  everything is  " + kept + "\n\nPartners:\n"
	for _, p := range sandbox.DefaultPartners() {
		text += fmt.Sprintf("  %-18s %s\n", p.Key, p.Name)
	}
	for _, form := range []string{"legacy", "v2"} {
		text += "\nA first call in the " + form + " form:\n\n" + firstCall(form, partners) + "\n"
	}
	return text + "\nThe reply's short URL is a page that pays the bill; so does, with its id,\n\ncurl -s -X POST " + control + "/bills/BILL_ID/pay\n\n"
}

// An invented number and the smallest amount that a development environment takes.
const (
	demoPhone = "01000000000"
	demoPrice = "20000"
)

// firstCall is a create that works when it is pasted.
func firstCall(form, base string) string {
	// A bill id is used once. The time makes one of 20 digits: a business number and ten free characters. The forms
	// differ in the last, so that both can be pasted.
	path, shape, last := "/bill", `{"apiKey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"billId":"%s","sendType":"TALK","productName":"11월 수강료","memberName":"김하늘","phone":"%s","price":%s,"expireDt":"%s","hash":"%s"}}`, 2
	if form == "legacy" {
		path, shape, last = "/if/bill/send", `{"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"bill_id":"%s","product_nm":"11월 수강료","member_nm":"김하늘","phone":"%s","price":"%s","expire_dt":"%s","hash":"%s"}}`, 1
	}
	billID := fmt.Sprintf("1234567890%09d%d", time.Now().Unix()%1e9, last)
	body := fmt.Sprintf(shape, billID, demoPhone, demoPrice, time.Now().AddDate(0, 1, 0).Format(time.DateOnly), sandbox.Hash(billID, demoPhone, demoPrice))
	return "curl -s " + base + path + " -H 'Content-Type: application/json' -d '" + body + "'"
}
