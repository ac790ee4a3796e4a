package main

import (
	"context"
	"net/http"

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
func (c *rolloutKeyAdd) Run(ctx context.Context, s system) (err error) {
	in := operate.NewKey{PartnerRef: operate.PartnerRef{Partner: reference(c.Partner)}, Hash: c.Hash, Preview: c.DryRun}
	if !c.DryRun {
		if in.Author, err = c.author(ctx, s); err != nil {
			return err
		}
	}
	var added operate.AddedKey
	if err := c.send(ctx, http.MethodPost, "/store/keys", &added, in); err != nil {
		return err
	}
	return show(s.out, "key add", added)
}
