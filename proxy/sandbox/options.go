package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// Environment is one of the two environments of the document ("Versioning").
type Environment string

const (
	Development Environment = "development" // amounts below 20000 are refused
	Production  Environment = "production"
)

// A BillIDRule defines the bill ids that a create accepts. All rules have a limit of 20 characters.
type BillIDRule string

const (
	// LettersDigitsMarks, the default, accepts 1 to 20 letters, digits, - or _. Public clients use ids such as
	// 1612400029-100000001.
	LettersDigitsMarks BillIDRule = ""
	// LettersOrDigits accepts 1 to 20 letters or digits.
	LettersOrDigits BillIDRule = "letters-or-digits"
	// AnyCharacters accepts 1 to 20 characters.
	AnyCharacters BillIDRule = "any"
	// ExactlyTwenty is the literal rule of the document: 20 letters or digits, which in development begin with a
	// business registration number.
	ExactlyTwenty BillIDRule = "exact"
)

// NumberWhenUnpaid is the value of the numeric fields (apprPayType, apprDt, apprOriginDt) in a v2 read of a bill that
// was never paid. The other fields are empty strings.
type NumberWhenUnpaid string

const (
	// ZeroWhenUnpaid shows 0, which has the documented type. It is the default because it reveals a mistake that the
	// others do not: a gateway that translates apprDt 0 to a legacy "0" makes an unpaid bill look paid.
	ZeroWhenUnpaid  NumberWhenUnpaid = ""
	NullWhenUnpaid  NumberWhenUnpaid = "null"
	EmptyWhenUnpaid NumberWhenUnpaid = "empty" // "", which some v2 backends show
	OmitWhenUnpaid  NumberWhenUnpaid = "omit"  // omits the fields
)

