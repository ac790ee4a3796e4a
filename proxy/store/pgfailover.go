package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A pgServer is the server at the other end of a connection.
type pgServer struct {
	process string // another one after each start of a server
	history string // another one after a promotion; a server that was only started again keeps it
}

// serverOf reads it. A standby has no history of its own.
func serverOf[R scanner](query func(statement string, args ...any) R) (s pgServer, err error) {
	var address, started string
	err = query(`
		SELECT system_identifier || CASE WHEN pg_is_in_recovery()
			THEN '' ELSE '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
			coalesce(host(inet_server_addr()) || ':' || inet_server_port(), ''), pg_postmaster_start_time()::text
		FROM pg_control_system()`).Scan(&s.history, &address, &started)
	s.process = s.history + " " + address + " " + started
	return s, err
}

// serverKey is where a connection has its server.
const serverKey = "billbridge server"

// connected checks a new connection before it is used: on a server that is not the one of before, the numbers of the
// guard are looked for first.
func (e *postgresEngine) connected(ctx context.Context, c *pgx.Conn) error {
	if !e.guarding.Load() { // Open checks the first server
		return nil
	}
	s, err := serverOf(func(statement string, args ...any) pgx.Row { return c.QueryRow(ctx, statement, args...) })
	if err != nil {
		return err
	}
	c.PgConn().CustomData()[serverKey] = s.process
	if e.guard.trusts(s.process) {
		return nil
	}
	select {
	case e.checking <- struct{}{}:
		defer func() { <-e.checking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.guard.trusts(s.process) {
		return nil
	}
	return e.check(ctx, s)
}

// reused refuses a connection to a server that is not the one of now.
func (e *postgresEngine) reused(_ context.Context, c *pgx.Conn) error {
	if process, _ := c.PgConn().CustomData()[serverKey].(string); e.guarding.Load() && !e.guard.trusts(process) {
		return driver.ErrBadConn
	}
	return nil
}

// check looks for the numbers of this gateway on a server, and waits until the other gateways have found theirs. If a
// number is lower, or a gateway does not find its numbers in time, the store counts as restored. It uses a connection
// of its own.
func (e *postgresEngine) check(ctx context.Context, s pgServer) error {
	db, err := pool(e.url, 1, nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	decide := func(f func(tx) error) error {
		return within(ctx, db, sql.LevelReadCommitted, func(t *sql.Tx) error {
			q := tx{ctx, t}
			now, err := serverOf(q.row)
			if err == nil && now != s {
				err = errors.New("another server answers than a moment ago")
			}
			if err == nil { // one gateway at a time, so that a loss is declared once
				err = advisoryLock(q, "fail-over")
			}
			if err == nil {
				err = f(q)
			}
			return err
		})
	}
	outcome := Proven
	if err := decide(func(q tx) error {
		now, err := serverTime(q)
		if err != nil {
			return err
		}
		lost, err := e.guard.find(q, s.history, now)
		if lost {
			outcome = Lost
		}
		return err
	}); err != nil {
		return fmt.Errorf("looking for this gateway's writes: %w", err)
	}
	deadline := e.guard.deadline(s.process)
	for waiting := outcome == Proven && !e.lossless; waiting; {
		if err := decide(func(q tx) error {
			missing, err := e.guard.unconfirmed(q, s.history)
			if waiting = missing > 0; err != nil || !waiting || time.Now().Before(deadline) {
				return err
			}
			now, err := serverTime(q)
			if err != nil {
				return err
			}
			waiting, outcome = false, Unproven
			return lose(q, fmt.Sprintf("%s: gateways that did not say whether their writes are there: %d",
				Unproven, missing), s.history, now)
		}); err != nil {
			return fmt.Errorf("waiting for the other gateways to find their writes: %w", err)
		}
		if waiting {
			select {
			case <-time.After(confirmPoll):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	e.guard.settle(s.process, outcome)
	return nil
}

// begun starts the guard, after the tables are there.
func (e *postgresEngine) begun(ctx context.Context) error {
	db, err := pool(e.url, 1, nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	s, err := serverOf(tx{ctx, db}.row)
	if err != nil {
		return err
	}
	if err := e.check(ctx, s); err != nil {
		return err
	}
	e.guarding.Store(true)
	for db, most := range map[*sql.DB]int{e.db: connections - batchesAtOnce, e.batches: batchesAtOnce} {
		db.SetMaxIdleConns(0) // what was opened before is not checked
		db.SetMaxIdleConns(most)
	}
	q := tx{ctx, e.db}
	now, err := serverTime(q)
	if err != nil {
		return err
	}
	return forget(q, now)
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
func synchronous(q tx) (bool, error) {
	return value[bool](q, `SELECT current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') IN ('on', 'remote_apply')`)
}
