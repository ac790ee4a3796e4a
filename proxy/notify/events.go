package notify

import (
	_ "embed" // for the kinds and the schema
	"encoding/json"
	"strings"
	"sync"
	"text/template"
	"time"

	"billbridge/proxy/partner"

	"go.yaml.in/yaml/v4"
)

// An Event is the body that a destination with format: webhook gets.
type Event struct {
	Type      string    `json:"type"` // "billbridge." and the name of a [Kind]
	Timestamp time.Time `json:"timestamp"`
	Test      bool      `json:"test,omitempty"` // an example that an operator has sent
	Data      Data      `json:"data"`
}

// Data says what has happened. It has no personal data: neither bills nor people, and of a partner its name in the
// config and the first digits of its hash. The schema describes the fields.
type Data struct {
	Partner     string    `json:"partner,omitempty"`
	Name        string    `json:"name,omitempty"`
	From        string    `json:"from,omitempty"`
	To          string    `json:"to,omitempty"`
	Forced      bool      `json:"forced,omitempty"`
	Wave        string    `json:"wave,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Operation   string    `json:"operation,omitempty"`
	Upstream    string    `json:"upstream,omitempty"`
	Callback    string    `json:"callback,omitempty"`
	Certificate string    `json:"certificate,omitempty"`
	Ends        time.Time `json:"ends,omitzero"`
	Revision    int64     `json:"revision,omitempty"`
}

// Label returns the partner for people.
func (d Data) Label() string { return partner.Label(d.Partner, d.Name) }

// A Kind is a kind of events.
type Kind struct {
	Name, Means, Says string // Says is a template for the data
	Example           Data
}

//go:embed events.yaml
var kindsFile []byte

// Kinds returns all kinds of events.
var Kinds = sync.OnceValue(func() (all []Kind) {
	if err := yaml.Unmarshal(kindsFile, &all); err != nil {
		panic(err) // a test has read it
	}
	return all
})

const typePrefix = "billbridge."

// Event returns the example of a kind.
func (k Kind) Event(at time.Time) Event { return Event{typePrefix + k.Name, at.UTC(), true, k.Example} }

// Sentence returns an event for people.
func (e Event) Sentence() string {
	var text strings.Builder
	if e.Test {
		text.WriteString("Test: ")
	}
	for _, kind := range Kinds() {
		if typePrefix+kind.Name == e.Type {
			_ = template.Must(template.New("").Parse(kind.Says)).Execute(&text, e.Data) // a test has run it
		}
	}
	return text.String()
}

// forChats escapes what chats take for a link or a mention.
var forChats = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// body returns the body of an event for a chat, or the event.
func (e Event) body(chat bool) []byte {
	var body any = e
	if chat {
		body = map[string]string{"text": forChats.Replace(e.Sentence())}
	}
	text, _ := json.Marshal(body) // texts, numbers and times
	return text
}

//go:embed event.schema.json
var schema []byte

// Schema returns the JSON Schema of an [Event].
func Schema() ([]byte, error) { return schema, nil }
