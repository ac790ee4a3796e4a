package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// A State is the state of a callback.
type State string

// The states. Only a waiting callback is delivered, and only a waiting one holds back later callbacks of its order.
const (
	Waiting   State = "waiting"
	Delivered State = "delivered"
	Dead      State = "failed"  // it stays until an operator replays or drops it
	Dropped   State = "dropped" // an operator dropped it

	// Superseded callbacks had HTTP answers, but no success, and a newer one of the bill came; or they came after one
	// that reports a later state.
	Superseded State = "superseded"
)

// A Callback is one payment notice from an upstream to a partner. It has all that its delivery needs, so that it can be
// delivered after its address was removed.
type Callback struct {
	Notice
	Delivery
	News
}

// A Notice is what an upstream has sent.
type Notice struct {
	ID          string // the same in all attempts: the partner recognises a repetition by it
	Address     string // the id of the Address that the upstream called
	Upstream    string
	Partner     partner.ID
	Bill        string
	Form        string // the partner's
	URL         string // of the partner
	Host        string // of URL; the number of concurrent attempts is limited for each host
	Order       string // callbacks with equal Order are delivered in the order in which they were accepted
	Digest      [32]byte
	ContentType string
	Body        []byte    // as it will be delivered; List does not return it
	Received    time.Time // must not be zero
	Says        string    // the state of the bill that it reports, in the words of the caller; "" if it is not known
	Merchant    string    // of the bill, by its Address; "" if it is not known
}

// A Delivery is what became of a callback.
type Delivery struct {
	State       State
	Attempts    int       // that have ended
	Next        time.Time // when the next attempt is due, if it is waiting
	LastAt      time.Time // when the last attempt ended; zero before the first
	LastStatus  int       // the HTTP status of the last attempt; 0 if there was no answer
	LastOutcome string    // of the last attempt, one of the relay's outcomes; it must contain nothing secret
	Erased      time.Time // when the body was deleted; zero if it is there
	Repeats     int       // how often the upstream sent it again; these were not stored
	Repeated    time.Time // when it did so last; zero if it did not
	Cursor      int64     // grows with each callback; for Filter.After
}

// News is what Accept needs to know to tell whether a callback is news. It is not stored.
type News struct {
	Once bool // it repeats an equal callback also if there were others of its Order since, up to manyOfOrder

	// Only for callbacks of bills: the states after which this one is no news, Says among them, and when the bill is
	// read next ([Store.ClaimRead]); zero: as before.
	Later   string
	Outdone string // those of Later after which it is not delivered: all but Says
	Look    time.Time
}

// MadePrefix begins the ids of callbacks that the gateway has made from a read of the bill.
const MadePrefix = "cb_read_"

// Made reports whether the gateway has made the callback from a read of the bill.
func (c Callback) Made() bool { return strings.HasPrefix(c.ID, MadePrefix) }

// manyOfOrder is the most callbacks of one order that Accept looks at. A bill has few, but the callbacks of a merchant
// whose bills are not known have one order.
const manyOfOrder = "1000"

// lastOf and ofOrder select the callbacks of the order $9 that a new one can repeat.
const (
	ofOrder = "SELECT address, digest, received FROM billbridge_callbacks WHERE ordering IN ($9, $9) AND seq <> 0 " +
		"ORDER BY ordering DESC, seq DESC LIMIT " // see planned
	lastOf = ofOrder + "1"
)

// An Accepted is what became of a callback, and of its bill.
type Accepted struct {
	Fresh      bool
	Ended      []Supersession
	Bill       ledger.Bill
	Found      []ledger.Contradiction
	Unrecorded error // why the ledger does not have what the callback shows; nil if it has
}

