package main

import (
	"regexp"
	"strconv"
	"strings"

	"billbridge/config"
	"billbridge/proxy/relay"
)

// checkAddresses prints the callback addresses in a file that the config does not allow, and why.
func checkAddresses(c *config.Config, file string, s system) error {
	name, text, err := input(file, s.in)
	if err != nil {
		return err
	}
	check := relay.AddressCheck(c)
	n, all, invalid := 0, 0, 0
	for line := range strings.Lines(string(text)) {
		n++
		// Blanks belong to the address: they can be the reason why it is invalid.
		address := strings.TrimRight(line, "\r\n")
		if address == "" {
			continue
		}
		all++
		if reason := check(address); reason != nil {
			invalid++
			if err := printfErr(s.out, "%s:%d: %v: %s\n", name, n, reason, withoutSecrets(address)); err != nil {
				return err
			}
		}
	}
	if err := printfErr(s.out, "%d of %d addresses would be refused.\n", invalid, all); err != nil {
		return err
	}
	if invalid > 0 {
		return errReported
	}
	return nil
}

// maxPrinted bounds the printed part of an address, in bytes. Mistakes are visible at the beginning.
const maxPrinted = 200

// The parts of an address that can be secret: user and password of a URL, which can contain ? and #; query and
// fragment; and user and password of a text that is no URL.
var (
	userOfURL  = regexp.MustCompile(`(?s)^(.*?//)[^/]*@`)
	query      = regexp.MustCompile(`(?s)[?#].*`)
	userOfText = regexp.MustCompile(`(?s)^(.*?//)?.*@`)
)

// withoutSecrets quotes an address without its query, fragment, user and password. The address may not be a URL.
func withoutSecrets(address string) string {
	text := query.ReplaceAllString(userOfURL.ReplaceAllString(address, "${1}…@"), "")
	text = userOfText.ReplaceAllString(text, "${1}…@")
	if len(text) > maxPrinted {
		text = strings.ToValidUTF8(text[:maxPrinted], "") + "…"
	}
	return strconv.Quote(text)
}
