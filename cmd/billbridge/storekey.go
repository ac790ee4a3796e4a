package main

import (
	"context"
	"fmt"

	"billbridge/config"
	"billbridge/proxy/store"
)

type storeKey struct {
	OldKey given  `placeholder:"FILE"`
	Config string `required:"" placeholder:"FILE"`
}

// Run encrypts the store with the key of the config.
func (c *storeKey) Run(ctx context.Context, s system) error {
	checked, err := config.Load(c.Config, s.env)
	if err != nil {
		return err
	}
	if !checked.Store.URL.IsSet() {
		return fmt.Errorf("there is no key to change: %s has no store section", c.Config)
	}
	var old []byte
	if c.OldKey != "" {
		text, err := readKey(string(c.OldKey))
		if err != nil {
			return err
		}
		if old, err = config.StoreKey(config.NewSecret(text)); err != nil {
			return fmt.Errorf("%s: the key %w", c.OldKey, err)
		}
	}
	n, err := store.ChangeKey(ctx, checked.Store.URL.Reveal(), old, checked.Store.KeyBytes())
	if err != nil {
		return err
	}
	printf(s.out, "Changed the key of the store. Callbacks and callback addresses: %d.\n", n)
	return nil
}
