// Package store keeps what must outlive the process: the callback addresses that were given to upstreams, the payment
// callbacks that are to be delivered to partners (requirement R30), the owning backend of each bill, the stages of
// partners in a rollout, and what was counted of their calls. One replica uses an SQLite file; several share a
// PostgreSQL database. Callers see no difference.
//
//	s, err := store.Open(ctx, "sqlite:/var/lib/billbridge/store.db")
//	…
//	accepted, err := s.Accept(ctx, callback, 10*time.Minute) // on the disk when err is nil
//	…
//	due, err := s.Claim(ctx, time.Now(), time.Minute, 32, 4, 8, underWay)
//	for _, c := range due {
//		… // deliver c
//		ended, err := s.Finish(ctx, c, store.Result{At: time.Now(), Status: 200, State: store.Delivered})
//	}
//
// A create of a bill is recorded before it is sent, and again when it has ended. What an event makes of a bill, package
// ledger says:
//
//	call := ledger.Call{At: time.Now(), Upstream: "new", Merchant: "shop"}
//	bill, _, err := s.Apply(ctx, bill, ledger.Event{Call: call, What: ledger.CreateBegun{Token: token}})
//	… // the create goes to bill.Upstream
//	ended := ledger.CreateEnded{Token: token, Outcome: outcome}
//	bill, _, err = s.Apply(ctx, bill, ledger.Event{Call: call, What: ended})
//
// Which keys are of one partner is in the store alone ([Store.AddKey], [Store.Identity]), so that gateways with
// different configs agree on the owner of a bill; a config is only compared with it. A trigger refuses rows of bills
// under a further key, so that a gateway that does not know the key yet sends nothing.
//
// Callers pass the time; the store keeps it in milliseconds. Old rows are removed by a clock of the store's own: see
// [Store.Tick].
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy/partner"
)

var (
	// ErrNotFound: there is no such row, or it was removed.
	ErrNotFound error = sentinel("not found")
	// errLeaseLost: the lease of a claimed callback ended and another attempt has it, or had it.
	errLeaseLost error = sentinel("the lease was lost")
	// ErrState: the callback is not in a state in which it can be replayed or dropped.
	ErrState error = sentinel("not in that state")
	// ErrErased: the body of the callback was deleted, so that it cannot be delivered again.
	ErrErased error = sentinel("the body of the callback was deleted")
	// ErrAmbiguous: the short hash of a partner fits more than one.
	ErrAmbiguous error = sentinel("the partner's short hash fits more than one partner")
	// errClosed: the store was closed.
	errClosed error = sentinel("closed")
	// errReplaced: the database file was deleted, moved or replaced while it was open. What is written now would be
	// lost with it, so nothing is acknowledged any more.
	errReplaced error = sentinel("the database file is no longer the one that was opened")
)

// A Store is an open database. Its methods may be called concurrently. A method that changes something has made it
// durable when it returns nil. When it returns an error, the change was not made or, if the error came late (a
// cancelled context, a connection lost during the commit), may have been.
type Store struct {
	*db
	callbacks
	partners
	waves

	// Narrowed is the mode that the file of an SQLite store had, if others than its owner had rights to it. Open takes
	// these away. It is 0 if there was nothing to do.
	Narrowed os.FileMode

	closed   func() error // closes the engine, once
	lossless bool         // as in Options
	stages   atomic.Pointer[knownStages]
	deciding sync.Mutex // held while these and the keys of partners are read
}

// A db is what the parts of a store have in common.
type db struct {
	engine
	dialect
	clock
	*keyring
	*guard     // the engine's
	batch  int // as in Options
	recent recentWrites
}

// An engine runs statements in one of the databases.
type engine interface {
	// read runs f on what is committed. It returns the error of the statement that failed.
	read(ctx context.Context, f func(tx)) error
	// write runs f in a transaction that is durable when write returns nil. It may run f again after a failure. When
	// ctx ends it may return before f does: after an error the caller must not read memory that f writes to. So may
	// read.
	write(ctx context.Context, f func(tx)) error
	// record applies an entry in a transaction with those of other callers, and sets its applied. As with write, n
	// must not be read after an error.
	record(ctx context.Context, n *entry) error
	close() error // is called once
}

