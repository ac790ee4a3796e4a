package config

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"billbridge/translate"
)

// notShown stands in an error for a value that may be a secret.
const notShown = "…"

var (
	quotedText   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^'\s]*'`)
	envReference = regexp.MustCompile(`\$\{env:([^}]*)\}?`)
	words        = regexp.MustCompile(`[A-Za-z0-9_-]+`)

	number    = regexp.MustCompile(`^[+-]?(?:[0-9]{1,6}|[0-9]{1,10}(?:[KMGT]i?B))(?:\.[0-9]{1,3})? ?(?:ns|us|µs|ms|s|m|h|d|[KMGT]?i?B|%)?$`)
	keyName   = regexp.MustCompile(`^[A-Za-z][A-Za-z_]{0,15}$`)
	envName   = regexp.MustCompile(`^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$`)
	hostName  = regexp.MustCompile(`^(?:localhost|[a-z0-9-]{1,30}(?:\.[a-z0-9-]{1,30})*\.[a-z]{2,10})$`)
	baseURL   = regexp.MustCompile(`^((?:[a-z]{2,10}://)?)([^/?#:\[\]]*|\[[0-9a-f:.]*\])((?::[A-Za-z0-9]{0,5})?)((?:/[^?#]*)?)((?:\?[^#]*)?)((?:#.*)?)$`)
	plainFile = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,100}\.(?:pem|crt|cer|key|ya?ml|json|db|sqlite3?|txt|secret|token)$`)
)

// withoutSecrets returns the text of a problem without values that may be secrets, wherever in the file they were put by mistake. It
// checks what is in quotes, and the names of environment variables. README.md has the rule ("Errors show no secrets").
func withoutSecrets(text string) string {
	isKey := strings.HasPrefix(text, "unknown key ") || strings.Contains(text, " is already set on line ")
	known := words.FindAllString(quotedText.ReplaceAllString(text, ""), -1)
	text = quotedText.ReplaceAllStringFunc(text, func(quoted string) string {
		value, err := strconv.Unquote(quoted)
		if err != nil { // in single quotes
			value = strings.Trim(quoted, "'")
		}
		if isKey && keyName.MatchString(value) {
			return quoted
		}
		return quoted[:1] + shown(value, quoted[1:len(quoted)-1], known) + quoted[:1]
	})
	if strings.HasPrefix(text, "unknown anchor ") { // the YAML library's error for an alias
		return "an alias is not supported: write the value itself, and put a value that begins with * in quotes"
	}
	return envReference.ReplaceAllStringFunc(text, func(reference string) string {
		if name := envReference.FindStringSubmatch(reference)[1]; name == "NAME" || envName.MatchString(name) {
			return reference
		}
		return "${env:" + notShown + "}"
	})
}

// shown returns what an error shows of a value: the value as it is written there, a part, or notShown. known are the words of the error,
// which has the valid words if there are few.
func shown(value, written string, known []string) string {
	if utf8.RuneCountInString(value) <= 4 || number.MatchString(value) || isAddress(value) || isPath(value) {
		return written
	}
	for _, word := range known {
		if value == word || strings.EqualFold(value, word) || translate.DidYouMean(value, []string{word}) != "" {
			return written
		}
	}
	if m := baseURL.FindStringSubmatch(value); m != nil && !strings.Contains(value, "@") && (hostName.MatchString(m[2]) || isAddress(strings.Trim(m[2], "[]"))) {
		for i, part := range m[4:] { // path, query, fragment
			if part != "" {
				m[4+i] = part[:1] + notShown
			}
		}
		return strings.Join(m[1:], "")
	}
	return notShown
}

// isAddress reports whether a text is an IP address, a network, or one of these with a port.
func isAddress(text string) bool {
	if host, port, err := net.SplitHostPort(text); err == nil && len(port) <= 5 {
		text = host
	}
	_, err := netip.ParseAddr(text)
	_, notPrefix := netip.ParsePrefix(text)
	return err == nil || notPrefix == nil || text == "localhost" || text == ""
}

// isPath reports whether a text is a short path of a URL.
func isPath(text string) bool {
	return strings.HasPrefix(text, "/") && len(text) <= 30 && !strings.ContainsAny(text, "?#@")
}

// shownFile returns what an error shows of the path of a file: the path, if it looks like one.
func shownFile(path string) string {
	if plainFile.MatchString(path) {
		return path
	}
	return notShown
}
