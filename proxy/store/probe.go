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
	o.checkKey(q, examine(q, forSQLite, o))
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
			s := examine(q, forPostgres, o)
			if s.version < len(s.migrations) {
				mayCreate(q)
			} else {
				mayWrite(q)
			}
			o.checkKey(q, s)
		})
	})
}

// checkKey is the check of the key that Open makes, if there are tables.
func (o Options) checkKey(q tx, s schema) {
	keys, err := newKeyring(o.Key)
	if q.fail(err); s.version > 0 {
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
		SELECT privilege || ' on ' || relname
		FROM pg_class, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
		WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relkind = 'r'
			AND relname LIKE 'billbridge!_%' ESCAPE '!' AND relname <> 'billbridge_schema'
			AND NOT has_table_privilege(pg_class.oid, privilege) LIMIT 1`); lacks {
		q.fail(fmt.Errorf("the user lacks the right to %s", missing))
	}
}

//go:embed migrations
var migrationFiles embed.FS

// A dialect is what the statements of the engines differ in.
type dialect struct {
	postgres  bool
	folder    string // of the migrations
	versioned string // the query whether the table of versions exists
	claim     string // the query for callbacks that can be claimed
	each      string // the format of a comparison with each of the texts of an argument
	seqs      string // the same for numbers
	among     string // a condition: one of some rows, %[2]s, for which %[3]s; with key %[1]s, of table %[4]s
	waveRows  string // the columns of partners of a wave that are a JSON array in $2
}

var (
	forSQLite = dialect{
		false, "sqlite", "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'billbridge_schema'", claimSQLite,
		"IN (SELECT value FROM json_each(%s))", "IN (SELECT value FROM json_each(%s))",
		"(%[1]s) IN (SELECT %[1]s FROM (SELECT * %[2]s) AS part WHERE %[3]s)",
		"value->>'Partner', key, 1, value->>'From', value->>'FromPercent', '' FROM json_each($2)",
	}
	forPostgres = dialect{
		true, "postgres", "SELECT to_regclass('billbridge_schema') IS NOT NULL", claimPostgres,
		// An array is looked up in an index whatever the statistics say; a query may be joined to all rows.
		"= ANY (ARRAY(SELECT jsonb_array_elements_text(%s)))",
		"= ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(%s) AS BIGINT)))",
		`ctid = ANY (ARRAY(SELECT ctid FROM billbridge_%[4]s WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM (SELECT ctid, * %[2]s) AS part WHERE %[3]s)) FOR UPDATE SKIP LOCKED))`,
		`p->>'Partner', n - 1, 1, p->>'From', (p->>'FromPercent')::INTEGER, ''
			FROM jsonb_array_elements($2) WITH ORDINALITY AS partners (p, n)`,
	}
)

// A migration brings the tables of the version before to its own. A released one is never changed, and a new one only
// adds, so that gateways of the version before run beside it, and can be started again.
type migration struct {
	name, text   string
	readableFrom int // the first version whose program can use the tables
}

// migrations are those of an engine, in their order.
func (o Options) migrations(d dialect) (all []migration, err error) {
	// The names begin with the version.
	names, err := fs.Glob(migrationFiles, "migrations/"+d.folder+"/*.sql")
	for _, name := range names {
		text, readErr := migrationFiles.ReadFile(name)
		err = errors.Join(err, readErr)
		all = append(all, migration{name: name, text: string(text)})
	}
	for _, text := range o.more {
		all = append(all, migration{name: fmt.Sprintf("migration %d", len(all)+1), text: text})
	}
	for i := range all {
		m := &all[i]
		if _, scanErr := fmt.Sscanf(m.text, "-- Readable from version %d.\n", &m.readableFrom); scanErr != nil {
			err = errors.Join(err, fmt.Errorf("%s does not say from which version on it is readable: %w",
				m.name, scanErr))
		}
	}
	return all, err
}

// A schema is the version of the tables of a database.
type schema struct {
	migrations []migration // all that this billbridge knows
	version    int         // how many the database has
	versioned  bool        // it has the table of versions
}

// examine reads the schema without changing anything. It refuses one that is newer than this billbridge, unless that
// says that this version can use it.
func examine(q tx, d dialect, o Options) (s schema) {
	var err error
	s.migrations, err = o.migrations(d)
	q.fail(err)
	if s.versioned = value[bool](q, d.versioned); !s.versioned {
		return s
	}
	is := value[[2]int](q, "SELECT coalesce(max(version), 0), coalesce(max(readable_from), 0) FROM billbridge_schema")
	if s.version = is[0]; is[1] > len(s.migrations) {
		q.fail(fmt.Errorf("its schema has version %d, which versions from %d on can use, and this billbridge knows "+
			"versions up to %d: a newer billbridge created it", is[0], is[1], len(s.migrations)))
	}
	return s
}

// migrate brings the tables up to date, in a transaction of its own.
func migrate(q tx, d dialect, o Options) {
	s := examine(q, d, o)
	if !s.versioned {
		q.exec("CREATE TABLE billbridge_schema (version INTEGER PRIMARY KEY, readable_from INTEGER NOT NULL)")
	}
	for version := s.version; version < len(s.migrations) && q.err == nil; version++ {
		m := s.migrations[version]
		// Not exec: a file may end in a comment, which has no result.
		if _, err := q.ExecContext(q.ctx, m.text); err != nil {
			q.fail(fmt.Errorf("%s: %w", m.name, err))
		}
		q.exec("INSERT INTO billbridge_schema (version, readable_from) VALUES ($1, $2)", version+1, m.readableFrom)
	}
}
