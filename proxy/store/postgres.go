package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// connections is the most connections of a replica to PostgreSQL.
const connections = 16

// postgresEngine is PostgreSQL: plain transactions on a pool of connections, and batches of entries on another one.
// Several replicas may share it.
type postgresEngine struct {
	db, batches *sql.DB
	queue       // of entries
	outage

	config   *pgx.ConnConfig
	guard    *guard
	checking chan struct{} // holds one: one check of a server at a time
	lossless bool          // see Options

	using sync.RWMutex // read-locked while a transaction runs: close waits for them
}

func openPostgres(ctx context.Context, url string, o Options, g *guard) (engine, error) {
	config, _, err := parse(url)
	if err != nil {
		return nil, err
	}
	e := &postgresEngine{
		queue: newQueue(), config: config, guard: g, checking: make(chan struct{}, 1), lossless: o.Lossless,
	}
	if err := onePool(config, 2, func(db *sql.DB) error { return prepare(ctx, db, o) }); err != nil {
		return nil, err
	}
	if err := e.check(ctx, pgServer{}); err != nil {
		return nil, err
	}
	checked := stdlib.OptionResetSession(e.reused)
	e.db = pool(config, connections-batchesAtOnce, []onConnect{e.connected}, checked)
	e.batches = pool(config, batchesAtOnce, []onConnect{e.connected, forBatches}, checked)
	if err := run(ctx, e.db, func(q tx) { forget(q, serverTime(q)) }); err != nil {
		return nil, errors.Join(err, e.db.Close(), e.batches.Close())
	}
	go e.recordAll()
	return e, nil
}

// onConnect prepares a new connection.
type onConnect func(context.Context, *pgx.Conn) error

// planned has PostgreSQL read the first rows by an index in their order. By statistics that are old or missing, as
// after a restore, it may expect few rows, and read and sort all. A statement must fit one index: with
// "a = $1 ORDER BY b" one of b alone has the order, with "a IN ($1, $1) ORDER BY a, b" it has not; an expression such
// as b + 0 > $1 is in none. Before version 18 what is off counts as a high cost, for which statements are compiled:
// that takes 100 ms or more.
const planned = "SET enable_sort = off; SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off"

// pool prepares connections that stay open.
func pool(config *pgx.ConnConfig, most int, prepare []onConnect, options ...stdlib.OptionOpenDB) *sql.DB {
	afterConnect := stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		// A server may be configured not to wait for its disk, but what is acknowledged must be on it (requirement
		// R30).
		if _, err := c.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE "+
			"current_setting('synchronous_commit') = 'off'"); err != nil {
			return err
		}
		// A replica that freezes or is cut off within a transaction would keep its locks, and all others waiting,
		// until the server notices, which can take hours. Our transactions are never idle between two statements.
		_, err := c.Exec(ctx, "SET idle_in_transaction_session_timeout = '30s'; "+planned)
		for _, f := range prepare {
			if err == nil {
				err = f(ctx, c)
			}
		}
		return err
	})
	db := stdlib.OpenDB(*config, append(options, afterConnect)...)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// onePool runs f on a pool for it alone.
func onePool(config *pgx.ConnConfig, most int, f func(*sql.DB) error) error {
	db := pool(config, most, nil)
	defer func() { _ = db.Close() }()
	return f(db)
}

// parse reads a URL, and fills in what it does not say. Its errors are fixed texts: of a malformed URL nobody can say
// which part is the password.
func parse(url string) (config *pgx.ConnConfig, filled []string, err error) {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return nil, nil, errors.New("the URL must begin with postgres://")
	}
	// An @ after the first / or ? ends a password that contains one of them. Its beginning would be taken for the
	// host and shown.
	if end := strings.IndexAny(rest, "@/?#"); strings.Count(rest, "@") > 1 || end >= 0 && rest[end] != '@' &&
		strings.Contains(rest, "@") {
		return nil, nil, errors.New("the URL cannot be read: @, /, ? and # in its password must be percent-encoded")
	}
	config, err = pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, errors.New("the URL cannot be read: it must be like " +
			"postgres://user:password@host:5432/database?sslmode=verify-full, " +
			"special characters percent-encoded, and the files that it names must be readable")
	}
	// The pool opens connections one after the other: one frozen host would stop all calls.
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
		filled = append(filled, fmt.Sprintf("connect_timeout=%.0f", connectTimeout.Seconds()))
	}
	// A standby takes no writes. With one host, too: behind it can be any server of a cluster.
	if config.ValidateConnect == nil && !strings.Contains(url, "target_session_attrs=") &&
		os.Getenv("PGTARGETSESSIONATTRS") == "" {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		filled = append(filled, "target_session_attrs=read-write")
	}
	config.OnPgError = atServer
	return config, filled, nil
}

