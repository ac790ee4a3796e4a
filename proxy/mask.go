package proxy

import (
	"regexp"
	"strings"

	"billbridge/translate"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// hosts matches URLs, IP addresses and host names. A name with a single dot counts as a host only with a port or a
// common top-level domain, since texts also name fields such as bill.hash. Partners ask for the masking
// (INTERFACE.md, Error texts).
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

// octet matches one of the four numbers of an IPv4 address. It does not match the parts of an amount such as
// 1.000.000.000.
const octet = `(?:25[0-5]|2[0-4]\d|1?\d?\d)`

const label = `[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?`

// maxText bounds the text that is searched, in bytes, since the search is slow. Texts for people are shorter.
const maxText = 4 << 10

// mask replaces hosts and addresses by …, and also everything after maxText.
func mask(text string) string {
	if len(text) > maxText {
		return mask(strings.ToValidUTF8(text[:maxText], "")) + "…"
	}
	return hosts.ReplaceAllString(text, "…")
}

// maskHosts masks the text of a failure, if the config says so, and changes no other byte. The field of the text is
// that of the table; it must never come from a message (R07).
func (s *state) maskHosts(answer []byte, client translate.Form) []byte {
	name := s.config.Table.Envelope(client).Text
	text := gjson.GetBytes(answer, name)
	if !s.config.Failures.MaskHosts || text.Type != gjson.String {
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
