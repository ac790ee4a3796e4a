package config

import (
	"fmt"
	"slices"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// checkHash checks that the table says how the hashes are computed that the gateway has to compute.
func (c *Config) checkHash() {
	hasHash := slices.ContainsFunc(c.Table.Operations(), (*translate.Operation).HasHash)
	for _, u := range c.Upstreams {
		if u.Hash != HashPass && !hasHash {
			c.addProblem(fmt.Sprintf("%s needs hash in the table, which says how hashes are computed", u.Hash),
				"upstreams", u.Name, "hash")
		}
	}
	read, err := billing.ReadOperation(c.Table)
	reads := c.Rollout != nil || c.Failures.Explain > 0 || c.Callbacks != nil && c.Callbacks.Reconcile != nil
	if err == nil && read.HasHash() && reads {
		c.addf("table", "%s has a hash, which the gateway's own reads have not: leave out rollout, "+
			"failures.explain and callbacks.reconcile", read.Name)
	}
}

// checkHashSecret checks the forms of the secrets of a partner.
func (c *Config) checkHashSecret(secrets map[string]Secret, at ...string) {
	for form := range secrets {
		if forms := c.Table.Forms(); !slices.Contains(forms[:], translate.Form(form)) { // it may be a secret
			c.addProblem(fmt.Sprintf("has a form that the table does not have; it has %s and %s",
				forms[0], forms[1]), at...)
		}
	}
}