// Servers returns the servers that a URL of PostgreSQL names, and the settings that are added to it.
func Servers(url string) (servers, filled []string, err error) {
	config, filled, err := parse(url)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...) {
		servers = append(servers, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	return slices.Compact(servers), filled, nil // a server can be there with TLS and without
}

// connectTimeout is how long one host can take to accept a connection, unless the URL has connect_timeout.
const connectTimeout = 2 * time.Second

// readOnlyServer is the code of a write at a standby: another server is or will be the primary.
const readOnlyServer = "25006"

// Unreachable reports whether an error of Open may be temporary: PostgreSQL does not answer, is starting, is
// read-only, or has no free connection.
func Unreachable(err error) bool {
	return unreachableServer(err) || strings.HasPrefix(pgError(err).Code, "53")
}

// prepare brings the tables up to date.
func prepare(ctx context.Context, db *sql.DB, o Options) error {
	if err := suits(ctx, db); err != nil {
		return err
	}
	return transact(ctx, db, func(q tx) {
		// Replicas start together: one migrates, the others wait and find nothing to do.
		advisoryLock(q, exclusive, "migrate")
		migrate(q, forPostgres, o)
	})
}

// transact runs f in a transaction. Whatever the server's default, a statement after a lock must see what was committed
// before the lock was taken.
func transact(ctx context.Context, db *sql.DB, f func(tx)) error {
	return within(ctx, db, sql.LevelReadCommitted, func(t *sql.Tx) error { return run(ctx, t, f) })
}

// suits refuses a database, or a pooler before it, with which the store does not work.
func suits(ctx context.Context, db *sql.DB) error {
	if err := hasSessions(ctx, db); err != nil {
		return err
	}
	return run(ctx, db, func(q tx) {
		if encoding := value[string](q, "SHOW server_encoding"); encoding != "UTF8" {
			q.fail(fmt.Errorf("the encoding of the database must be UTF8, not %s", encoding))
		}
	})
}

// hasSessions refuses a pooler that gives each transaction any of its sessions. Prepared statements would be missing,
// and the settings of pool would be those of other transactions: an acknowledged callback might not be on the disk.
//
// With sessions, each of two connections has a process of the server of its own, and keeps it. Without them, the
// second connection gets that of the first if the pooler prefers the session used last, and the first gets another
// one each time if it prefers the one unused for longest. Other callers of the pooler can hide that once, but not in
// all rounds.
func hasSessions(ctx context.Context, db *sql.DB) error {
	var connections [2]*sql.Conn
	for i := range connections {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		connections[i] = c
	}
	var own [2]string
	for n := range 3 * sessionRounds {
		i := n % 3 / 2 // twice the first, once the second
		var process string
		const asked = "SELECT pg_backend_pid() || ' ' || pg_postmaster_start_time()"
		if err := connections[i].QueryRowContext(ctx, asked, pgx.QueryExecModeExec).Scan(&process); err != nil {
			return err
		}
		if own[i] = cmp.Or(own[i], process); own[i] != process || own[0] == own[1] {
			return errors.New("a connection does not have a session of its own: connect to PostgreSQL directly, " +
				"or set the pooler to sessions (PgBouncer: pool_mode = session)")
		}
	}
	return nil
}

// sessionRounds: at most 4 were needed in 15,000 trials, with pools of 2 to 50 sessions and up to 100 other callers.
const sessionRounds = 12

// The kinds of locks: several transactions can have a shared one at once.
const (
	exclusive = "SELECT pg_advisory_xact_lock($1)"
	shared    = "SELECT pg_advisory_xact_lock_shared($1)"
)

// advisoryLock takes the lock that a key names until the transaction ends.
func advisoryLock(q tx, kind string, key ...string) { q.exec(kind, number(key)) }

// number is the number by which PostgreSQL identifies a lock.
func number(key []string) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "billbridge %q", key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (e *postgresEngine) transaction(ctx context.Context, f func(tx)) error {
	since := e.guard.changes.Load()
	var own *slot
	defer func() {
		if own != nil {
			e.guard.slots <- own
		}
	}()
	raised := 0
	err := within(ctx, e.db, sql.LevelReadCommitted, func(t *sql.Tx) error { // see transact
		own = <-e.guard.slots
		if err := run(ctx, t, f); err != nil {
			return err
		}
		return e.fell(run(ctx, t, func(q tx) { raised = value[int](q, raisingIfChanged, e.guard.next(own)...) }))
	})
	if err != nil || raised == 0 {
		return err
	}
	return e.guard.acknowledge(own, since)
}

func (e *postgresEngine) read(ctx context.Context, f func(tx)) error {
	return e.call(ctx, func() error { return run(ctx, e.db, f) })
}

func (e *postgresEngine) write(ctx context.Context, f func(tx)) error {
	return e.call(ctx, func() error { return e.transaction(ctx, f) })
}

func (e *postgresEngine) record(ctx context.Context, n *entry) error {
	return e.call(ctx, func() error { return e.do(job{ctx: ctx, entry: n}) })
}

// call calls do, unless the engine is closed or the database is known to be down.
func (e *postgresEngine) call(ctx context.Context, do func() error) error {
	return e.try(ctx, func() error {
		e.using.RLock()
		defer e.using.RUnlock()
		if e.isClosing() {
			return errClosed
		}
		return do()
	})
}

func (e *postgresEngine) close() error {
	e.using.Lock()
	defer e.using.Unlock()
	close(e.closing)
	<-e.gone
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	_ = run(ctx, e.db, e.guard.leave) // if the server does not answer, the rows stay
	return errors.Join(e.batches.Close(), e.db.Close())
}
