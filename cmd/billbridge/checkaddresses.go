package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"billbridge/config"
	"billbridge/proxy/relay"
)

// checkAddresses prints the callback addresses in a file that the config does not allow, and why.
func checkAddresses(c *config.Config, file string, s system) error {
	in, name := s.in, "stdin"
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		in, name = opened, file
	}
	leaveInvalid := c.Callbacks != nil && c.Callbacks.InvalidAddress == config.LeaveInvalid
	check := relay.AddressCheck(c)
	all, invalid := 0, 0
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// Blanks belong to the address: they can be the reason why it is invalid.
		if address := strings.TrimRight(line, "\r\n"); address != "" {
			all++
			if reason := check(address); reason != nil {
				invalid++
				if err := printfErr(s.out, "%s:%d: %v: %s\n", name, n, reason, withoutSecrets(address)); err != nil {
					return err
				}
			}
		}
		if err != nil {
			break
		}
	}
	outcome := "would be refused"
	if leaveInvalid {
		outcome = "would be sent unchanged (callbacks.invalid_address: leave)"
	}
	if err := printfErr(s.out, "%d of %d addresses %s.\n", invalid, all, outcome); err != nil {
		return err
	}
	if invalid > 0 && !leaveInvalid {
		return errReported
	}
	return nil
}

// maxPrinted bounds the printed part of an address, in bytes. Mistakes are visible at the beginning.
const maxPrinted = 200

// withoutSecrets quotes an address without its query, fragment, user and password. The address may not be a URL.
func withoutSecrets(address string) string {
	text := address
	if from := strings.Index(text, "//") + 2; from >= 2 { // first, because a password can contain ? and #
		authority, path, slash := strings.Cut(text[from:], "/")
		if at := strings.LastIndex(authority, "@"); at >= 0 {
			authority = "…" + authority[at:]
		}
		text = text[:from] + authority
		if slash {
			text += "/" + path
		}
	}
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end]
	}
	if at := strings.LastIndex(text, "@"); at >= 0 { // user and password, also without a scheme
		scheme := strings.Index(text, "//") + len("//")
		if scheme < len("//") || scheme > at {
			scheme = 0
		}
		text = text[:scheme] + "…" + text[at:]
	}
	if len(text) > maxPrinted {
		text = strings.ToValidUTF8(text[:maxPrinted], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
