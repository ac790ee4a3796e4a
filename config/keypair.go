package config

import (
	"crypto/tls"
	"os"
	"slices"
	"sync"
	"time"
)

// A KeyPair is a certificate and its key in PEM files. The files are read again when they change. It is safe for
// concurrent use.
type KeyPair struct {
	Cert string `yaml:"cert" config:"required,path"`
	Key  string `yaml:"key" config:"required,path"`

	mu     sync.Mutex
	pair   *tls.Certificate
	stamps [2]time.Time // modification times of the files that pair was read from
}

// Certificate returns the current pair. Call it for every handshake: it reads the files again if their modification
// times have changed. While the files do not match, as between the writes of a renewal, it returns the last valid
// pair.
func (k *KeyPair) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var stamps [2]time.Time
	for i, path := range []string{k.Cert, k.Key} {
		// Stat follows links, so the change of a link is noticed too.
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info.ModTime()
		}
	}
	if k.pair != nil && stamps == k.stamps {
		return k.pair, nil
	}
	switch pair, err := tls.LoadX509KeyPair(k.Cert, k.Key); {
	case err == nil:
		k.pair, k.stamps = &pair, stamps
	case k.pair == nil:
		return nil, err
	}
	return k.pair, nil
}

// NotAfter returns when the certificate ends, or the zero time if the files cannot be read.
func (k *KeyPair) NotAfter() time.Time {
	if pair, err := k.Certificate(); err == nil {
		return pair.Leaf.NotAfter
	}
	return time.Time{}
}

// A NamedPair is a pair of the config. Its kind is server, of a listener, or client, which an upstream gets to see.
// Its name is the key in the config, or the upstream.
type NamedPair struct {
	*KeyPair
	Kind, Name string

	key string
}

// KeyPairs returns the pairs of the config.
func (c *Config) KeyPairs() []NamedPair {
	all := []NamedPair{{c.TLS, "server", "tls", "tls.cert"}, {c.Admin.TLS, "server", "admin.tls", "admin.tls.cert"}}
	for _, u := range c.Upstreams {
		if u.TLS != nil {
			all = append(all, NamedPair{u.TLS.Client, "client", u.Name, "upstreams." + u.Name + ".tls.client.cert"})
		}
	}
	return slices.DeleteFunc(all, func(p NamedPair) bool { return p.KeyPair == nil })
}
