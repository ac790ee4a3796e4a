package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// errFailedOver: the database is not the one that the last writes went to, so it is not certain that it has them.
// What was decided before must be decided again.
var errFailedOver error = sentinel("the database was exchanged, by a fail-over or a restore")

// A FailOver is what a gateway concluded when it met another server, or older data.
type FailOver string

// The conclusions. After Lost and Unproven the store counts as restored from a backup (see [Restored]).
const (
	Proven   FailOver = "proven"   // it has all that the running gateways have written
	Lost     FailOver = "lost"     // it lacks what this gateway has written
	Unproven FailOver = "unproven" // a gateway that wrote until the fail-over did not say whether its writes are there
)

// FailOvers are all conclusions.
var FailOvers = []FailOver{Proven, Lost, Unproven}

// ByFailOver is who declares the store restored after a [FailOver].
const ByFailOver = "fail-over"

// ByConfig is who declares the store restored because the config has other backends, and changes the default stage
// because the config has another.
const ByConfig = "config"

const (
	// confirmWithin is how long the gateways have to find their numbers on a new server. Each connects at least once
	// a second.
	confirmWithin = 8 * time.Second
	confirmPoll   = 100 * time.Millisecond
	// A gateway counts as running at the time of a fail-over if it wrote in the last two minutes before: each writes
	// at least once a minute ([Store.Tick]).
	aliveWithin = 2 * time.Minute
	// The rows of gateways that ended without removing them stay for a day.
	rowsOfDead = 24 * time.Hour
	// leaveWithin is how long the end of a gateway waits for the removal of its rows.
	leaveWithin = 2 * time.Second
)

// failOverLock is the key of the lock that a gateway has while it looks for its numbers.
const failOverLock = "fail-over"

// A guard recognises that the database lacks acknowledged writes: a standby was promoted that had not received them,
// or an older copy was put in its place.
//
// Each transaction raises a number in a row of the gateway, and the guard remembers the number of the last one that
// was acknowledged. A database whose number is lower is an older one. Transactions at the same time have a row each,
// so that they do not wait for each other.
type guard struct {
	gateway string
	begin   func(tx) // before the numbers are looked for: refuses a store that is not for this gateway
	slots   chan *slot
	all     []*slot
	confirm time.Duration // as confirmWithin

	mu       sync.Mutex // of what follows, and of the numbers
	server   string     // on which the numbers were found; "" if that must be looked for
	meeting  string     // the server that is being checked
	since    time.Time  // when it was met
	changes  atomic.Int64
	outcomes map[FailOver]int64
}

// A slot is a row of the gateway.
type slot struct {
	id    int
	acked int64 // of the last transaction that was acknowledged
	tried int64 // of the last transaction, which may have been committed
}

func newGuard(begin func(tx), slots int, confirm time.Duration) *guard {
	g := &guard{
		gateway: rand.Text(), begin: begin, confirm: cmp.Or(confirm, confirmWithin), slots: make(chan *slot, slots),
		outcomes: map[FailOver]int64{},
	}
	for id := range slots {
		s := &slot{id: id}
		g.slots <- s
		g.all = append(g.all, s)
	}
	return g
}

// raising raises a number. It fails, and with it the transaction, if the row is missing or its number is lower than
// the last one that was acknowledged: no row makes a division by zero. A batch is sent at once, so the server itself
// must stop it.
const raising = raised + ` RETURNING 1) SELECT 1 / count(*) FROM raised`

const raised = `WITH raised AS (
	UPDATE billbridge_gateways SET number = $1, at = floor(extract(epoch FROM clock_timestamp()) * 1000)
	WHERE gateway = $2 AND slot = $3 AND number >= $4`

// raisingIfChanged is raising for a transaction that may have changed nothing: then it changes nothing either, and
// nothing waits for the disk.
const raisingIfChanged = raised + ` AND txid_current_if_assigned() IS NOT NULL RETURNING 1)
	SELECT CASE WHEN txid_current_if_assigned() IS NULL THEN 0 ELSE 1 / count(*) END FROM raised`

// raisingSQLite changes no row instead of failing.
const raisingSQLite = `
	UPDATE billbridge_gateways SET number = $1, at = $5 WHERE gateway = $2 AND slot = $3 AND number >= $4`

