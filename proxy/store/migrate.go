package store

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations
var migrations embed.FS

// A dialect is the folder of an engine's migrations, and the query whether the table of versions exists.
type dialect struct{ folder, versioned string }

var (
	forSQLite   = dialect{"sqlite", "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'billbridge_schema'"}
	forPostgres = dialect{"postgres", "SELECT to_regclass('billbridge_schema') IS NOT NULL"}
)

// A schema is the version of the tables of a database.
type schema struct {
	files     []string // all migrations, in order
	version   int      // how many of them it has
	versioned bool     // it has the table of versions
}

// examine reads the schema without changing anything. It refuses one that is newer than this billbridge.
func examine(q tx, d dialect) (s schema, err error) {
	// The names begin with the version.
	if s.files, err = fs.Glob(migrations, "migrations/"+d.folder+"/*.sql"); err != nil {
		return s, err
	}
	if err := q.row(d.versioned).Scan(&s.versioned); err != nil {
		return s, err
	}
	if s.versioned {
		if err := q.row("SELECT coalesce(max(version), 0) FROM billbridge_schema").Scan(&s.version); err != nil {
			return s, err
		}
	}
	if s.version > len(s.files) {
		return s, fmt.Errorf("its schema has version %d and this billbridge knows versions up to %d: a newer "+
			"billbridge created it", s.version, len(s.files))
	}
	return s, nil
}

// migrate brings the tables up to date, in a transaction of its own. A released migration is never changed: a change
// of the tables is a new file.
func migrate(q tx, d dialect) error {
	s, err := examine(q, d)
	if err != nil {
		return err
	}
	if !s.versioned {
		if _, err := q.exec("CREATE TABLE billbridge_schema (version INTEGER PRIMARY KEY)"); err != nil {
			return err
		}
	}
	for version := s.version; version < len(s.files); version++ {
		text, err := migrations.ReadFile(s.files[version])
		if err != nil {
			return err
		}
		// Not exec: a file may end in a comment, which has no result.
		if _, err := q.ExecContext(q.ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", s.files[version], err)
		}
		if _, err := q.exec("INSERT INTO billbridge_schema (version) VALUES ($1)", version+1); err != nil {
			return err
		}
	}
	return nil
}
