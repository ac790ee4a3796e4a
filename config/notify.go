package config

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// NotifyUpstream is the upstream of events in the store, in lists and in metrics. No upstream of a config can have
// this name.
const NotifyUpstream = "notify"

// A Destination gets events of the gateway.
type Destination struct {
	// that of a chat is a secret
	URL Secret `yaml:"url" config:"required" missing:", such as https://ops.example.com/billbridge"`
	// if there is none, all
	Events []string `yaml:"events" words:"stage wave verdict doubled unknown dead missing failover certificate kill_switch"`
	Secret Secret   `yaml:"secret"` // by which the receiver of a webhook verifies the sender
	Format string   `yaml:"format" words:"webhook slack" default:"webhook"`
}

// Slack is the Format of a message for a chat.
const Slack = "slack"

// Wants reports whether the destination gets events of a kind.
func (d *Destination) Wants(kind string) bool {
	return len(d.Events) == 0 || slices.Contains(d.Events, kind)
}

// Host returns the destination without what may be secret in its URL.
func (d *Destination) Host() string {
	u, err := url.Parse(d.URL.Reveal())
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Destination returns the destination with a URL, nil if there is none.
func (c *Config) Destination(address string) *Destination {
	for i := range c.Notify {
		if c.Notify[i].URL.Reveal() == address {
			return &c.Notify[i]
		}
	}
	return nil
}

func (c *Config) checkNotify() {
	if len(c.Notify) > 0 && !c.Store.URL.IsSet() {
		c.add("notify", "events must be stored before they are delivered; "+setStore)
	}
	for i := range c.Notify {
		d, key := &c.Notify[i], fmt.Sprintf("notify[%d].", i)
		u, err := url.Parse(d.URL.Reveal())
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
			c.add(key+"url", "must be a URL such as https://ops.example.com/billbridge, without user and password")
		case c.Destination(d.URL.Reveal()) != d:
			c.add(key+"url", "is the url of another destination, too: name all events in one of them")
		}
		digits, ok := strings.CutPrefix(d.Secret.Reveal(), "whsec_")
		secret, err := base64.StdEncoding.DecodeString(digits)
		switch {
		case d.Format == Slack && d.Secret.IsSet():
			c.add(key+"secret", "is for format: webhook only: chats verify no signature")
		case d.Format != Slack && (!ok || err != nil || len(secret) < 24 || len(secret) > 64):
			c.add(key+"secret", "must be whsec_ and 24 to 64 bytes in base64: echo whsec_$(openssl rand -base64 32)")
		}
		if d.Events != nil && len(d.Events) == 0 {
			c.add(key+"events", "is empty: name events, or remove the key for all of them")
		}
	}
}
