package store

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

func probeSQLite(ctx context.Context, file string, o Options) error {
	path, err := inFolder(file)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return roomFor(path)
	}
	_, source, _, err := inspected(ctx, path)
	if err != nil {
		return explained(err)
	}
	return explained(oneFile(source, url.Values{"mode": {"rw"}, "_txlock": {"immediate"}}, func(db *sql.DB) error {
		return o.patiently(ctx, func() error {
			t, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = t.Rollback() }() // always
			return run(ctx, t, o.tryToWrite)
		})
	}))
}

// wait is how long SQLite waits for the lock of another process.
func (o Options) wait() time.Duration { return cmp.Or(o.busy, 5*time.Second) }

// patiently repeats f while another process has the lock, for as long as o.wait. SQLite itself would ask for the lock
// less and less often, and might never get it from a running process, which has it nearly all the time; for some
// steps it does not wait at all.
func (o Options) patiently(ctx context.Context, f func() error) error {
	patience, cancel := context.WithTimeout(ctx, o.wait())
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if code(err) != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-again.C:
		case <-patience.Done():
			return err
		}
	}
}

// roomFor returns nil if the file with that path could be made.
func roomFor(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".billbridge-check-*")
	if err != nil {
		return fmt.Errorf("no file can be made in the folder %s: %w", filepath.Dir(path), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// tryToWrite checks a file as Open does. It makes the first write of Open, because SQLite grants the lock on a
// read-only file, too, and not every system reports that earlier.
func (o Options) tryToWrite(q tx) {
	recognise(q)
	o.checkKeys(q, examine(q, forSQLite))
	mark(q)
}

func probePostgres(ctx context.Context, url string, o Options) error {
	config, _, err := parse(url)
	if err != nil {
		return err
	}
	return onePool(config, 2, func(db *sql.DB) error {
		if err := suits(ctx, db); err != nil {
			return err
		}
		return run(ctx, db, func(q tx) {
			if value[string](q, "SHOW transaction_read_only") != "off" { // such as a standby
				q.fail(errors.New("PostgreSQL is read-only"))
			}
			s := examine(q, forPostgres)
			if s.version < len(s.files) {
				mayCreate(q)
			} else {
				mayWrite(q)
			}
			o.checkKeys(q, s)
		})
	})
}

// checkKeys is the check of keys that Open makes, if the tables are up to date. Older tables have no encrypted rows.
func (o Options) checkKeys(q tx, s schema) {
	keys, err := newKeyring(o.Keys)
	if q.fail(err); s.version == len(s.files) {
		keys.check(q)
	}
}

func mayCreate(q tx) {
	if schema, mayNot := find[string](q, `
		SELECT coalesce(current_schema(), '')
		WHERE coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) IS FALSE`); mayNot {
		q.fail(fmt.Errorf("the tables are to be made or changed, and the user may not do so in the schema %q", schema))
	}
}

func mayWrite(q tx) {
	if missing, lacks := find[string](q, `
		SELECT privilege || ' on ' || name
		FROM unnest(ARRAY['billbridge_upstreams', 'billbridge_addresses', 'billbridge_callbacks', 'billbridge_owners',
				'billbridge_rollout', 'billbridge_stages', 'billbridge_audit', 'billbridge_seen', 'billbridge_counts',
				'billbridge_clock', 'billbridge_unknown', 'billbridge_proven', 'billbridge_doubled',
				'billbridge_gateways', 'billbridge_secret']) AS name,
			unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
		WHERE NOT has_table_privilege(name, privilege) LIMIT 1`); lacks {
		q.fail(fmt.Errorf("the user lacks the right to %s", missing))
	}
}

//go:embed migrations
var migrations embed.FS

// A dialect is what the statements of the engines differ in.
type dialect struct {
	folder    string // of the migrations
	versioned string // the query whether the table of versions exists
	claim     string // the query for callbacks that can be claimed
	passOver  string // makes a query skip rows that another transaction has locked
	each      string // the format of a query for each of the texts of an argument
	waveRows  string // the columns of partners of a wave that are a JSON array in $2
}

var (
	forSQLite = dialect{
		"sqlite", "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'billbridge_schema'", claimSQLite, "",
		"(SELECT value FROM json_each(%s))",
		"value->>'Partner', key, 1, value->>'From', value->>'FromPercent', '' FROM json_each($2)",
	}
	forPostgres = dialect{
		"postgres", "SELECT to_regclass('billbridge_schema') IS NOT NULL", claimPostgres, "FOR UPDATE SKIP LOCKED",
		"(SELECT jsonb_array_elements_text(%s))",
		`p->>'Partner', n - 1, 1, p->>'From', (p->>'FromPercent')::INTEGER, ''
			FROM jsonb_array_elements($2) WITH ORDINALITY AS partners (p, n)`,
	}
)

// A schema is the version of the tables of a database.
type schema struct {
	files     []string // all migrations, in order
	version   int      // how many of them it has
	versioned bool     // it has the table of versions
}

// examine reads the schema without changing anything. It refuses one that is newer than this billbridge.
func examine(q tx, d dialect) (s schema) {
	// The names begin with the version.
	var err error
	s.files, err = fs.Glob(migrations, "migrations/"+d.folder+"/*.sql")
	q.fail(err)
	if s.versioned = value[bool](q, d.versioned); s.versioned {
		s.version = value[int](q, "SELECT coalesce(max(version), 0) FROM billbridge_schema")
	}
	if s.version > len(s.files) {
		q.fail(fmt.Errorf("its schema has version %d and this billbridge knows versions up to %d: a newer "+
			"billbridge created it", s.version, len(s.files)))
	}
	return s
}

// migrate brings the tables up to date, in a transaction of its own. A released migration is never changed: a change
// of the tables is a new file.
func migrate(q tx, d dialect) {
	s := examine(q, d)
	if !s.versioned {
		q.exec("CREATE TABLE billbridge_schema (version INTEGER PRIMARY KEY)")
	}
	for version := s.version; version < len(s.files) && q.err == nil; version++ {
		text, err := migrations.ReadFile(s.files[version])
		if err == nil {
			// Not exec: a file may end in a comment, which has no result.
			_, err = q.ExecContext(q.ctx, string(text))
		}
		if err != nil {
			q.fail(fmt.Errorf("%s: %w", s.files[version], err))
		}
		q.exec("INSERT INTO billbridge_schema (version) VALUES ($1)", version+1)
	}
}