// Accept stores a received callback in the state Waiting. Its first attempt is due at c.Next, or at c.Received if
// that is zero. The other fields about state and attempts are ignored.
//
// If c repeats the last callback of its Order, or with Once any of them, Accept stores nothing, and it is not Fresh: an
// upstream that missed our acknowledgement sends again. A repetition has the same Address and Digest and was received
// less than window later, whatever the state of the first. The callback that it repeats counts it.
//
// A callback that was made from a read is stored only if no other of its Order has a state of Later, or an unknown
// one. After it, an upstream's callback repeats it if it has a state of Later. So a partner gets each state once.
//
// ErrFurtherKey: its Partner is none any more. A callback that is sent again has the right one.
//
// Older callbacks of the bill end if the partner has answered them often enough: these are returned.
//
// The callback may show a bill. If it is fresh, the events are applied to that, nearly always in the same transaction.
func (s *Store) Accept(
	ctx context.Context, c Callback, window time.Duration, shows ...ledger.Event,
) (Accepted, error) {
	if c.ID == "" || c.Received.IsZero() {
		return Accepted{}, errors.New("store: a callback needs an id and the time it was received")
	}
	known, unread := ledger.Bill{Partner: c.Partner, ID: c.Bill}, error(nil)
	if len(shows) > 0 {
		known, unread = s.Bill(ctx, c.Partner, c.Bill)
	}
	after, changes := s.applied(known, shows), statement{}
	same := after.Same(known)
	if !same && known.Version != 0 {
		var err error
		if changes, err = storing(&after.Bill, &known); err != nil {
			return Accepted{}, err
		}
		// What comes again is no second look.
		n := len(changes.args)
		changes.text += fmt.Sprintf(` AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks
			WHERE ordering = $%d AND seq <> 0
			AND address = $%d AND digest = $%d AND received > $%d)`, n+1, n+2, n+3, n+4)
		changes.args = append(changes.args, c.Order, c.Address, c.Digest[:], c.Received.Add(-window))
	}
	if c.Next.IsZero() {
		c.Next = c.Received
	}
	repeatable := lastOf
	if c.Once {
		repeatable = ofOrder + manyOfOrder
	}
	// The callbacks after which this one may be no news; without a bill there are none.
	// Not LIKE, for which PostgreSQL may read the index of ids.
	told := fmt.Sprintf("substr(id, 1, %d) = '%s'", len(MadePrefix), MadePrefix)
	if c.Made() {
		told = "1 = 1"
	}
	// It is no news: the partner would hear of a payment after its cancel. Only what came to the same address counts:
	// the id may be that of another bill by now.
	const outdone = `EXISTS (SELECT 1 FROM billbridge_callbacks told WHERE told.ordering = $9 AND told.seq <> 0
			AND $5 <> '' AND told.address = $2 AND told.says <> '' AND $19 LIKE '%' || told.says || '%'
			AND told.state IN ('waiting', 'delivered') AND `
	isOutdone := outdone + ofMerchant("told.merchant", "$18") + ")"
	insert := statement{
		`
		INSERT INTO billbridge_callbacks (` + firstColumns + `body, received,
			state, attempts, next, due, lease, last_status, last_outcome, says, merchant, first, done)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
			CASE WHEN no_news THEN 'superseded' ELSE 'waiting' END, 0, $14, $14, '', 0, '', $16, $18,
			CASE WHEN no_news OR EXISTS (SELECT 1 FROM billbridge_callbacks before
				WHERE before.state = 'waiting' AND before.ordering = $9) THEN 0 ELSE 1 END,
			CASE WHEN no_news THEN CAST($13 AS BIGINT) END
		FROM (SELECT ` + isOutdone + ` AS no_news) AS it
		WHERE NOT EXISTS (SELECT 1 FROM (` + repeatable + `) AS was
			WHERE was.address = $2 AND was.digest = $10 AND was.received > $15)
		AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks told WHERE told.ordering = $9 AND told.seq <> 0
			AND $5 <> '' AND ` + told + " AND " + noNews("$17", "$18", "told") + `)
		AND NOT EXISTS (SELECT 1 FROM billbridge_partner_keys further WHERE further.key_hash = $4)
		`,
		[]any{
			c.ID, c.Address, c.Upstream, c.Partner, c.Bill, c.Form, s.keyring.sealText(c.URL, urlOfCallback(c.ID)),
			c.Host, c.Order, c.Digest[:], c.ContentType, notNil(s.keyring.seal(c.Body, bodyOfCallback(c.ID))),
			c.Received, c.Next, c.Received.Add(-window), c.Says, c.Later,
			storedName(c.Merchant), c.Outdone,
		},
	}
	var look statement
	if !c.Look.IsZero() {
		look = statement{
			`
			UPDATE billbridge_addresses SET look = $2, shown = '', since = NULL, missing = NULL, why = ''
			WHERE id = $1 AND EXISTS (SELECT 1 FROM billbridge_callbacks WHERE id = $3)`,
			[]any{c.Address, s.stamp(c.Look), c.ID},
		}
	}
	// Callbacks of one order must be committed in the order of their numbers, and a statement must see the last one
	// committed: no two of them may run at once.
	lock := []string{"order", c.Order}
	key := lock
	if changes.text != "" {
		key = []string{"bill", string(c.Partner), c.Bill}
	}
	// Nearly always the callback is new, and no other of its bill waits for a further attempt, which supersede could
	// end.
	only := statement{insert.text + `AND ($5 = '' OR NOT EXISTS (SELECT 1 FROM billbridge_callbacks older
		WHERE older.ordering = $9 AND older.state = 'waiting' AND older.attempts > 0))`, insert.args}
	n := entry{doing: "keeping a callback", key: key, lock: lock, statements: [3]statement{changes, only, look}}
	kept, err := record(ctx, s.db, &n, Accepted{Fresh: true}, func(q tx) (kept Accepted) {
		s.lock(q, exclusive, lock...)
		switch kept.Fresh = q.exec(insert.text, insert.args...) == 1; {
		case !kept.Fresh && c.Made(): // nobody sent it again
			return kept
		case !kept.Fresh:
			counted := q.exec(`
				UPDATE billbridge_callbacks SET repeats = repeats + 1, repeated = $1 WHERE seq = (
					SELECT max(seq) FROM (SELECT * FROM billbridge_callbacks WHERE ordering IN ($2, $2) AND seq <> 0
							ORDER BY ordering DESC, seq DESC LIMIT `+manyOfOrder+`) AS was
						WHERE address = $3 AND digest = $4 AND received > $5
							OR `+told+" AND "+noNews("$6", "$7", "was")+")",
				c.Received, c.Order, c.Address, c.Digest[:], c.Received.Add(-window), c.Later, storedName(c.Merchant))
			if counted == 0 { // its key has become one of a partner a moment ago
				q.fail(ErrFurtherKey)
			}
			return kept
		case look.text != "":
			q.exec(look.text, look.args...)
		}
		if c.Bill != "" {
			kept.Ended = supersede(q, c.Order, c.Received, true)
		}
		if len(kept.Ended) > 0 {
			markFirst(q, c.Order, time.Time{})
		}
		return kept
	})
	switch {
	case err != nil || len(shows) == 0:
	case n.changed[0], kept.Fresh && unread == nil && same:
		kept.Bill, kept.Found = after.Bill, after.found
	case kept.Fresh:
		kept.Bill, kept.Found, kept.Unrecorded = s.Apply(ctx, ledger.Bill{Partner: c.Partner, ID: c.Bill}, shows...)
	}
	return kept, err
}

