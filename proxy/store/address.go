package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// An Address is a callback address of the gateway, which an upstream got in place of the partner's own.
type Address struct {
	ID        string // the unique part of its path: lower-case hex digits that cannot be guessed
	Upstream  string // that got it
	Operation string // of the call that carried it
	Partner   partner.ID
	Bill      string    // "" for a registration, and for a bill without a known id
	Store     string    // the merchant of a registration, hashed; "" means that the address is of a bill
	Form      string    // the partner's
	URL       string    // the partner's own address
	Created   time.Time // must not be zero
	Until     time.Time // the end of the bill; zero if it is not known, and for a registration

	// The member and the merchant of the call, with which the bill is read; "" if they are not known.
	Member, Merchant string
	Look             time.Time // when the bill is read next ([Store.ClaimRead]); zero: not
}

// The digits of a sealed id.
const (
	SharedDigits = 12 // a hash that all addresses with the same upstream, operation, partner, form and url have
	RandomDigits = 12
	sealDigits   = 8 // a hash of the others and the upstream
)

// Sealed makes the id of an address from RandomDigits, its ID until then. If the row is lost, another one with the same
// shared digits shows what it had.
func (k *keyring) Sealed(a Address) string {
	key := k.sealing[0]
	id := a.shared(key) + a.ID
	return id + keyedHash(key, id, a.Upstream)[:sealDigits]
}

func (a Address) shared(key []byte) string {
	return keyedHash(key, a.Upstream, a.Operation, string(a.Partner), a.Form, a.URL)[:SharedDigits]
}

// SealedFor reports whether a gateway on this store, or with one of the keys, made an id for an upstream.
func (k *keyring) SealedFor(upstream, id string) bool {
	return k.sealedBy(upstream, id, func([]byte) bool { return true })
}

// sealedBy reports whether one of the keys for which is returns true made an id for an upstream.
func (k *keyring) sealedBy(upstream, id string, is func(key []byte) bool) bool {
	const sealed = SharedDigits + RandomDigits
	return len(id) == sealed+sealDigits && slices.ContainsFunc(k.sealing, func(key []byte) bool {
		return keyedHash(key, id[:sealed], upstream)[:sealDigits] == id[sealed:] && is(key)
	})
}

// Bind stores an address before the upstream gets it, and returns the id to use: a.ID if the address is new.
//
// Addresses of registrations are not removed by Sweep: the upstream may have refused the last registration and still
// use an earlier one. A registration with the same upstream, operation, partner, store, form and url as a stored one
// gets the stored id, so that repeated registrations do not fill the store. Two calls for one bill store two
// addresses: the upstream may use either.
//
// If the call certainly had no effect, Unbind takes it back.
//
// With a change for the audit log, the address replaces one with its id.
func (s *Store) Bind(ctx context.Context, a Address, replaces ...Change) (id string, err error) {
	if a.ID == "" || a.Created.IsZero() {
		return "", errors.New("store: an address needs an id and the time it was made")
	}
	if a.Store != "" && a.Bill != "" {
		// The next registration would get this id, and its callbacks would be taken for those of the bill.
		return "", errors.New("store: an address is that of a bill or that of a registration, not of both")
	}
	insert, key := s.binding(a, 0), a.ID
	if a.Store != "" {
		key = a.registration()
	}
	const doing = "keeping a callback address"
	bind := func(q tx) string {
		for _, c := range replaces {
			s.lock(q, shared, claims) // see betweenClaims
			q.exec("DELETE FROM billbridge_addresses WHERE id = $1", a.ID)
			audited(q, c)
		}
		return value[string](q, insert.text+"UPDATE SET holds = was.holds + 1 RETURNING id", insert.args...)
	}
	if len(replaces) > 0 {
		return write(ctx, s.db, doing, bind)
	}
	return record(ctx, s.db, &entry{
		doing: doing, key: []string{"url", key}, statements: [3]statement{1: {insert.text + "NOTHING", insert.args}},
	}, a.ID, bind)
}