// Options configure a sandbox. The zero value is a development environment with the default partners. The tags
// are those of the flags of billbridge sandbox.
type Options struct {
	// Environment is Development if empty.
	Environment Environment `default:"development" enum:"development,production" help:"development or production. They differ in the minimum amount and, with --bill-ids=exact, in the bill ids."`
	// BaseURL is the base of shortUrl and of registration URLs. If empty, it is the scheme and host that the caller
	// used.
	BaseURL string `name:"base-url" placeholder:"URL" help:"The base of short URLs and registration URLs. If omitted, the host that the caller used."`
	// ControlToken is the bearer token of the control API, and the key of the addresses of pages. If empty, control
	// API and pages are served on loopback addresses only.
	ControlToken string `env:"BILLBRIDGE_SANDBOX_TOKEN" placeholder:"TOKEN" help:"Require this bearer token for the control API, or that of a partner. Required if --control is not loopback, and for the pages if --listen is not. Prefer the environment variable: other users can see the arguments of a process."`
	// Clock is time.Now if nil. All times are shown in the zone of Korea.
	Clock func() time.Time `kong:"-"`
	// Partners is DefaultPartners() if nil.
	Partners []Partner `kong:"-"`

	// FailureData is the raw JSON of `data` in a v2 failure; null if empty.
	FailureData string `default:"null" group:"Where the interface document is silent" placeholder:"JSON" help:"The field data of a v2 refusal (${default})."`
	// LegacyCodes replaces codes of the catalogue in legacy failures; the key "*" stands for all others. If nil, no
	// code is replaced. Public clients expect {"BILL_001": "9800", "BILL_003": "9980", "*": "9999"}.
	LegacyCodes map[string]string `name:"legacy-code" group:"Where the interface document is silent" placeholder:"CODE=CODE" help:"The code of a legacy refusal instead of the catalogue's; \"*\" for all others: BILL_001=9800;BILL_003=9980;*=9999."`
	// SwapLegacySend exchanges member and merchant in the legacy send reply, as
	// the document's example does.
	SwapLegacySend bool `group:"Where the interface document is silent" help:"Exchange member and merchant in the legacy send reply, as the document's example does."`
	// NoLegacyShortURL omits shortURL from the legacy send reply. The document does not have the field, but clients
	// read it.
	NoLegacyShortURL bool `name:"no-legacy-short-url" group:"Where the interface document is silent" help:"Omit shortURL from the legacy send reply."`

	// BillIDs defines the accepted bill ids.
	BillIDs BillIDRule `name:"bill-ids" default:"letters-digits-marks" enum:"letters-digits-marks,letters-or-digits,any,exact" group:"Where the interface document is silent" help:"The allowed bill ids. letters-digits-marks: 1 to 20 letters, digits, - or _. letters-or-digits: 1 to 20 of these. any: 1 to 20 characters. exact: 20 letters or digits, in development beginning with a business number."`
	// GlobalBillIDs makes a bill id unique over all partners. By default it is unique within its partner.
	GlobalBillIDs bool `name:"global-bill-ids" group:"Where the interface document is silent" help:"A bill id is unique over all partners. If omitted, within its partner."`
	// AnyMerchant finds a bill by its partner and id alone. By default a call that names another member or merchant
	// than the create finds no bill.
	AnyMerchant bool `group:"Where the interface document is silent" help:"Find a bill also if a call names another member or merchant than the create."`
	// DestroyRefused is the code if a bill to be destroyed is not unpaid; BILL_002 if empty.
	DestroyRefused string `default:"BILL_002" group:"Where the interface document is silent" placeholder:"CODE" help:"The code if a bill to be destroyed is not unpaid (${default})."`
	// WrongAmount is the code if a destroy or cancel names another price than the bill's; VALIDATION_001 if empty. It
	// is not PAYMENT_002, because clients retry that.
	WrongAmount string `default:"VALIDATION_001" group:"Where the interface document is silent" placeholder:"CODE" help:"The code if a destroy or cancel names another amount than the bill (${default})."`
	// PayTypes defines the payment methods: the legacy word and v2 number of each. If nil: SIMPLE_PAY 0, CARD_VAN 1,
	// KEYIN 2, OFFLINE_CARD 3, OFFLINE_CASH 4.
	PayTypes map[string]int `name:"pay-type" group:"Where the interface document is silent" placeholder:"WORD=N" help:"The payment methods, each with its legacy word and v2 number: CARD_VAN=1;KEYIN=2."`
	// NumbersWhenUnpaid is the value of numbers that an unpaid bill does not have.
	NumbersWhenUnpaid NumberWhenUnpaid `name:"unpaid-numbers" default:"zero" enum:"zero,null,empty,omit" group:"Where the interface document is silent" help:"apprPayType, apprDt and apprOriginDt in a v2 read of an unpaid bill. zero: 0. null: null. empty: \"\". omit: the fields are omitted."`
	// NumbersAsStrings shows the numbers of a v2 read as strings, as some v2 backends do, also the 0 of an unpaid bill.
	NumbersAsStrings bool `group:"Where the interface document is silent" help:"Show the numbers of a v2 read as strings."`
	// NumericPriceOnly refuses a v2 price that is a string of digits. Clients send strings as often as the documented
	// number.
	NumericPriceOnly bool `group:"Where the interface document is silent" help:"Refuse a v2 price that is a string of digits."`
	// StringPriceOnly refuses a legacy price that is a JSON number. Some clients send one instead of the documented
	// string.
	StringPriceOnly bool `group:"Where the interface document is silent" help:"Refuse a legacy price that is a JSON number."`
	// AnyCallbackURL accepts any text as a callback address, as the real service was seen to do. Callbacks to an
	// invalid address fail. By default only http and https URLs with a host are accepted.
	AnyCallbackURL bool `name:"any-callback-url" group:"Where the interface document is silent" help:"Accept a callbackUrl that is not an http or https URL, such as undefined/api/webhook. Its callbacks fail."`
	// ExpiresAtDawn makes a bill expire when the day of its expireDt begins. By default it expires when the day ends.
	ExpiresAtDawn bool `group:"Where the interface document is silent" help:"A bill expires when the day of its expireDt begins. If omitted, when the day ends."`
	// Mobile matches the accepted mobile numbers. If nil, Korean numbers with or without hyphens.
	Mobile *regexp.Regexp `group:"Where the interface document is silent" placeholder:"REGEXP" help:"The accepted mobile numbers. If omitted, Korean ones."`
	// Sign returns the hash of a request of an operation in a form, such as bill.create in v2, and the text that is
	// hashed. If nil, [Hash].
	Sign func(operation, form string, request []byte) (text, hash string, err error) `kong:"-"`
	// FailureStatus is the HTTP status of a refusal; 200 if 0.
	FailureStatus int `default:"200" group:"Where the interface document is silent" placeholder:"N" help:"The HTTP status of a refusal (${default})."`

	// CallbackInterval is the time between two attempts; one hour if 0.
	CallbackInterval time.Duration `default:"1h" group:"Callbacks" placeholder:"TIME" help:"The time between two attempts (${default})."`
	// CallbackRetries is the number of attempts after the first; 24 if 0, none if negative.
	CallbackRetries int `default:"24" group:"Callbacks" placeholder:"N" help:"The number of attempts after the first (${default})."`
	// CallbackTimeout is the timeout of an attempt; 10 s if 0.
	CallbackTimeout time.Duration `default:"10s" group:"Callbacks" placeholder:"TIME" help:"The timeout of an attempt (${default})."`
	// CallbackAny2xx treats every HTTP 2xx as a success. By default only HTTP 200 with the code 0000 is.
	CallbackAny2xx bool `name:"callback-any-2xx" group:"Callbacks" help:"Every HTTP 2xx is a success. If omitted, only HTTP 200 with the code 0000."`
	// CallbackCancelDestroy sends callbacks also for cancels and destroys, as the real service was seen to do for
	// cancels. By default only payments have callbacks.
	CallbackCancelDestroy bool `group:"Callbacks" help:"Send callbacks also for cancels and destroys (apprState C and D). If omitted, only for payments."`
	// PrivateCallbacks allows a sandbox that others use to call loopback and private addresses.
	PrivateCallbacks bool `group:"Callbacks" help:"Call loopback and private addresses, too. If omitted, a sandbox that others use does not: --listen or --control is not loopback, or a partner has a control token."`
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

// withDefaults returns o with defaults for empty fields.
func (o Options) withDefaults() Options {
	o.Environment = cmp.Or(o.Environment, Development)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Partners == nil {
		o.Partners = DefaultPartners()
	}
	o.FailureData = cmp.Or(o.FailureData, "null")
	o.DestroyRefused = cmp.Or(o.DestroyRefused, codeNotCancellable)
	o.WrongAmount = cmp.Or(o.WrongAmount, codeInvalid)
	if o.PayTypes == nil {
		o.PayTypes = map[string]int{
			"SIMPLE_PAY": 0, methodCardVAN: 1, methodKeyIn: 2, methodOfflineCard: 3, "OFFLINE_CASH": 4,
		}
	}
	o.Mobile = cmp.Or(o.Mobile, mobile)
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
	case billIDs[o.BillIDs] == nil:
		return fmt.Errorf("bill ids: unknown rule %q", o.BillIDs)
	case o.FailureStatus < 200 || o.FailureStatus > 599:
		return fmt.Errorf("failure status: expected 200 to 599 but got: %d", o.FailureStatus)
	case !json.Valid([]byte(o.FailureData)):
		return fmt.Errorf("failure data: expected JSON but got: %q", o.FailureData)
	case o.CallbackInterval < 0:
		return fmt.Errorf("callback interval: expected a time above zero but got: %v", o.CallbackInterval)
	case o.CallbackTimeout < 0:
		return fmt.Errorf("callback timeout: expected a time above zero but got: %v", o.CallbackTimeout)
	case o.BaseURL != "" && webURL(o.BaseURL) == nil:
		return fmt.Errorf("base URL: expected a URL such as https://pay.example.com but got: %q", o.BaseURL)
	}
	if err := o.checkPartners(o.Partners); err != nil {
		return err
	}
	words := map[int]string{}
	for _, word := range slices.Sorted(maps.Keys(o.PayTypes)) {
		number := o.PayTypes[word]
		if number < 0 || words[number] != "" {
			return fmt.Errorf("pay types: %s needs a unique number from 0 up but got: %d", word, number)
		}
		words[number] = word
	}
	return nil
}
