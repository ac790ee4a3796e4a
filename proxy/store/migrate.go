package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations
var migrations embed.FS

// migrate brings the tables up to date, inside the caller's transaction and alone in it. exists asks for the table of
// versions. A file of migrations is never changed once it was released; what changes the tables is a new file.
func migrate(ctx context.Context, q queries, engine, exists string) error {
	files, err := fs.Glob(migrations, "migrations/"+engine+"/*.sql") // in order: the names begin with the version
	if err != nil {
		return err
	}
	var versioned bool
	if err := q.QueryRowContext(ctx, exists).Scan(&versioned); err != nil {
		return err
	}
	version := 0
	if versioned {
		if err := q.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM billbridge_schema").Scan(&version); err != nil {
			return err
		}
	}
	if version > len(files) {
		return fmt.Errorf("its schema has version %d and this billbridge knows up to %d: a newer one made it", version, len(files))
	}
	if !versioned {
		if _, err := q.ExecContext(ctx, "CREATE TABLE billbridge_schema (version INTEGER PRIMARY KEY)"); err != nil {
			return err
		}
	}
	for ; version < len(files); version++ {
		text, err := migrations.ReadFile(files[version])
		if err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", files[version], err)
		}
		if _, err := q.ExecContext(ctx, "INSERT INTO billbridge_schema (version) VALUES ($1)", version+1); err != nil {
			return err
		}
	}
	return nil
}
