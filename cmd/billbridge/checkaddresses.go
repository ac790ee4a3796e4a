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

// checkAddresses prints which callback addresses of partners are never called by the config, and why.
func checkAddresses(c *config.Config, file string, s surroundings) error {
	in, name := s.in, "stdin"
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		in, name = opened, file
	}
	left := c.Callbacks != nil && c.Callbacks.InvalidAddress == config.LeaveInvalid
	check := relay.AddressCheck(c)
	all, wrong := 0, 0
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// A call's address has its blanks, and is refused for some: only the end of the line is ours.
		if address := strings.TrimRight(line, "\r\n"); address != "" {
			all++
			if mistake := check(address); mistake != nil {
				wrong++
				if _, err := fmt.Fprintf(s.out, "%s:%d: %v: %s\n", name, n, mistake, withoutSecrets(address)); err != nil {
					return err
				}
			}
		}
		if err != nil {
			break
		}
	}
	outcome := "would be refused"
	if left {
		outcome = "would go out as they are (callbacks.invalid_address: leave)"
	}
	if _, err := fmt.Fprintf(s.out, "%d of %d addresses %s.\n", wrong, all, outcome); err != nil {
		return err
	}
	if wrong > 0 && !left {
		return errRefused
	}
	return nil
}

// longestShown bounds what is printed of an address, in bytes. What is wrong shows at its beginning.
const longestShown = 200

// withoutSecrets is an address as it can be printed, on one line. It may be no URL at all.
func withoutSecrets(address string) string {
	shown := address
	if from := strings.Index(shown, "//") + 2; from >= 2 { // a password may hold a ? or #
		authority, path, slash := strings.Cut(shown[from:], "/")
		if at := strings.LastIndex(authority, "@"); at >= 0 {
			authority = "…" + authority[at:]
		}
		shown = shown[:from] + authority
		if slash {
			shown += "/" + path
		}
	}
	if end := strings.IndexAny(shown, "?#"); end >= 0 {
		shown = shown[:end]
	}
	if at := strings.LastIndex(shown, "@"); at >= 0 { // a user and a password stand before it
		scheme := strings.Index(shown, "//") + len("//")
		if scheme < len("//") || scheme > at {
			scheme = 0
		}
		shown = shown[:scheme] + "…" + shown[at:]
	}
	if len(shown) > longestShown {
		shown = strings.ToValidUTF8(shown[:longestShown], "") + "…"
	}
	return fmt.Sprintf("%q", shown)
}