// Open opens the database at a URL and brings its tables up to date:
//
//	sqlite:PATH     a file; it is made if it is missing, its folder must exist
//	memory:         SQLite in memory, gone with Close
//	postgres://…    PostgreSQL, tested with 15; postgresql:// too
//
// A database with a newer schema that this version cannot use, and a file that is not a store of billbridge, are
// refused and left as they are. No error shows the URL's password. ctx bounds the opening only.
//
// A database that is encrypted with another key, or is not encrypted although there is one, is refused.
//
// If the server is not the one that the gateways used before, Open waits up to 8 seconds for the other gateways to
// find their writes there (see [FailOver]).
func Open(ctx context.Context, url string, given ...Options) (*Store, error) {
	o := append(given, Options{})[0]
	p, err := placeOf(url)
	if err != nil {
		return nil, err
	}
	d := &db{dialect: forSQLite, clock: clock{ofServer: p.postgres}, batch: cmp.Or(o.batch, 1000)}
	s := &Store{
		db: d, callbacks: callbacks{d}, partners: partners{db: d}, waves: waves{d}, lossless: o.Lossless && p.postgres,
	}
	if s.keyring, err = newKeyring(o.Key); err != nil {
		return nil, p.failed(err)
	}
	open, at, slots := openSQLite, p.file, 1
	if p.postgres {
		s.dialect, open, at, slots = forPostgres, openPostgres, url, connections
	}
	s.guard = newGuard(s.keyring.begin, slots, o.confirm)
	if s.engine, err = open(ctx, at, o, s.guard); err != nil {
		return nil, p.failed(err)
	}
	s.closed = sync.OnceValue(s.engine.close)
	own := ""
	if err = s.write(ctx, func(q tx) {
		own = value[string](q, "SELECT value FROM billbridge_secret")
		s.readKeys(q)
	}); err != nil {
		_ = s.Close()
		return nil, p.failed(err)
	}
	s.keyring.sealing = append(s.keyring.sealing, []byte(own))
	if p.file != "" { // only now: it is a store for certain
		s.Narrowed = narrow(p.file)
	}
	return s, nil
}

// Options are what Open does not need to know.
type Options struct {
	// Key encrypts what the store must keep in full, because it is sent later: callback addresses and bodies. It has
	// KeyLength bytes. If nil, they are not encrypted.
	Key []byte
	// Lossless: after a fail-over of PostgreSQL the new server has all that was acknowledged, because a standby
	// confirms each write. So Open and new connections do not wait for other gateways.
	Lossless bool

	// What tests set.
	busy    time.Duration // how long SQLite waits for the lock of another process; 0 for 5 s
	pages   int           // how many pages SQLite's file may have; 0 for no limit
	more    []string      // migrations that follow those of the program
	batch   int           // the most rows that one transaction of a long change takes: other writes wait; 0 for 1000
	confirm time.Duration // instead of confirmWithin; 0 for that
}

// Probe returns nil if the store at a URL could be opened and written to now, else an error like Open's. It creates and
// changes nothing, and does not disturb processes that have the store open.
func Probe(ctx context.Context, url string, given ...Options) error {
	o := append(given, Options{})[0]
	p, err := placeOf(url)
	if err != nil {
		return err
	}
	switch {
	case p.postgres:
		err = probePostgres(ctx, url, o)
	case p.file != "":
		err = probeSQLite(ctx, p.file, o)
	}
	return p.failed(err)
}

// A place is what a URL names.
type place struct {
	postgres bool
	file     string // SQLite's; "" in memory
	name     string // for errors, without a password
}

func placeOf(url string) (place, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "memory":
		if rest != "" {
			return place{}, errors.New("store: memory: takes nothing after the colon")
		}
		return place{name: "in memory"}, nil
	case "sqlite":
		if rest == "" {
			return place{}, errors.New("store: sqlite: needs the path of a file after the colon")
		}
		return place{file: rest, name: rest}, nil
	case "postgres", "postgresql":
		return place{postgres: true, name: "in PostgreSQL"}, nil
	}
	return place{}, errors.New("store: the URL must begin with sqlite:, memory:, postgres:// or postgresql://")
}

func (p place) failed(err error) error {
	if err == nil {
		return nil
	}
	return about("store "+p.name, named(err))
}

// Close waits for the writes under way and closes the database. From then on all methods return an error.
func (s *Store) Close() error { return s.closed() }

