package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"billbridge/proxy/partner"
)

// The callbacks are those of a store.
type callbacks struct{ *db }

// A Claimed is a callback that its holder alone may attempt to deliver, until the claim ends.
type Claimed struct {
	Callback
	lease string    // unique to this claim
	until time.Time // when it expires
}

// A Result is how an attempt ended.
type Result struct {
	At      time.Time
	Status  int    // HTTP; 0 if there was no answer
	Outcome string // in words; it must hold nothing secret
	State   State  // of the callback; with Waiting the next attempt is due at Next
	Next    time.Time

	// For Attempts. They must hold nothing secret.
	Took   time.Duration
	Code   string // of the partner's answer; "" if it had none
	Reason string // why it failed; "" if it did not
}

// hosts selects the hosts of callbacks that are the first of their order. It reads one entry of the index for each
// host, however many callbacks wait.
const hosts = `
	WITH RECURSIVE hosts (host) AS (
		SELECT (SELECT c.host FROM billbridge_callbacks c WHERE c.first = 1 ORDER BY c.host LIMIT 1)
		UNION ALL
		SELECT (SELECT c.host FROM billbridge_callbacks c WHERE c.first = 1 AND c.host > hosts.host
			ORDER BY c.host LIMIT 1)
		FROM hosts WHERE hosts.host IS NOT NULL
	)`

// claimable selects the oldest due callbacks of one host, at most $2. Only one index has the condition of first: what
// it reads does not depend on statistics. With LIMIT $2 SQLite would parse the statement at each execution.
const claimable = `c.first = 1 AND c.host = hosts.host AND c.due <= $1 ORDER BY c.due, c.seq LIMIT 0 + $2`

const (
	claimSQLite = hosts + `
	SELECT found.seq, found.host, found.partner FROM hosts JOIN billbridge_callbacks found
	ON found.seq IN (SELECT c.seq FROM billbridge_callbacks c WHERE ` + claimable + `)
	ORDER BY found.due, found.seq`
	// Callbacks that another replica is claiming are skipped.
	claimPostgres = hosts + `
	SELECT found.seq, found.host, found.partner FROM hosts CROSS JOIN LATERAL (
		SELECT c.seq, c.host, c.partner, c.due FROM billbridge_callbacks c
			WHERE ` + claimable + ` FOR UPDATE SKIP LOCKED
	) found ORDER BY found.due, found.seq`
)

// The first waiting callback of each order is marked, whether it is due or not. While a later one is under way, which
// a replay can cause, the first is due when the lease of that ends. Whoever adds a callback to an order, or ends one,
// has the lock of the order, and marks the next one in the same transaction.

// markFirst marks the first callback of an order after another one has ended. If that was under way until a time, the
// first does not wait for it any more.
func markFirst(q tx, order string, until time.Time) {
	q.exec(`
		UPDATE billbridge_callbacks SET first = 1, due = CASE WHEN lease = '' AND due = $2 THEN next ELSE due END
		WHERE seq = (SELECT seq FROM billbridge_callbacks WHERE state = 'waiting' AND ordering = $1
			ORDER BY seq LIMIT 1) AND (first = 0 OR lease = '' AND due = $2 AND due <> next)`, order, until)
}

// markAll marks the first callbacks of the orders of waiting ones that a condition selects, after their orders have
// changed.
func markAll(q tx, now time.Time, condition string, arg any) {
	const (
		other   = "SELECT %s FROM billbridge_callbacks o WHERE o.state = 'waiting' AND o.ordering = billbridge_callbacks.ordering"
		earlier = "EXISTS (" + other + " AND o.seq < billbridge_callbacks.seq)"
		held    = other + " AND o.lease <> '' AND o.due > $1"
	)
	q.exec(fmt.Sprintf(`
		UPDATE billbridge_callbacks SET first = CASE WHEN `+earlier+` THEN 0 ELSE 1 END,
			due = CASE WHEN lease <> '' THEN due WHEN `+earlier+` THEN next ELSE coalesce((`+held+`), next) END
		WHERE state = 'waiting' AND %s`, "1", "1", "max(o.due)", condition), now, arg)
}

