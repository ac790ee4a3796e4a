package store

import (
	"embed"
	"fmt"
	"io/fs"
)

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