// binding is the statement that stores an address, up to what it does if there is one of the registration. With the
// version of a bill, it stores nothing unless the bill of the address is stored in it.
func (s *Store) binding(a Address, version int64) statement {
	// An end before the creation is not plausible: 0001-01-01 may mean a bill without an end. The next sweep
	// must not remove the address.
	over := a.Until
	if over.Before(a.Created) {
		over = a.Created
	}
	// Without an end, retention counts from now, by the machine's clock or the store's, whichever is ahead.
	if storeTime := s.Clock(a.Created).StoreTime; a.Until.IsZero() && storeTime.After(over) {
		over = storeTime
	}
	ends := any(over)
	var registration, unproven any
	if a.Store != "" {
		ends, registration = nil, a.registration()
	}
	if !s.KnownProven(a.Partner) {
		unproven = a.Partner
	}
	args := []any{
		a.ID, a.Upstream, a.Operation, a.Partner, a.Bill, a.Store, a.Form,
		s.keyring.sealText(a.URL, urlOfAddress(a.ID)),
		registration, a.Created, a.Until, ends, unproven, storedName(a.Member), storedName(a.Merchant), s.stamp(a.Look),
	}
	where := "TRUE"
	if version != 0 {
		where = "EXISTS (SELECT 1 FROM billbridge_bills WHERE partner = $4 AND bill = $5 AND version = $17)"
		args = append(args, version)
	}
	return statement{`
		INSERT INTO billbridge_addresses AS was (` + addressColumns + `url, registration, created, until, ends, holds,
				unproven, member, merchant, look)
		SELECT $1, $2, $3, ` + ofPartner("$4") + `, $5, $6, $7, $8, $9, $10, $11, $12, 1, $13, $14, $15, $16
		WHERE ` + where + " ON CONFLICT (registration) DO ", args}
}

// Unbind takes back the Bind of one call that certainly had no effect. The address is removed if no other call has
// it. An address that has been called stays, whatever the upstream has answered.
func (s *Store) Unbind(ctx context.Context, id string) error {
	return s.update(ctx, "removing a callback address", func(q tx) {
		// First the number, which locks the row: a Bind at the same time either counts, or finds no row and makes a
		// new one.
		q.exec(`
			UPDATE billbridge_addresses SET holds = holds - 1
			WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks WHERE address = $1)`, id)
		q.exec("DELETE FROM billbridge_addresses WHERE id = $1 AND holds <= 0", id)
	})
}

// registration is equal for two registrations that need only one row. It is a hash because an address is too long for
// an index of PostgreSQL.
func (a Address) registration() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		a.Upstream, a.Operation, string(a.Partner), a.Store, a.Form, a.URL,
	})))
}

// Address returns the address with an id, or ErrNotFound. If the row was lost and another one shows what it had
// ([Store.Sealed]), the address has no bill, no store and no merchant.
func (s *Store) Address(ctx context.Context, id string) (Address, error) {
	stored := func(where string, args ...any) (Address, error) {
		return read(ctx, s.db, "reading a callback address", func(q tx) Address {
			row := value[Look](q, "SELECT "+sealedAddress+" FROM billbridge_addresses WHERE "+where, args...)
			return opened(q, row, s.keyring.address).Address
		})
	}
	a, err := stored("id = $1", id)
	if errors.Is(err, ErrNotFound) && len(id) > SharedDigits {
		shared := id[:SharedDigits]
		if a, err = stored("id > $1 AND id < $2 LIMIT 1", shared, shared+"g"); err == nil &&
			!s.sealedBy(a.Upstream, id, func(key []byte) bool { return a.shares(key, shared, s.PartnerKeys()) }) {
			err = ErrNotFound
		}
		a.ID, a.Bill, a.Store, a.Member, a.Merchant = id, "", "", "", ""
	}
	return a, err
}

