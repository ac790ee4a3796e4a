package config

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// A KeyPair is a certificate and its key in PEM files, which are read again when they change. It is safe for
// concurrent use.
type KeyPair struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`

	mu     sync.Mutex
	pair   *tls.Certificate
	stamps [2]time.Time // modification times of the files that pair was read from
}

// Certificate is the pair as the files have it now. It is asked for at every handshake, which is where a
// renewed certificate is first needed; a watcher would be a goroutine more and would know no sooner. While the
// files do not fit together, as they do not between two writes, the last good pair stays.
func (k *KeyPair) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var stamps [2]time.Time
	for i, path := range []string{k.Cert, k.Key} {
		// Stat follows links, so a swapped link is a change too.
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info.ModTime()
		}
	}
	if k.pair != nil && stamps == k.stamps {
		return k.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(k.Cert, k.Key)
	if err != nil {
		if k.pair != nil {
			return k.pair, nil
		}
		return nil, err
	}
	k.pair, k.stamps = &pair, stamps
	return k.pair, nil
}
