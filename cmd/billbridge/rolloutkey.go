package main

import (
	"context"

	"billbridge/proxy/operate"
)

type rolloutKey struct {
	Add rolloutKeyAdd `cmd:"" help:"Make a new key one of a partner: its stage, bills, counts and limits stay."`
}

type rolloutKeyAdd struct {
	decisionFlags
	Partner given  `arg:"" placeholder:"PARTNER" help:"The partner: its name in the config, or at least the first 12 hex digits of the SHA-256 of its first key."`
	Hash    string `required:"" placeholder:"HASH" help:"The SHA-256 of the new key, all 64 hex digits."`
	DryRun  bool   `help:"Print what would change, and change nothing."`
}

// Run adds a key.
func (c *rolloutKeyAdd) Run(ctx context.Context) error {
	in := operate.NewKey{PartnerRef: operate.PartnerRef{Partner: reference(c.Partner)}, Hash: c.Hash, Preview: c.DryRun}
	return c.showPosted(ctx, "/store/keys", "key add", &operate.AddedKey{}, in)
}
