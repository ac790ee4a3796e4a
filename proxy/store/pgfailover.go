package store

import (
	"cmp"
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
				advisoryLock(q, exclusive, "fail-over") // one gateway at a time, so that a loss is declared once
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
