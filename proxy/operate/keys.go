package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A NewKey is a key that becomes one of a partner. With Preview nothing is changed, and By can be left out.
type NewKey struct {
	Author
	PartnerRef
	Hash    string `json:"hash,omitzero"` // the SHA-256 of the key, all 64 digits
	Preview bool   `json:"preview,omitzero,string"`
}

// An AddedKey is what became of a key, or its preview.
type AddedKey struct {
	Who
	Key     string       `json:"key"`   // its first digits
	Bills   int          `json:"bills"` // that were stored under the key, and are the partner's now
	Keys    []partner.ID `json:"keys"`  // all keys of the partner afterwards, the first one is its identity
	Preview bool         `json:"preview,omitempty"`
}

// AddKey makes a key one of a partner. What the store has of the key becomes the partner's.
func (o storeVerbs) AddKey(ctx context.Context, n NewKey) (c AddedKey, err error) {
	if !n.Preview || n.By != "" {
		if err := n.check(); err != nil {
			return c, err
		}
	}
	key, _ := partner.Parse(n.Hash)
	if !key.IsFull() { // the text may be a key
		return c, badRequest("hash must be all 64 lower-case hex digits of the SHA-256 of the key")
	}
	decided, err := o.Store.Rollout(ctx) // with keys that another gateway has added
	if err != nil {
		return c, err
	}
	id, err := o.named(ctx, n.Partner)
	if err == nil && o.Rollout != nil {
		err = o.againstKey(ctx, decided, id, key)
	}
	if err != nil {
		return c, err
	}
	k := store.PartnerKey{Key: key, Partner: id}
	if n.Preview {
		c.Bills, err = o.Store.CheckKey(ctx, k)
	} else {
		c.Bills, err = o.Store.AddKey(ctx, k, n.author(), o.Now(), evidence.MergeStored)
	}
	if conflicting := (*store.KeyConflict)(nil); errors.As(err, &conflicting) {
		text := conflicting.Text
		for i, bill := range conflicting.Bills {
			text += []string{": ", ", ", ", "}[i] + routing.ShownBill(bill)
		}
		return c, conflict("Not changed: %s.", text)
	}
	if err != nil {
		return c, err
	}
	if !n.Preview {
		o.Logger.Warn("a key was added to a partner", "by", n.By, "partner", id.Short(), "key", key.Short())
		if _, err := o.Store.Rollout(context.WithoutCancel(ctx)); err != nil {
			return c, fmt.Errorf(
				"the key is added, but not yet in effect on this gateway, which could not read it: %w", err,
			)
		}
	}
	c.Who, c.Key, c.Preview = o.who(id), key.Short(), n.Preview
	if c.Keys = append([]partner.ID{id}, o.furtherKeys(id)...); n.Preview {
		c.Keys = append(c.Keys, key)
	}
	return c, nil
}

// againstKey refuses a key if the rollout relies for the partner on what is not certain for the key: that no call is
// under way past the gateway, and that the old backend has no bill that the ledger lacks.
func (o storeVerbs) againstKey(ctx context.Context, decided store.Rollout, id, key partner.ID) error {
	first, err := o.Store.FirstSeen(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if settles := o.settles(first); o.Now().Before(settles) {
		return conflict("Not changed: a call with the key was first seen at %s. "+
			"Try again after its settling period, at %s.", first.Format(time.RFC3339), settles.Format(time.RFC3339))
	}
	at := o.Rollout.Settings().Positions(decided)
	if at(id).Stage == routing.StageDrained && at(key).Stage != routing.StageDrained {
		return conflict("Not changed: the partner is drained, and the key is not: bills of the key at the old " +
			"backend that are not in the ledger would not be found. Set the stage of the partner to new first.")
	}
	return nil
}

// identity returns the partner that a key belongs to.
func (o *core) identity(key partner.ID) partner.ID {
	if o.Store == nil {
		return partner.ID(o.Config().Identity(string(key)))
	}
	return o.Store.Identity(key)
}

// furtherKeys returns the keys of a partner in the store without its first one.
func (o *core) furtherKeys(id partner.ID) (keys []partner.ID) {
	if o.Store == nil {
		return nil
	}
	for key, of := range o.Store.PartnerKeys() {
		if of == id {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// CheckKeys compares the keys of a config with those of the store, on which all gateways agree. The error says which
// keys of the config have no effect: the store may have bills under them. extra are those that only the store has;
// they stay in effect, so that no bill is created again.
func CheckKeys(s *store.Store, c *config.Config) (extra []string, err error) {
	for _, p := range c.Partners {
		for _, key := range p.Keys {
			if key, first := partner.ID(key), partner.ID(p.Hash); s.Identity(key) != first {
				err = errors.Join(err, fmt.Errorf("partners: key %s of %s has no effect, because the store does not "+
					"have it: run billbridge rollout key add %s --hash %s",
					key.Short(), partner.Label(first.Short(), p.Name), first, key))
			}
		}
	}
	for key, of := range s.PartnerKeys() {
		if c.Identity(string(key)) != string(of) {
			extra = append(extra, key.Short()+" of "+of.Short())
		}
	}
	slices.Sort(extra)
	return extra, err
}
