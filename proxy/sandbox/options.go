package sandbox

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// Environment is one of the two that the document tells apart ("Versioning").
type Environment string

const (
	Development Environment = "development" // amounts below 20000 are refused
	Production  Environment = "production"
)

// ParseEnvironment takes exactly "development" or "production".
func ParseEnvironment(s string) (Environment, error) {
	switch e := Environment(s); e {
	case Development, Production:
		return e, nil
	}
	return "", fmt.Errorf("environment: expected development or production but got: %q", s)
}

// BillIDRule says which bill identifiers a create accepts, beside the limit of
// 20 characters, which always holds.
type BillIDRule string

const (
	// LettersDigitsHyphens accepts 1 to 20 letters, digits or hyphens: public
	// clients make ids such as 1612400029-100000001. The default.
	LettersDigitsHyphens BillIDRule = ""
	// LettersOrDigits accepts 1 to 20 letters or digits.
	LettersOrDigits BillIDRule = "letters-or-digits"
	// AnyCharacters accepts whatever has 1 to 20 characters.
	AnyCharacters BillIDRule = "any"
	// ExactlyTwenty reads the identifier rule to the letter: 20 letters or digits,
	// which in development begin with a business registration number.
	ExactlyTwenty BillIDRule = "exact"
)

// NumberWhenUnpaid is what a v2 read shows for a numeric approval field
// (apprPayType, apprDt, apprOriginDt) of a bill that was never paid. All other
// fields are strings, and then empty.
type NumberWhenUnpaid string

const (
	// ZeroWhenUnpaid shows 0, which is of the documented type. It is the default
	// because a bridge that turns apprDt 0 into a legacy "0" makes an unpaid bill
	// look paid, and the other three do not show that mistake.
	ZeroWhenUnpaid  NumberWhenUnpaid = ""
	NullWhenUnpaid  NumberWhenUnpaid = "null"
	EmptyWhenUnpaid NumberWhenUnpaid = "empty" // "", which some v2 backends show
	OmitWhenUnpaid  NumberWhenUnpaid = "omit"  // leaves the fields out
)

// Options are the choices of a sandbox. The zero value is a development
// environment with the default partners.
type Options struct {
	// Environment is Development if empty.
	Environment Environment
	// BaseURL stands before the paths of shortUrl and of the registration url.
	// If empty, it is the scheme and host that the caller used.
	BaseURL string
	// Clock is time.Now if nil. The service shows Korean local time whatever
	// zone the clock is in.
	Clock func() time.Time
	// Partners is DefaultPartners() if nil.
	Partners []Partner

	// FailureData is the raw JSON of `data` in a v2 failure; null if empty.
	FailureData string
	// LegacyCodes pairs a catalogue code with the code that legacy failures carry
	// instead; the key "*" stands for every other failure. If nil, legacy failures
	// carry the catalogue's codes. Public clients know
	// {"BILL_001": "9800", "BILL_003": "9980", "*": "9999"}.
	LegacyCodes map[string]string
	// SwapLegacySend exchanges member and merchant in the legacy send reply, as
	// the document's example does.
	SwapLegacySend bool
	// NoLegacyShortURL leaves shortURL, which the document does not have but
	// clients read, out of the legacy send reply.
	NoLegacyShortURL bool

	// BillIDs says which identifiers a create accepts.
	BillIDs BillIDRule
	// GlobalBillIDs makes a bill identifier unique over all partners. By default
	// it is unique within its partner.
	GlobalBillIDs bool
	// AnyMerchant finds a bill by its partner and identifier alone. By default a call
	// that names another member or merchant than the create finds no bill.
	AnyMerchant bool
	// DestroyRefused is the code of a destroy on a bill that is not unpaid;
	// BILL_002 if empty.
	DestroyRefused string
	// WrongAmount is the code of a destroy or cancel whose price is not the
	// amount charged (the service cancels in full only); VALIDATION_001 if empty,
	// since clients try PAYMENT_002 again and this never becomes right.
	WrongAmount string
	// PayTypes pairs the legacy word of a payment method with its v2 number and is
	// the set of methods a bill can be paid by. If nil: SIMPLE_PAY 0, CARD_VAN 1,
	// KEYIN 2, OFFLINE_CARD 3, OFFLINE_CASH 4.
	PayTypes map[string]int
	// NumbersWhenUnpaid is what a v2 read shows for numbers there are none of.
	NumbersWhenUnpaid NumberWhenUnpaid
	// NumbersAsStrings shows the numbers of a v2 read as strings, as some v2
	// backends do, also the 0 of a bill that was never paid.
	NumbersAsStrings bool
	// NumericPriceOnly refuses a v2 price that is a string of digits, which clients
	// send as often as the documented number.
	NumericPriceOnly bool
	// StringPriceOnly refuses a legacy price that is a JSON number, which clients
	// send beside the documented string.
	StringPriceOnly bool
	// AnyCallbackURL accepts any text as the address of a callback, as the real
	// service was seen to do. Each attempt at such an address fails. By default a
	// create and a registration refuse what is no http or https URL with a host.
	AnyCallbackURL bool
	// ExpiresAtDawn ends a bill when the day of its expireDt begins, not when that
	// day is over.
	ExpiresAtDawn bool
	// Mobile matches the mobile numbers that a create accepts. If nil, Korean
	// ones, with or without hyphens.
	Mobile *regexp.Regexp
	// HashOf makes the integrity value of its text. If nil, the SHA-256 in
	// lower-case hexadecimal.
	HashOf func(text string) string
	// FailureStatus is the HTTP status of a business refusal; 200 if 0.
	FailureStatus int

	// CallbackInterval passes between the attempts of a callback; one hour if 0.
	CallbackInterval time.Duration
	// CallbackRetries are the attempts after the first; 24 if 0, none if negative.
	CallbackRetries int
	// CallbackTimeout is how long an attempt may take; 10 s if 0.
	CallbackTimeout time.Duration
	// CallbackAny2xx takes every answer with a status of 2xx as a success. Otherwise
	// it is 200 with the code 0000.
	CallbackAny2xx bool
	// CallbackCancelDestroy sends a callback for a cancel and for a destroy too, as
	// the real service was seen to do for cancels. By default only payments are
	// called back.
	CallbackCancelDestroy bool
	// Transport carries callbacks. If nil, that of net/http.
	Transport http.RoundTripper
	// Log gets the errors of the data file. If nil, they are not logged.
	Log *slog.Logger
}

