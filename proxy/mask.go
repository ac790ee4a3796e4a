package proxy

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// hosts finds what tells where a backend lives: URLs, IP addresses, host names, and name:port where the name has a
// digit or hyphen or is localhost. A name with a single dot is a host's only with a port or an ending that hosts
// have: texts of the service also name fields, such as bill.hash. Partners ask not to see hosts
// (translate/README.md, Error texts).
var hosts = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`(?:jdbc:)?[a-z][a-z0-9+.-]*://[^\s"'<>,;)]+`,
	`\[[0-9a-f:.]*:[0-9a-f:.]*\](?::\d{1,5})?`,
	`\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{0,4}(?:::?[0-9a-f]{1,4})*\b`, // a time of day has fewer colons
	`[0-9a-f:]*::[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*`,
	`\b` + octet + `(?:\.` + octet + `){3}(?::\d{1,5})?\b`,
	`\b(?:` + label + `\.){2,}[a-z][a-z0-9-]*[a-z0-9](?::\d{1,5})?\b`,
	`\b` + label + `\.(?:com|net|org|kr|io|dev|app|cloud|local|lan|internal|corp)(?::\d{1,5})?\b`,
	`\b` + label + `\.[a-z][a-z0-9-]*:\d{1,5}\b`,
	`\b(?:localhost|[a-z]+[0-9-][a-z0-9-]*:\d{2,5})(?::\d{1,5})?\b`,
}, "|"))

// octet is one of the four numbers of an address; an amount such as 1.000.000.000 has others.
const octet = `(?:25[0-5]|2[0-4]\d|1?\d?\d)`

const label = `[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?`

// longestText is how much of a text is looked at. No text for a person is longer, and the search takes its time.
const longestText = 4 << 10

// mask replaces hosts and addresses, and what of a text is too long to be looked at.
func mask(text string) string {
	if len(text) > longestText {
		return mask(strings.ToValidUTF8(text[:longestText], "")) + "…"
	}
	return hosts.ReplaceAllString(text, "…")
}

// maskHosts masks the text of a failure's envelope and leaves every other byte as it is. name is the table's
// word for the text, never one of the message.
func maskHosts(answer []byte, name string) []byte {
	text := gjson.GetBytes(answer, name)
	if text.Type != gjson.String {
		return answer
	}
	masked := mask(text.Str)
	if masked == text.Str {
		return answer
	}
	edited, err := sjson.SetBytes(answer, name, masked)
	if err != nil {
		return answer
	}
	return edited
}
