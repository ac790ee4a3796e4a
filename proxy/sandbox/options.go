package sandbox

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Environment is one of the two environments of the document ("Versioning").
type Environment string

const (
	Development Environment = "development" // amounts below 20000 are refused
	Production  Environment = "production"
)

// Options configure a sandbox. The zero value is a development environment with the default partners. The tags
// are those of the flags of billbridge sandbox, whose help is in cmd/billbridge/help.txt.
type Options struct {
	// Environment is Development if empty.
	Environment Environment `default:"development" enum:"development,production"`
	// BaseURL is the base of shortUrl and of registration URLs. If empty, it is the scheme and host that the caller
	// used.
	BaseURL string `name:"base-url" placeholder:"URL"`
	// ControlToken is the bearer token of the control API, and the key of the addresses of pages. If empty, control
	// API and pages are served on loopback addresses only.
	ControlToken string `env:"BILLBRIDGE_SANDBOX_TOKEN" placeholder:"TOKEN"`
	// Clock is time.Now if nil. All times are shown in the zone of Korea.
	Clock func() time.Time `kong:"-"`
	// Partners is DefaultPartners() if nil.
	Partners []Partner `kong:"-"`

	OpenPoints `group:"Open points of the interface document"`

	// CallbackInterval is the time between two attempts; one hour if 0.
	CallbackInterval time.Duration `default:"1h" group:"Callbacks" placeholder:"TIME"`
	// CallbackRetries is the number of attempts after the first; 24 if 0, none if negative.
	CallbackRetries int `default:"24" group:"Callbacks" placeholder:"N"`
	// CallbackTimeout is the timeout of an attempt; 10 s if 0.
	CallbackTimeout time.Duration `default:"10s" group:"Callbacks" placeholder:"TIME"`
	// CallbackCancelDestroy sends callbacks also for cancels and destroys, as the real service was seen to do for
	// cancels. By default only payments have callbacks.
	CallbackCancelDestroy bool `group:"Callbacks"`
	// PrivateCallbacks allows a sandbox that others use to call loopback and private addresses.
	PrivateCallbacks bool `group:"Callbacks"`
	// Shared says that others use the sandbox. It is shared, too, if a partner has a control token.
	Shared bool `kong:"-"`
	// Transport sends callbacks. If nil, a transport that follows the two options above.
	Transport http.RoundTripper `kong:"-"`
	// Observe is called once for each exchange, after the reply was written, by the goroutine that wrote it. It must
	// not block. It can be nil.
	Observe func(Exchange) `kong:"-"`
	// Log receives errors and warnings about the data file. If nil, they are not logged.
	Log *slog.Logger `kong:"-"`
}

// OpenPoints are choices where the document is silent or contradicts itself. The zero value is what public
// integrations rely on.
type OpenPoints struct {
	// LegacyCodes replaces codes of the catalogue in legacy failures; the key "*" stands for all others. If nil, no
	// code is replaced. Public clients expect {"BILL_001": "9800", "BILL_003": "9980", "*": "9999"}.
	LegacyCodes map[string]string `name:"legacy-code" placeholder:"CODE=CODE"`
	// SwapLegacySend exchanges member and merchant in the legacy send reply, as the document's example does.
	SwapLegacySend bool
	// NoLegacyShortURL omits shortURL from the legacy send reply. The document does not have the field, but clients
	// read it.
	NoLegacyShortURL bool `name:"no-legacy-short-url"`
	// NumbersWhenUnpaid is what a v2 read shows of apprPayType, apprDt and apprOriginDt of a bill that was never paid:
	// zero, null, empty or omit; the other fields are empty strings. zero if empty: it has the documented type, and
	// reveals a gateway that translates apprDt 0 to a legacy "0", which makes an unpaid bill look paid.
	NumbersWhenUnpaid string `name:"unpaid-numbers" default:"zero" enum:"zero,null,empty,omit"`
	// NumbersAsStrings shows the numbers of a v2 read as strings, as some v2 backends do, also the 0 of an unpaid bill.
	NumbersAsStrings bool
	// FailureStatus is the HTTP status of a refusal; 200 if 0.
	FailureStatus int `default:"200" placeholder:"N"`
}

// withDefaults returns o with defaults for empty fields.
func (o Options) withDefaults() Options {
	o.Environment = cmp.Or(o.Environment, Development)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Partners == nil {
		o.Partners = DefaultPartners()
	}
	o.FailureStatus = cmp.Or(o.FailureStatus, http.StatusOK)
	o.CallbackInterval = cmp.Or(o.CallbackInterval, time.Hour)
	o.CallbackRetries = cmp.Or(o.CallbackRetries, 24)
	o.CallbackTimeout = cmp.Or(o.CallbackTimeout, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Check returns an error if an option has an invalid value. Empty values are valid.
func (o Options) Check() error {
	o = o.withDefaults()
	switch {
	case o.Environment != Development && o.Environment != Production:
		return fmt.Errorf("environment: expected development or production but got: %q", o.Environment)
	case o.FailureStatus < 200 || o.FailureStatus > 599:
		return fmt.Errorf("failure status: expected 200 to 599 but got: %d", o.FailureStatus)
	case o.CallbackInterval < 0:
		return fmt.Errorf("callback interval: expected a time above zero but got: %v", o.CallbackInterval)
	case o.CallbackTimeout < 0:
		return fmt.Errorf("callback timeout: expected a time above zero but got: %v", o.CallbackTimeout)
	case o.BaseURL != "" && webURL(o.BaseURL) == nil:
		return fmt.Errorf("base URL: expected a URL such as https://pay.example.com but got: %q", o.BaseURL)
	}
	return o.checkPartners(o.Partners)
}