// withDefaults is o with what it leaves empty.
func (o Options) withDefaults() Options {
	if o.Environment == "" {
		o.Environment = Development
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Partners == nil {
		o.Partners = DefaultPartners()
	}
	if o.FailureData == "" {
		o.FailureData = "null"
	}
	if o.DestroyRefused == "" {
		o.DestroyRefused = codeNotCancellable
	}
	if o.WrongAmount == "" {
		o.WrongAmount = codeInvalid
	}
	if o.PayTypes == nil {
		o.PayTypes = map[string]int{"SIMPLE_PAY": 0, methodCardVAN: 1, methodKeyIn: 2, methodOfflineCard: 3, "OFFLINE_CASH": 4}
	}
	if o.Mobile == nil {
		o.Mobile = mobile
	}
	if o.HashOf == nil {
		o.HashOf = sha256Hex
	}
	if o.FailureStatus == 0 {
		o.FailureStatus = http.StatusOK
	}
	if o.CallbackInterval == 0 {
		o.CallbackInterval = time.Hour
	}
	if o.CallbackRetries == 0 {
		o.CallbackRetries = 24
	}
	if o.CallbackTimeout == 0 {
		o.CallbackTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Check tells which option has a value that it cannot have. Empty values are in
// order: they are the defaults.
func (o Options) Check() error {
	o = o.withDefaults()
	switch {
	case o.FailureStatus < 200 || o.FailureStatus > 599:
		return fmt.Errorf("failure status: expected 200 to 599 but got: %d", o.FailureStatus)
	case !json.Valid([]byte(o.FailureData)):
		return fmt.Errorf("failure data: expected JSON but got: %q", o.FailureData)
	case o.CallbackInterval < 0:
		return fmt.Errorf("callback interval: expected a time above zero but got: %v", o.CallbackInterval)
	case o.CallbackTimeout < 0:
		return fmt.Errorf("callback timeout: expected a time above zero but got: %v", o.CallbackTimeout)
	}
	if base, err := url.Parse(o.BaseURL); err != nil || o.BaseURL != "" && (base.Scheme != "http" && base.Scheme != "https" || base.Host == "") {
		return fmt.Errorf("base URL: expected one such as https://pay.example.com but got: %q", o.BaseURL)
	}
	words := map[int]string{}
	for _, word := range slices.Sorted(maps.Keys(o.PayTypes)) {
		number := o.PayTypes[word]
		if number < 0 || words[number] != "" {
			return fmt.Errorf("pay types: %s needs a number of its own from 0 up but got: %d", word, number)
		}
		words[number] = word
	}
	return nil
}