// noNews is true for a callback after which one with a Later is no news, that is of a merchant.
func noNews(later, merchant, callback string) string {
	return later + " LIKE '%' || " + callback + ".says || '%' AND " + ofMerchant(callback+".merchant", merchant)
}

// lock takes the lock that a key names until the transaction ends. SQLite needs none: it has one writer.
func (d dialect) lock(q tx, kind string, key ...string) {
	if d.postgres {
		advisoryLock(q, kind, key...)
	}
}

// lockOrders takes the locks of callbacks' orders, which are sorted as in batches, so that the two cannot deadlock.
func (d dialect) lockOrders(q tx, orders []string) {
	if !d.postgres {
		return
	}
	var all []string
	for _, order := range orders {
		all = append(all, fmt.Sprint(number([]string{"order", order})))
	}
	q.exec("SELECT pg_advisory_xact_lock(CAST(n AS BIGINT)) FROM jsonb_array_elements_text($1) AS n", texts(all))
}

// claims is the key of the lock that claims take shared, and betweenClaims exclusively.
const claims = "claims"

// The columns of a Callback, without and with its body.
const (
	firstColumns = "id, address, upstream, partner, bill, form, url, host, ordering, digest, content_type, "
	lastColumns  = `, received, says, merchant, state, attempts, next, last_at, last_status, last_outcome, erased,
		repeats, repeated, seq, 0, '', '', NULL`
	columns        = firstColumns + "NULL" + lastColumns
	columnsAndBody = firstColumns + "body" + lastColumns
)

// callback decrypts a callback.
func (k *keyring) callback(c Callback) (_ Callback, err error) {
	if c.URL, err = k.openText(c.URL, urlOfCallback(c.ID)); err != nil {
		return Callback{}, err
	}
	switch {
	case !c.Erased.IsZero():
		c.Body = nil
	case c.Body != nil:
		c.Body, err = k.open(c.Body, bodyOfCallback(c.ID))
	}
	return c, err
}
