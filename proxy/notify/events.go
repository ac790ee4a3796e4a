package notify

import (
	"cmp"
	_ "embed" // for the schema
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// An Event is the body that a destination with format: webhook gets.
type Event struct {
	Type      string    `json:"type"` // "billbridge." and the name of a [Kind]
	Timestamp time.Time `json:"timestamp"`
	Test      bool      `json:"test,omitempty"` // an example that an operator has sent
	Data      Data      `json:"data"`
}

// Data says what has happened. It has no personal data: neither bills nor people, and of a partner its name in the
// config and the first digits of its hash.
type Data struct {
	Partner     string    `json:"partner,omitempty"` // "default": all partners without a stage of their own
	Name        string    `json:"name,omitempty"`    // of the partner
	From        string    `json:"from,omitempty"`    // a stage such as canary:10, or a state; "" for none
	To          string    `json:"to,omitempty"`
	Forced      bool      `json:"forced,omitempty"` // in spite of blocking reasons
	Wave        string    `json:"wave,omitempty"`
	Reason      string    `json:"reason,omitempty"` // a word
	Operation   string    `json:"operation,omitempty"`
	Upstream    string    `json:"upstream,omitempty"`
	Callback    string    `json:"callback,omitempty"`    // the id of one of those
	Certificate string    `json:"certificate,omitempty"` // as in billbridge_certificate_not_after_seconds
	Ends        time.Time `json:"ends,omitzero"`         // of the certificate
	Revision    int64     `json:"revision,omitempty"`    // of the entry in the audit log, which says who decided
}

// A Kind is a kind of events.
type Kind struct {
	Name    string
	Means   string // when there is one
	Example Data
	words   func(Data) string
}

// Type returns the type of events of the kind.
func (k Kind) Type() string { return "billbridge." + k.Name }

// Kinds are all kinds of events.
var Kinds = []Kind{
	{
		"stage", "A partner has moved to another stage, by a person or by a wave.",
		Data{
			Partner: partnerOfExamples, Name: "Hana Clinic", From: "shadow", To: "canary:10", Wave: "autumn",
			Revision: 1764000000000,
		},
		func(d Data) string {
			text := fmt.Sprintf("Partner %s moved from %s to %s", d.label(), cmp.Or(d.From, "the default"),
				cmp.Or(d.To, "the default"))
			if d.Wave != "" {
				text += " by wave " + d.Wave
			}
			if d.Forced {
				text += ", in spite of blocking reasons"
			}
			return text + "."
		},
	},
	{
		"wave", "A wave was created, or its state has changed. With a partner: a person lets it go on.",
		Data{Wave: "autumn", From: "running", To: "paused", Reason: "wave_many_held", Revision: 1764000000001},
		func(d Data) string {
			if d.Partner != "" {
				return fmt.Sprintf("Wave %s may move partner %s on.", d.Wave, d.label())
			}
			return fmt.Sprintf("Wave %s is %s (before: %s, reason: %s). See billbridge wave show %[1]s", d.Wave, d.To,
				cmp.Or(d.From, "none"), cmp.Or(d.Reason, "a person"))
		},
	},
	{
		"verdict", "A verdict on a partner has become FAIL. Once for each operation and evidence, until the counts are reset " +
			"or the table changes the operation.",
		Data{Partner: partnerOfExamples, Name: "Hana Clinic", Operation: "bill.read", Reason: "shadow", To: "FAIL"},
		func(d Data) string {
			return fmt.Sprintf("The verdict on partner %s is FAIL: %s, by %s. See billbridge rollout report", d.label(),
				d.Operation, d.Reason)
		},
	},
	{
		"doubled", "Bills were found at both backends. One event for each partner and hour.",
		Data{Partner: partnerOfExamples, Name: "Hana Clinic", Operation: "bill.read"},
		func(d Data) string {
			return fmt.Sprintf("Partner %s has a bill at both backends. See billbridge bills list --doubled", d.label())
		},
	},
	{
		"unknown", "Writes have an unknown outcome that the reads of the gateway have not resolved. One event for each " +
			"partner and hour.",
		Data{Partner: partnerOfExamples, Name: "Hana Clinic", Operation: "bill.create", Upstream: "new"},
		func(d Data) string {
			return fmt.Sprintf("A write of partner %s at %s has an unknown outcome: %s. "+
				"See billbridge bills list --outcome unclear", d.label(), d.Upstream, d.Operation)
		},
	},
	{
		"dead", "Callbacks failed: no more attempts are made. One event for each partner and hour.",
		Data{
			Partner: partnerOfExamples, Name: "Hana Clinic", Upstream: "new", Reason: "timeout",
			Callback: "cb_00112233445566778899aabbccddeeff",
		},
		func(d Data) string {
			return fmt.Sprintf("A callback of %s to partner %s failed: %s. See billbridge callbacks list --state failed",
				d.Upstream, d.label(), d.Reason)
		},
	},
	{
		"missing", "Callbacks of the backend are missing (callbacks.reconcile). One event for each partner and hour.",
		Data{Partner: partnerOfExamples, Name: "Hana Clinic", Upstream: "new", To: "paid"},
		func(d Data) string {
			return fmt.Sprintf("A callback of %s to partner %s is missing: a bill is %s. See billbridge callbacks missing",
				d.Upstream, d.label(), d.To)
		},
	},
	{
		"failover", "The store counts as restored: a fail-over may have lost writes, the backends of the config have " +
			"changed, or an operator says so.",
		Data{Reason: "fail-over", Revision: 1764000000002},
		func(d Data) string {
			return fmt.Sprintf("The store may lack bills (%s): both backends are probed for bills that it does not know. "+
				"See billbridge audit", d.Reason)
		},
	},
	{
		"certificate", "A certificate ends within 21 days, within 7 days, or has ended. One event each.",
		Data{Certificate: "server tls", Ends: time.Date(2026, 12, 12, 9, 0, 0, 0, time.UTC)},
		func(d Data) string {
			return fmt.Sprintf("The certificate %s ends on %s.", d.Certificate, d.Ends.Format(time.RFC3339))
		},
	},
	{
		"kill_switch", "The kill switch of the rollout was turned on or off.",
		Data{To: "on", Revision: 1764000000003},
		func(d Data) string { return "The kill switch of the rollout is " + d.To + "." },
	},
}

const partnerOfExamples = "5f7b2ed74a97"

func (d Data) label() string {
	if d.Name == "" {
		return d.Partner
	}
	return fmt.Sprintf("%s (%s)", d.Partner, d.Name)
}

// Sentence returns an event for people.
func (e Event) Sentence() (text string) {
	for _, kind := range Kinds {
		if kind.Type() == e.Type {
			text = kind.words(e.Data)
		}
	}
	if e.Test {
		text = "Test: " + text
	}
	return text
}

// forChats escapes what chats take for a link or a mention.
var forChats = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// body returns the body of an event for a chat, or the event.
func (e Event) body(chat bool) []byte {
	var body any = e
	if chat {
		body = map[string]string{"text": forChats.Replace(e.Sentence())}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // texts, numbers and a time
	}
	return text
}

//go:embed event.schema.json
var schema []byte

// Schema returns the JSON Schema of an [Event].
func Schema() ([]byte, error) { return schema, nil }