// next begins a transaction: it returns the arguments of the statement that raises the number.
func (g *guard) next(s *slot) []any {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.tried++
	return []any{s.tried, g.gateway, s.id, s.acked}
}

// acknowledge ends a transaction that was committed. If the database was exchanged since the transaction began, it is
// not certain that the new one has it.
func (g *guard) acknowledge(s *slot, since int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changes.Load() != since {
		return errFailedOver
	}
	s.acked = s.tried
	return nil
}

// doubt makes every connection be checked before it is used again.
func (g *guard) doubt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = ""
}

// trusts reports whether the numbers were found on a server.
func (g *guard) trusts(server string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server == server
}

// settle ends a check. The decisions that were made before it are void.
func (g *guard) settle(server string, outcome FailOver) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.server == "" && g.changes.Load() == 0 && outcome == Proven
	g.server, g.meeting = server, ""
	if !first {
		g.outcomes[outcome]++
	}
	g.changes.Add(1)
}

// deadline is until when the other gateways can confirm a server.
func (g *guard) deadline(server string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.meeting != server {
		g.meeting, g.since = server, time.Now()
	}
	return g.since.Add(g.confirm)
}

// find looks for the numbers of this gateway, and reports whether one of them is lower than the last that was
// acknowledged. Then the store counts as restored. The rows are as in memory afterwards; the first time they are
// made.
func (g *guard) find(q tx, history string, now time.Time) (lost bool) {
	g.mu.Lock() // before it reads: what is acknowledged meanwhile would be taken for lost
	defer g.mu.Unlock()
	g.begin(q)
	numbers := pairs[int, int64](q, "SELECT slot, number FROM billbridge_gateways WHERE gateway = $1", g.gateway)
	missing := int64(0)
	for _, s := range g.all {
		missing = max(missing, s.acked-numbers[s.id])
		q.exec(`
			INSERT INTO billbridge_gateways (gateway, slot, number, at, history) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (gateway, slot) DO UPDATE SET number = excluded.number, at = excluded.at,
				history = excluded.history`,
			g.gateway, s.id, s.tried, now, history)
	}
	if missing > 0 {
		lose(q, fmt.Sprintf("%s: of the writes of this gateway at least %d are missing", Lost, missing), history, now)
	}
	return missing > 0
}

// lose declares the store restored, and ends the search for numbers on this server for all gateways.
func lose(q tx, subject, history string, now time.Time) {
	q.exec("UPDATE billbridge_gateways SET history = $1 WHERE history <> $1", history)
	changed(q, Change{Action: Restored, By: ByFailOver, At: now, Subject: subject}, restored)
}

// unconfirmed is the number of other gateways that ran at the time of the fail-over and have not found their numbers
// on the new server.
func (g *guard) unconfirmed(q tx, history string) int {
	return value[int](q, `
		SELECT count(DISTINCT gateway) FROM billbridge_gateways WHERE gateway <> $1 AND history <> $2
			AND at >= (SELECT max(at) FROM billbridge_gateways WHERE history <> $2) - $3`,
		g.gateway, history, aliveWithin.Milliseconds())
}

// forget removes the rows of gateways that ended long ago.
func forget(q tx, now time.Time) {
	q.exec("DELETE FROM billbridge_gateways WHERE at < $1", now.Add(-rowsOfDead))
	q.exec("DELETE FROM billbridge_announced WHERE gateway NOT IN (SELECT gateway FROM billbridge_gateways)")
}

// leave removes the rows of a gateway that ends: a database that lacks them has all that it wrote.
func (g *guard) leave(q tx) {
	q.exec("DELETE FROM billbridge_gateways WHERE gateway = $1", g.gateway)
	q.exec("DELETE FROM billbridge_announced WHERE gateway = $1", g.gateway)
}

// SynchronousAt reports whether PostgreSQL at a URL waits for a standby at each commit. After a fail-over it may not,
// for some seconds.
func SynchronousAt(ctx context.Context, url string) (waits bool, err error) {
	config, _, err := parse(url)
	if err != nil {
		return false, err
	}
	err = onePool(config, 1, func(db *sql.DB) error {
		return run(ctx, db, func(q tx) { waits = synchronous(q) })
	})
	return waits, err
}

// Lossy reports whether the store was opened with [Options].Lossless, but PostgreSQL waits for no standby at a commit.
func (s *Store) Lossy(ctx context.Context) (bool, error) {
	if !s.lossless {
		return false, nil
	}
	waits, err := read(ctx, s.db, "reading whether there is a synchronous standby", synchronous)
	return err == nil && !waits, err
}