// Claim claims callbacks that are due, the longest due first: at most limit, and for each host and partner at most
// perHost and perPartner together with those under way. busy counts those under way, by Host and by Partner (no host
// looks like a partner). Of each order it claims only the first waiting callback, and none while one is under way: a
// callback that waits for its next attempt holds back later ones.
//
// A claim lasts for lease. If it is not finished by then, because its process died, the callback can be claimed
// again. So lease must be longer than an attempt plus the difference between the clocks of replicas. Two replicas
// never hold one callback at once.
//
// A callback that was changed without the key of the store is not delivered. Then there is an error beside those that
// were claimed.
func (s callbacks) Claim(
	ctx context.Context, now time.Time, lease time.Duration, limit, perHost, perPartner int, busy map[string]int,
) ([]Claimed, error) {
	if limit <= 0 || perHost <= 0 || perPartner <= 0 {
		return nil, nil
	}
	expires := now.Add(lease)
	return write(ctx, s.db, "claiming callbacks", func(q tx) (claimed []Claimed) {
		s.lock(q, shared, claims) // with other claims; see betweenClaims
		token := rand.Text()
		var unreadable error
		taken := map[string]int{}
		for _, f := range list[candidate](q, s.claim, now, perHost) {
			if len(claimed) == limit {
				break
			}
			if busy[f.Host]+taken[f.Host] >= perHost || busy[f.Partner]+taken[f.Partner] >= perPartner {
				continue
			}
			taken[f.Host]++
			taken[f.Partner]++
			row := value[Callback](q,
				"UPDATE billbridge_callbacks SET lease = $1, due = $2 WHERE seq = $3 RETURNING "+columnsAndBody,
				token, expires, f.Seq)
			if q.err != nil {
				return nil
			}
			c, err := s.keyring.callback(row)
			if err != nil {
				unreadable = errors.Join(unreadable, err) // the others are claimed
				continue
			}
			claimed = append(claimed, Claimed{c, token, expires})
		}
		if unreadable != nil {
			q.refuse(unreadable)
		}
		return claimed
	})
}

type candidate struct {
	Seq           int64
	Host, Partner string
}

// attemptsKept is the number of attempts that are kept of one callback: the last ones.
const attemptsKept = 100

// Finish records how an attempt at a claimed callback ended, and ends the claim. If the claim expired and the
// callback was claimed again, it records nothing and returns an error. If it expired and was not claimed again, it is
// still good. It returns the callbacks of the bill that end for a newer one, which c can be.
func (s callbacks) Finish(ctx context.Context, c Claimed, r Result) (ended []Supersession, err error) {
	ctx = patient(ctx)
	done, next := r.At, r.At
	switch r.State {
	case Delivered, Dropped:
	case Waiting:
		done, next = time.Time{}, r.Next
	case Dead:
		done = time.Time{}
	default:
		return nil, fmt.Errorf("store: an attempt cannot end in the state %q", r.State)
	}
	if r.At.IsZero() || next.IsZero() {
		return nil, fmt.Errorf("store: an attempt that ended in the state %q needs its times", r.State)
	}
	return write(ctx, s.db, "recording an attempt", func(q tx) (ended []Supersession) {
		s.lock(q, exclusive, "order", c.Order) // before the row: Accept has this lock when it changes the row
		seq, claimed := find[int64](q, `
			UPDATE billbridge_callbacks SET state = $1, attempts = attempts + 1, next = $2, due = $2, lease = '',
				last_at = $3, last_status = $4, last_outcome = $5, done = $6, first = first * $7
			WHERE id = $8 AND lease = $9 AND state || '' = 'waiting' RETURNING seq`,
			string(r.State), next, r.At, r.Status, printable(r.Outcome), done, r.State == Waiting, c.ID, c.lease)
		if !claimed {
			q.refuse(errLeaseLost)
		}
		// The row is locked until the transaction ends, so no other attempt gets the same number.
		number := value[int64](q, `
			INSERT INTO billbridge_attempts (callback, number, ended, took, status, code, outcome, reason)
			SELECT $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5, $6, $7 FROM billbridge_attempts
				WHERE callback = $1 RETURNING number`,
			seq, r.At, r.Took.Milliseconds(), r.Status, printable(r.Code), printable(r.Outcome), printable(r.Reason))
		if number > attemptsKept {
			q.exec("DELETE FROM billbridge_attempts WHERE callback = $1 AND number <= $2", seq, number-attemptsKept)
		}
		if r.State == Waiting && c.Bill != "" {
			// Without an answer not soon: a short outage would use up the attempts.
			ended = supersede(q, c.Order, r.At, r.Status != 0)
		}
		markFirst(q, c.Order, c.until)
		return ended
	})
}

