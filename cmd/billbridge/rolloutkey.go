package main

import (
	"context"

	"billbridge/proxy/operate"
)

type rolloutKey struct {
	Add rolloutKeyAdd `cmd:""`
}

type rolloutKeyAdd struct {
	decisionFlags
	Partner given  `arg:"" placeholder:"PARTNER"`
	Hash    string `required:"" placeholder:"HASH"`
	DryRun  bool
}

// Run adds a key.
func (c *rolloutKeyAdd) Run(ctx context.Context) error {
	in := operate.NewKey{PartnerRef: operate.PartnerRef{Partner: reference(c.Partner)}, Hash: c.Hash}
	return c.do(ctx, verb{"/store/keys", "key add", c.DryRun}, &operate.AddedKey{}, in)
}