// shares reports whether the id of an address begins with the shared digits by one of the keys of its partner: by
// which the id was made is not in the row.
func (a Address) shares(key []byte, shared string, further map[partner.ID]partner.ID) bool {
	of := a.Partner
	if a.shared(key) == shared {
		return true
	}
	for further, id := range further {
		if a.Partner = further; id == of && a.shared(key) == shared {
			return true
		}
	}
	return false
}

// The columns of a Look, before and after its url.
const (
	addressColumns = "id, upstream, operation, partner, bill, store, form, "
	lookColumns    = ", created, until, member, merchant, look, shown, since, missing, why"
	sealedAddress  = addressColumns + "url" + lookColumns
)

// address decrypts an address.
func (k *keyring) address(l Look) (_ Look, err error) {
	l.URL, err = k.openText(l.URL, urlOfAddress(l.ID))
	return l, err
}

// A Look is a bill that the gateway reads because one of its callbacks may be lost.
type Look struct {
	Address
	Shown   string    // the state that the last reads showed, in the words of the caller; "" if they showed none
	Since   time.Time // when a read showed it first
	Missing time.Time // since when its callback is missing; zero: it is not
	Why     string    // why no callback was made from the read, in the words of the caller; "" if none was tried
}

// EndLook ends the claim of a look with what it has shown. The next one is at next; never if that is zero. If a
// callback of the bill was accepted in the meantime, nothing changes. Times are by the clock of ClaimRead.
func (s *Store) EndLook(ctx context.Context, l Look, next time.Time) error {
	return s.exec(ctx, "recording what a read showed", `
		UPDATE billbridge_addresses SET look = $3, shown = $4, since = $5, missing = $6, why = $7
		WHERE id = $1 AND look = $2`,
		l.ID, l.Address.Look, next, l.Shown, l.Since, l.Missing, l.Why)
}

// Told reports whether a callback of an order and a merchant has a state of later, or one that is not known; and
// whether the upstream has ever sent a callback with the state says. Of payments this is not looked up.
func (s callbacks) Told(
	ctx context.Context, order, merchant, later, upstream, says string,
) (told, tells bool, err error) {
	are, err := readOne[[2]bool](ctx, s.db, "reading which states were reported", `
		SELECT EXISTS (SELECT 1 FROM billbridge_callbacks told WHERE told.ordering = $1 AND told.seq <> 0
			AND `+noNews("$2", "$6", "told")+`), EXISTS (SELECT 1 FROM billbridge_callbacks
			WHERE upstream = $3 AND says = $4 AND says NOT IN ('', 'paid') AND id NOT LIKE $5)`,
		order, later, upstream, says, MadePrefix+"%", merchant)
	return are[0], are[1], err
}

// Missing returns bills whose callback is missing, the last found first, at most limit, and the number of all, which is
// exact up to countAtMost: of one partner, or of all for "".
func (s callbacks) Missing(ctx context.Context, id partner.ID, limit int) (found []Look, all int, err error) {
	var c conditions
	order := "missing DESC"
	if c.add("missing IS NOT NULL"); id != "" {
		c.add("CAST(partner || '' AS TEXT) = %s", id) // only one index has that
	} else {
		c.add("partner <> ''")
		order = "missing DESC, id DESC"
	}
	rows := fmt.Sprintf(" FROM billbridge_addresses WHERE %s ORDER BY %s LIMIT ", c, order)
	found, err = readAll[Look](ctx, s.db, "listing missing callbacks",
		fmt.Sprint("SELECT ", addressColumns, "''", lookColumns, rows, limit), c.args...) // without the url
	if all = len(found); all == limit && err == nil {
		all, err = readOne[int](ctx, s.db, "counting missing callbacks",
			fmt.Sprint("SELECT count(*) FROM (SELECT 1", rows, countAtMost, ") AS counted"), c.args...)
	}
	return found, all, err
}
