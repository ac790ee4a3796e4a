package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// A PartnerKey says that a key is a further one of a partner, by their hashes. The partner's ID is the hash of its
// first key.
type PartnerKey struct{ Key, Partner partner.ID }

// ErrFurtherKey: a bill cannot be recorded under a key that has become a further one of a partner. The caller has not
// read that yet.
var ErrFurtherKey error = sentinel("the key has become a further one of a partner")

// furtherKey is in the error of the trigger on billbridge_bills.
const furtherKey = "billbridge: a further key of a partner has no bills of its own"

// A KeyConflict is why a key cannot become one of a partner.
type KeyConflict struct {
	Text  string
	Bills []string // the first three that the text is about
}

func (c *KeyConflict) Error() string { return c.Text }

// ofPartner is a column of a statement: the partner that a key belongs to, which may have become its partner a moment
// ago.
func ofPartner(key string) string {
	return "coalesce((SELECT k.partner FROM billbridge_partner_keys k WHERE k.key_hash = " + key + "), " + key + ")"
}

// PartnerKeys returns the partner of each further key, as Rollout last read them. The caller must not change the map.
func (s *partners) PartnerKeys() map[partner.ID]partner.ID { return *s.keys.Load() }

// Identity returns the partner that a key belongs to: a further key has the ID of its partner, every other key its own
// hash.
func (s *partners) Identity(key partner.ID) partner.ID { return cmp.Or(s.PartnerKeys()[key], key) }

// readKeys reads the further keys of all partners.
func (s *partners) readKeys(q tx) {
	all := pairs[partner.ID, partner.ID](q, "SELECT key_hash, partner FROM billbridge_partner_keys")
	if q.err == nil {
		s.keys.Store(&all)
	}
}

// keyBills is the most bills that AddKey moves: it keeps others from writing meanwhile, who wait for a second.
const keyBills = 5000

// CheckKey returns the number of bills that a key would bring to a partner, or a [*KeyConflict].
func (s *partners) CheckKey(ctx context.Context, k PartnerKey) (bills int, err error) {
	return read(ctx, s.db, "checking a key", func(q tx) int { return checkKey(q, k) })
}

func checkKey(q tx, k PartnerKey) int {
	if !k.Key.IsFull() || !k.Partner.IsFull() || k.Key == k.Partner {
		q.fail(&KeyConflict{Text: "a key and its partner need all digits of their hashes, which must differ"})
	}
	of, further := find[PartnerKey](q,
		"SELECT key_hash, partner FROM billbridge_partner_keys WHERE key_hash IN ($1, $2)", k.Key, k.Partner)
	if further {
		text := "key " + of.Key.Short() + " is one of partner " + of.Partner.Short() + " already"
		q.fail(&KeyConflict{Text: text})
	}
	if n := value[int](q, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM billbridge_bills WHERE partner = $1 "+
		"ORDER BY bill LIMIT %d) AS held", keyBills+1), k.Key); n > keyBills {
		q.fail(&KeyConflict{Text: fmt.Sprintf("more than %d bills are stored under the key, and at most so many can "+
			"become those of another partner, since all creates wait for that. Name the key with more bills first",
			keyBills)})
	}
	const pending = " FROM billbridge_bills WHERE partner = $1 AND state = 'pending'"
	if n := value[int](q, "SELECT count(*)"+pending, k.Key); n > 0 {
		q.fail(&KeyConflict{
			fmt.Sprintf("%d creates with the key are under way or have an unknown outcome", n),
			list[string](q, "SELECT bill"+pending+" ORDER BY bill LIMIT 3", k.Key),
		})
	}
	bills := value[int](q, `SELECT count(*) FROM billbridge_bills WHERE partner = $1
		AND (state IN ('pending', 'owned') OR unknown IS NOT NULL OR doubled IS NOT NULL)`, k.Key)
	conflict := &KeyConflict{}
	for _, pair := range sharedBills(q, k) {
		if _, ok := ledger.Merge(pair[0], pair[1]); !ok {
			conflict.Bills = append(conflict.Bills, pair[0].ID)
		}
	}
	if n := len(conflict.Bills); n > 0 {
		conflict.Bills = conflict.Bills[:min(n, 3)]
		conflict.Text = fmt.Sprintf("%d bill ids are at one backend under the key and at the other one under the "+
			"partner. Assign each to one backend under both: billbridge bills read --assign", n)
		q.fail(conflict)
	}
	return bills
}

// sharedBills are the bills that are stored under a key and under its partner: first that of the partner.
func sharedBills(q tx, k PartnerKey) (pairs [][2]ledger.Bill) {
	for _, bill := range list[string](q, `SELECT bill FROM billbridge_bills b WHERE partner = $1 AND (
		SELECT o.version FROM billbridge_bills o WHERE o.partner = $2 AND o.bill = b.bill) > 0 ORDER BY bill`,
		k.Key, k.Partner) {
		pairs = append(pairs, [2]ledger.Bill{storedBill(q, k.Partner, bill), storedBill(q, k.Key, bill)})
	}
	return pairs
}