// pingRoom is the number of bytes that Ping needs free space for.
const pingRoom = 32 << 10

// Ping returns nil if the store can be written to now: it writes, waits for the disk as every write does, and touches
// each table that a call needs. For SQLite the file must be the one that was opened. Most of the writes of the last
// seconds must have succeeded, too.
func (s *Store) Ping(ctx context.Context) error {
	err := failed("writing to the database", s.write(ctx, func(q tx) {
		for _, statement := range []string{
			// A row of the kind that every create makes, which no partner can have.
			`INSERT INTO billbridge_bills (partner, bill, version, upstream, state, also_at, ends, estimated, data)
				VALUES ('', 'ping', 1, '', 'released', '', 0, 0, '{}') ON CONFLICT (partner, bill) DO UPDATE
					SET data = excluded.data`,
			"DELETE FROM billbridge_bills WHERE partner = '' AND bill = 'ping'",
			"UPDATE billbridge_addresses SET url = url WHERE id = ''",
			"UPDATE billbridge_callbacks SET body = body WHERE id = ''",
			"UPDATE billbridge_clock SET room = '" + strings.Repeat("0", pingRoom) + "'",
			"UPDATE billbridge_clock SET room = ''",
		} {
			q.exec(statement)
		}
	}))
	return cmp.Or(err, s.recent.problem())
}

// read runs a query that returns a T. Of a text that cannot be stored there is no row.
func read[T any](ctx context.Context, s *db, doing string, f func(tx) T) (T, error) {
	result, refusal, err := answer(ctx, s.read, f)
	if errors.Is(err, errUnstorable) {
		err = ErrNotFound
	}
	return result, cmp.Or(refusal, failed(doing, err))
}

// readAll returns the rows of a query.
func readAll[T any](ctx context.Context, s *db, doing, query string, args ...any) ([]T, error) {
	return read(ctx, s, doing, func(q tx) []T { return list[T](q, query, args...) })
}

// readOne returns the row of a query that has one.
func readOne[T any](ctx context.Context, s *db, doing, query string, args ...any) (T, error) {
	return read(ctx, s, doing, func(q tx) T { return value[T](q, query, args...) })
}

// write runs a transaction that returns a T.
func write[T any](ctx context.Context, s *db, doing string, f func(tx) T) (T, error) {
	result, refusal, err := answer(ctx, s.write, f)
	s.recent.observe(err)
	return result, cmp.Or(refusal, failed(doing, err))
}

// answer runs a call that returns a T. The T is read only after f has returned for certain. With a refusal, it is
// returned, too.
func answer[T any](
	ctx context.Context, engine func(context.Context, func(tx)) error, f func(tx) T,
) (result T, refusal, err error) {
	var got T
	var refused error
	if err := engine(ctx, func(q tx) {
		got = f(q)
		refused = q.err
	}); err != nil {
		return result, nil, err
	}
	return got, refused, nil
}

// update runs a transaction.
func (s *db) update(ctx context.Context, doing string, f func(tx)) error {
	_, err := write(ctx, s, doing, func(q tx) (none struct{}) {
		f(q)
		return none
	})
	return err
}

// exec runs a transaction of one statement.
func (s *db) exec(ctx context.Context, doing, statement string, args ...any) error {
	return s.update(ctx, doing, func(q tx) { q.exec(statement, args...) })
}

// A sentinel is an error that needs no context.
type sentinel string

func (e sentinel) Error() string { return "store: " + string(e) }

func isSentinel(err error) bool { return errors.As(err, new(sentinel)) }

func failed(doing string, err error) error {
	switch {
	case err == nil, isSentinel(err):
		return err
	case strings.Contains(err.Error(), furtherKey):
		return ErrFurtherKey
	}
	return about("store: "+doing, err)
}

// needs refuses a row of a partner that has no full hash, without a time, or with an empty name.
func needs(partner partner.ID, at time.Time, names ...string) error {
	if !partner.IsFull() || at.IsZero() || slices.Contains(names, "") {
		return fmt.Errorf("store: a row needs the full hash of a partner, a time and all names, not %q, %s and %q",
			partner, at.Format(time.RFC3339), names)
	}
	return nil
}

// printable is a text that may be cleaned, made storable.
func printable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}
