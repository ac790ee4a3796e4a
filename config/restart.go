package config

import "slices"

// NeedsRestart is the first key or section in which next differs from c and that a running gateway cannot change, "" if there is
// none. README.md has the same in its column "changed by".
func (c *Config) NeedsRestart(next *Config) string {
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"listen", next.Listen != c.Listen},
		{"admin.listen", next.Admin.Listen != c.Admin.Listen},
		{"admin.tls", (next.Admin.TLS == nil) != (c.Admin.TLS == nil)},
		{"tls", (next.TLS == nil) != (c.TLS == nil)},
		{"timeouts", next.Timeouts != c.Timeouts},
		{"rollout", (next.Rollout == nil) != (c.Rollout == nil)},
		{"rollout.bills", next.Rollout != nil && c.Rollout != nil && next.Rollout.Bills != c.Rollout.Bills},
		{"store.url", next.Store.URL.Reveal() != c.Store.URL.Reveal()},
		{"store.key", next.Store.Key.Reveal() != c.Store.Key.Reveal()},
		{"store.old_keys", !slices.EqualFunc(next.Store.OldKeys, c.Store.OldKeys, func(a, b Secret) bool { return a.Reveal() == b.Reveal() })},
		{"store.failover", next.Store.Failover != c.Store.Failover},
		{"callbacks.listen", next.callbackListener() != c.callbackListener()},
	} {
		if k.changed {
			return k.key
		}
	}
	return ""
}

func (c *Config) callbackListener() string {
	if c.Callbacks == nil {
		return ""
	}
	return c.Callbacks.Listen
}