// AddKey makes a key one of a partner: all rows that are stored under the key become those of the partner, and later
// calls with it are the partner's. The stage of the partner applies, and merge merges counts as in AddCounts. Calls of
// other gateways that do not know the key yet are refused before anything is sent. It returns the number of bills, or
// a [*KeyConflict]. There is no inverse: the ledger does not say with which key a bill was created.
func (s *partners) AddKey(
	ctx context.Context, k PartnerKey, by Author, at time.Time, merge func(have, more []byte) ([]byte, error),
) (bills int, err error) {
	if err := checkDecision(by, at); err != nil {
		return 0, err
	}
	c := Change{
		Action: KeyAdded, By: by.Name, Reason: by.Reason, At: at, Partner: k.Partner, Subject: k.Key.Short(),
	}
	return write(ctx, s.db, "adding a key", func(q tx) (bills int) {
		s.betweenClaims(q) // who locks rows first and changes them then has the lock of claims: else both would wait
		changed(q, c, func(q tx, c *Change) {
			s.lock(q, exclusive, counts)
			// What others are recording under the key must be seen here, or be refused. The tables are in the order in
			// which other transactions write to them.
			if s.postgres {
				q.exec("LOCK TABLE billbridge_bills, billbridge_callbacks, billbridge_addresses, " +
					"billbridge_seen, billbridge_proven IN SHARE ROW EXCLUSIVE MODE")
			}
			bills = checkKey(q, k)
			was, _ := find[position](q, "SELECT stage, percent FROM billbridge_stages WHERE partner = $1", k.Key)
			c.From, c.FromPercent = was.Stage, was.Percent
			for _, n := range list[struct {
				Version string
				Counts
			}](q, `DELETE FROM billbridge_counts WHERE partner = $1
				RETURNING version, partner, operation, data, marked, added`, k.Key) {
				n.Partner = k.Partner
				addCounts(q, n.Version, n.Counts, n.Added, merge)
			}
			for _, pair := range sharedBills(q, k) {
				both, _ := ledger.Merge(pair[0], pair[1])
				statement, err := storing(&both, &pair[0])
				q.fail(err)
				q.exec(statement.text, statement.args...)
				q.exec("DELETE FROM billbridge_bills WHERE partner = $1 AND bill = $2", k.Key, both.ID)
			}
			orders := list[string](q, "SELECT "+orderOfPartner+" FROM billbridge_callbacks "+
				"WHERE partner = $2 AND $1 <> ''",
				k.Partner, k.Key)
			for _, statement := range mergeKey {
				q.exec(statement, k.Partner, k.Key)
			}
			markAll(q, at, "ordering "+fmt.Sprintf(s.each, "$2"), texts(orders))
			q.exec("INSERT INTO billbridge_partner_keys (key_hash, partner) VALUES ($1, $2)", k.Key, k.Partner)
		})
		return bills
	})
}

// orderOfPartner is the order of a callback of a key, $2, when that is one of a partner, $1.
const orderOfPartner = "CASE WHEN substr(ordering, 1, 65) = $2 || ' ' THEN $1 || substr(ordering, 65) ELSE ordering END"

// mergeKey moves the rows of a key, $2, to its partner, $1. What is in a table for both stays the partner's; bills of
// both were merged before. The audit log is not changed.
var mergeKey = []string{
	"UPDATE billbridge_bills SET partner = $1, version = version + 1 WHERE partner = $2",
	`UPDATE billbridge_addresses SET partner = $1, unproven = CASE WHEN unproven IS NULL THEN NULL ELSE $1 END
		WHERE partner = $2`,
	`UPDATE billbridge_callbacks SET partner = $1, ordering = ` + orderOfPartner + ` WHERE partner = $2`,
	"DELETE FROM billbridge_stages WHERE partner = $2 AND $1 <> ''",
	`INSERT INTO billbridge_seen (partner, seen) SELECT $1, seen FROM billbridge_seen WHERE partner = $2
		ON CONFLICT (partner) DO NOTHING`,
	"DELETE FROM billbridge_seen WHERE partner = $2 AND $1 <> ''",
	`INSERT INTO billbridge_proven (partner) SELECT $1 FROM billbridge_proven WHERE partner = $2
		ON CONFLICT (partner) DO NOTHING`,
	"DELETE FROM billbridge_proven WHERE partner = $2 AND $1 <> ''",
	"DELETE FROM billbridge_wave_partners WHERE partner = $2 AND $1 <> ''", // its stage is now that of the partner
	"UPDATE billbridge_partner_keys SET partner = $1 WHERE partner = $2",
}