// An Attempt is an attempt that has ended.
type Attempt struct {
	Number  int // from 1 on, over all replays
	Ended   time.Time
	Took    time.Duration
	Status  int
	Code    string
	Outcome string
	Reason  string
}

// Attempts returns the last attempts at the callback with an id, in their order. There are none of an unknown callback.
func (s callbacks) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	return readAll[Attempt](ctx, s.db, "reading attempts", `
		SELECT number, ended, took * 1000000, status, code, outcome, reason FROM billbridge_attempts
		WHERE callback = (SELECT seq FROM billbridge_callbacks WHERE id = $1) ORDER BY number`, id)
}

// NextDue returns the next time after now at which the first callback of an order becomes due or its claim expires; ok
// is false if there is none. What is due by now has been seen by Claim with the same now. So a deliverer that claims
// and sleeps until NextDue misses nothing, if it also wakes when a callback is accepted and when an attempt ends.
func (s callbacks) NextDue(ctx context.Context, now time.Time) (at time.Time, ok bool, err error) {
	at, err = readOne[time.Time](ctx, s.db, "reading when a callback is due", hosts+`
		SELECT min((SELECT c.due FROM billbridge_callbacks c
			WHERE c.first = 1 AND c.host = hosts.host AND c.due > $1 ORDER BY c.due LIMIT 1)) FROM hosts`, now)
	return at, err == nil && !at.IsZero(), err
}

// Hasten makes waiting callbacks due at now whose next attempt is later than any can be, by the longest time between
// two attempts, and returns their number: the clock of a gateway was ahead when it set that time.
func (s callbacks) Hasten(ctx context.Context, now time.Time, longest time.Duration) (n int, err error) {
	all, err := readAll[string](ctx, s.db, "finding hosts of callbacks",
		hosts+" SELECT host FROM hosts WHERE host IS NOT NULL")
	for _, host := range all {
		hastened, failed := s.sweep(ctx, sweep{
			table: "callbacks", rows: "first = 1 AND host = $2", of: []any{host}, by: "due",
			from: now.Add(longest + clockSlack + time.Millisecond), before: endOfTime, pause: pause,
			change: "UPDATE billbridge_callbacks SET next = $4, due = $4", args: []any{now},
		})
		n, err = n+hastened, errors.Join(err, failed)
	}
	return n, err
}

// A Backlog counts the undelivered callbacks of one upstream.
type Backlog struct {
	Waiting int           // including those under way and not yet due
	Dead    int           // until an operator replays or drops them
	Oldest  time.Duration // since the oldest waiting one was received; 0 if none is waiting
	Missing int           // bills whose callback is missing ([Store.Missing])
}