// Generation changes when the gateway has met another server, or older data: what was decided before must be decided
// again, with the [Store.Rollout] of now. A statement returns data of a new server only after Generation has changed.
func (g *guard) Generation() int64 { return g.changes.Load() }

// FailOvers is how often the gateway concluded each [FailOver].
func (g *guard) FailOvers(outcome FailOver) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outcomes[outcome]
}

// A pgServer is the server at the other end of a connection.
type pgServer struct {
	History string // another one after a promotion; a server that was only started again keeps it
	Process string // another one after each start of a server
}

// thisServer selects it. A standby has no history of its own.
const thisServer = `
	SELECT history, history || ' ' || coalesce(host(inet_server_addr()) || ':' || inet_server_port(), '') || ' ' ||
		pg_postmaster_start_time()
	FROM (SELECT system_identifier || CASE WHEN pg_is_in_recovery()
		THEN '' ELSE '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS history
	FROM pg_control_system()) AS server`

// serverKey is where a connection has its server.
const serverKey = "billbridge server"

// connected checks a new connection before it is used: on a server that is not the one of before, the numbers of the
// guard are looked for first.
func (e *postgresEngine) connected(ctx context.Context, c *pgx.Conn) error {
	var s pgServer
	if err := c.QueryRow(ctx, thisServer).Scan(&s.History, &s.Process); err != nil {
		return err
	}
	c.PgConn().CustomData()[serverKey] = s.Process
	if e.guard.trusts(s.Process) {
		return nil
	}
	select {
	case e.checking <- struct{}{}:
		defer func() { <-e.checking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.guard.trusts(s.Process) {
		return nil
	}
	return e.check(ctx, s)
}

// reused refuses a connection to a server that is not the one of now.
func (e *postgresEngine) reused(_ context.Context, c *pgx.Conn) error {
	if process, _ := c.PgConn().CustomData()[serverKey].(string); !e.guard.trusts(process) {
		return driver.ErrBadConn
	}
	return nil
}

// check looks for the numbers of this gateway on a server, and waits until the other gateways have found theirs. If a
// number is lower, or a gateway does not find its numbers in time, the store counts as restored. It uses a connection
// of its own. The zero server is the one that answers.
func (e *postgresEngine) check(ctx context.Context, s pgServer) error {
	outcome := Proven
	if err := onePool(e.config, 1, func(db *sql.DB) error {
		decide := func(doing string, f func(tx)) error {
			if err := transact(ctx, db, func(q tx) {
				now := value[pgServer](q, thisServer)
				if s = cmp.Or(s, now); s != now {
					q.fail(errors.New("another server answers than a moment ago"))
				}
				advisoryLock(q, exclusive, failOverLock) // one gateway at a time, so that a loss is declared once
				f(q)
			}); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
			return nil
		}
		err := decide("looking for this gateway's writes", func(q tx) {
			if e.guard.find(q, s.History, serverTime(q)) {
				outcome = Lost
			}
		})
		deadline := e.guard.deadline(s.Process)
		for waiting := outcome == Proven && !e.lossless; waiting && err == nil; {
			err = decide("waiting for the other gateways to find their writes", func(q tx) {
				missing := e.guard.unconfirmed(q, s.History)
				if waiting = missing > 0; !waiting || time.Now().Before(deadline) {
					return
				}
				waiting, outcome = false, Unproven
				lose(q, fmt.Sprintf("%s: gateways that did not say whether their writes are there: %d",
					Unproven, missing), s.History, serverTime(q))
			})
			if !waiting || err != nil {
				break
			}
			select {
			case <-time.After(confirmPoll):
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		return err
	}); err != nil {
		return err
	}
	e.guard.settle(s.Process, outcome)
	return nil
}

// fell is the error of a transaction whose number was lower than the last acknowledged one: the database is older
// than the writes.
func (e *postgresEngine) fell(err error) error {
	if pgError(err).Code != "22012" {
		return err
	}
	e.guard.doubt()
	return errFailedOver
}

// synchronous reports whether a commit waits until a standby has it on its disk.
func synchronous(q tx) bool {
	return value[bool](q, `SELECT current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') IN ('on', 'remote_apply')`)
}
