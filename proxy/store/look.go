package store

import (
	"context"
	"time"

	"billbridge/proxy/partner"
)

// A Look is a bill that the gateway reads because a callback of it may be lost.
type Look struct {
	Address
	Shown   string    // the state that the last reads showed, in the words of the caller; "" if they showed none
	Since   time.Time // when a read showed it first
	Missing time.Time // since when its callback is missing; zero: it is not
	Why     string    // why no callback was made from the read, in the words of the caller; "" if none was tried
}

const (
	// lookLasts is how long a gateway has for a claimed look before another one makes it.
	lookLasts = time.Minute
	// lookLost is how long a look can be overdue: bills of the time before looks were made are left out.
	lookLost = 30 * 24 * time.Hour
)

// DueLooks returns the partners that have bills whose look is due. Bills of invented keys are never read.
func (s *Store) DueLooks(ctx context.Context, now time.Time) ([]partner.ID, error) {
	now = s.stamp(now)
	return readAll[partner.ID](ctx, s, "finding bills to read", `
		SELECT p.partner FROM billbridge_proven p WHERE EXISTS (
			SELECT 1 FROM billbridge_addresses a
			WHERE a.partner = p.partner AND a.bill <> '' AND a.look > $1 AND a.look <= $2)
		ORDER BY p.partner`, now.Add(-lookLost), now)
}

// ClaimLook returns the bill of a partner whose look has been due for longest, and keeps others from it until
// [Store.EndLook], or for lookLasts. at is the time by the clock that gateways share; zero if there is none.
func (s *Store) ClaimLook(ctx context.Context, id partner.ID, now time.Time) (l Look, at time.Time, err error) {
	now = asStored(s.stamp(now))
	l, err = write(ctx, s, "claiming a bill to read", func(q tx) (l Look) {
		s.lock(q, shared, claims) // see betweenClaims
		row, found := find[addressRow](q, `
			UPDATE billbridge_addresses SET look = $4 WHERE id = (
				SELECT id FROM billbridge_addresses
				WHERE partner = $1 AND bill <> '' AND look > $2 AND look <= $3 ORDER BY look LIMIT 1 `+s.passOver+`
			) RETURNING `+sealedAddress, id, now.Add(-lookLost), now, now.Add(lookLasts))
		if !found {
			return l
		}
		l, err := s.keys.address(row)
		if err != nil {
			q.refuse(err) // the claim stays: others come first
			return Look{}
		}
		return l
	})
	if l.ID != "" {
		at = now
	}
	return l, at, err
}

// EndLook ends the claim of a look with what it has shown. The next one is at next; never if that is zero. If a
// callback of the bill was accepted in the meantime, nothing changes. Times are by the clock of ClaimLook.
func (s *Store) EndLook(ctx context.Context, l Look, next time.Time) error {
	return s.exec(ctx, "recording what a read showed", `
		UPDATE billbridge_addresses SET look = $3, shown = $4, since = $5, missing = $6, why = $7
		WHERE id = $1 AND look = $2`,
		l.ID, l.Address.Look, next, l.Shown, l.Since, l.Missing, l.Why)
}

// Told reports whether a callback of an order has a state of later, or one that is not known; and whether the upstream
// has ever sent a callback with the state says. Of payments this is not looked up.
func (s *Store) Told(ctx context.Context, order, later, upstream, says string) (told, tells bool, err error) {
	are, err := readOne[[2]bool](ctx, s, "reading which states were reported", `
		SELECT EXISTS (SELECT 1 FROM billbridge_callbacks told WHERE told.ordering = $1 AND told.seq > 0
			AND `+noNews("$2", "told")+`), EXISTS (SELECT 1 FROM billbridge_callbacks
			WHERE upstream = $3 AND says = $4 AND says NOT IN ('', 'paid') AND id NOT LIKE $5)`,
		order, later, upstream, says, MadePrefix+"%")
	return are[0], are[1], err
}

// Missing returns bills whose callback is missing, the last found first, at most limit, and the number of all that are
// of the partners that a prefix fits; "" is all of them.
func (s *Store) Missing(ctx context.Context, prefix partner.ID, limit int) (found []Look, all int, err error) {
	return readPart[Look](ctx, s, "listing missing callbacks",
		addressColumns+"''"+lookColumns, // the url is not needed, and may be encrypted
		" FROM billbridge_addresses WHERE missing IS NOT NULL AND partner >= $1 AND partner < $2", "missing DESC, id",
		limit, prefix, beyond(prefix))
}