// Stats returns the backlog of each upstream that has one. Each number is exact up to countAtMost; Missing is that of
// the bills found last.
func (s callbacks) Stats(ctx context.Context, now time.Time) (map[string]Backlog, error) {
	return read(ctx, s.db, "counting callbacks", func(q tx) map[string]Backlog {
		const in = ` FROM billbridge_callbacks WHERE upstream IN ($1, $1) AND state = '%s'
			ORDER BY upstream, seq LIMIT %d`
		counted := func(state State) string {
			return fmt.Sprintf("(SELECT count(*) FROM (SELECT 1"+in+") AS counted)", state, countAtMost)
		}
		all := pairs[string, Backlog](q, fmt.Sprintf(`
			SELECT upstream, 0, 0, 0, count(*) FROM (SELECT upstream FROM billbridge_addresses
				WHERE missing IS NOT NULL AND partner <> '' ORDER BY missing DESC, id DESC LIMIT %d) AS missing
			GROUP BY upstream`, countAtMost))
		const next = "SELECT upstream FROM billbridge_callbacks WHERE upstream > $1 ORDER BY upstream LIMIT 1"
		for upstream, more := find[string](q, next, ""); more; upstream, more = find[string](q, next, upstream) {
			b := value[Backlog](q, "SELECT "+counted(Waiting)+", "+counted(Dead)+fmt.Sprintf(`, coalesce((
				SELECT CASE WHEN min(received) < $2 THEN ($2 - min(received)) * 1000000 END FROM (
					SELECT received`+in+") AS oldest), 0), 0", Waiting, examined), upstream, now)
			if b.Missing = all[upstream].Missing; b != (Backlog{}) {
				all[upstream] = b
			}
		}
		return all
	})
}

// An HTTP answer of a partner means that its handler has run. Three of them end the wait of newer callbacks: one or two
// can come from a proxy while the partner restarts. They take less than a minute, since attempts come soon then.
const (
	answersOfOlder = 3
	soonForOlder   = 10 * time.Second
)

// A Supersession is the end of a callback for a newer one of its bill. Status, Outcome and Reason are of its last
// attempt.
type Supersession struct {
	ID, Upstream    string
	Partner         partner.ID
	Bill            string
	Attempts        int
	Status          int
	Outcome, Reason string
}

// sameMerchant: two merchants of a partner can have a bill with the same id, and so their callbacks the same order.
const sameMerchant = "(newer.merchant IN ('', billbridge_callbacks.merchant) OR billbridge_callbacks.merchant = '')"

// supersede ends the callbacks of an order that a newer one of the bill follows and that the partner has answered often
// enough since each was accepted or replayed. With soon, the next attempts of others that the partner has answered come
// earlier. A callback without an answer keeps its place, and so does one that is being delivered. The caller holds the
// lock of the order.
func supersede(q tx, order string, at time.Time, soon bool) []Supersession {
	const older = `
		WHERE ordering = $1 AND state = 'waiting' AND lease = '' AND bill <> '' AND EXISTS (
			SELECT 1 FROM billbridge_callbacks newer WHERE newer.ordering = $1
				AND newer.seq + 0 > billbridge_callbacks.seq AND newer.seq <> 0
				AND newer.state IN ('waiting', 'delivered') AND ` + sameMerchant + `)
		AND $3 <= (
			SELECT count(*) FROM billbridge_attempts WHERE callback = billbridge_callbacks.seq AND status <> 0
				AND number + billbridge_callbacks.attempts > (
					SELECT max(number) FROM billbridge_attempts WHERE callback = billbridge_callbacks.seq))`
	ended := list[Supersession](q, `
		UPDATE billbridge_callbacks SET state = 'superseded', next = $2, due = $2, done = $2, first = 0`+older+`
		RETURNING id, upstream, partner, bill, attempts, last_status, last_outcome, (
			SELECT reason FROM billbridge_attempts WHERE callback = billbridge_callbacks.seq
				ORDER BY number DESC LIMIT 1)`, order, at, answersOfOlder)
	if soon {
		q.exec("UPDATE billbridge_callbacks SET next = $2, due = CASE WHEN due = next THEN $2 ELSE due END"+older+
			" AND next > $2", order, at.Add(soonForOlder), 1)
	}
	return ended
}

// Newer returns the state of a newer callback of the same bill that was delivered, or else of one that waits; "" if
// there is none.
func (s callbacks) Newer(ctx context.Context, c Callback) (State, error) {
	return readOne[State](ctx, s.db, "reading callbacks", `
		SELECT coalesce(min(state), '') FROM billbridge_callbacks WHERE ordering = $1 AND seq + 0 > $2 AND seq <> 0
			AND bill <> '' AND state IN ('waiting', 'delivered') AND `+ofMerchant("merchant", "$3"),
		c.Order, c.Cursor, c.Merchant)
}
