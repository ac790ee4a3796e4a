package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// errNotAFile: Backup copies SQLite files only.
var errNotAFile = errors.New("it is not an SQLite file")

// A Copy says what is in a backup.
type Copy struct {
	At                          time.Time // everything that was acknowledged before is in it
	Size                        int64     // of the file, in bytes
	Bills, Addresses, Callbacks int
}

// Backup writes a consistent copy of the SQLite store at a URL to a new file that only its owner can read. It returns
// when the copy is on the disk. Other processes can read and write the store meanwhile; its write-ahead log grows
// until the copy is complete. progress may be nil; it is called about once a second with the bytes written and the
// size of the store.
func Backup(ctx context.Context, url, file string, progress func(written, of int64)) (Copy, error) {
	p, err := placeOf(url)
	if err != nil {
		return Copy{}, err
	}
	if p.file == "" {
		return Copy{}, p.failed(errNotAFile)
	}
	to, err := inFolder(file)
	if err != nil {
		return Copy{}, err
	}
	if err := missing(to); err != nil {
		return Copy{}, err
	}
	c, err := backup(ctx, p.file, to, progress)
	return c, p.failed(err)
}

// missing refuses a path that exists, also as a broken link.
func missing(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return fmt.Errorf("%s exists already: name a new file", path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return nil
}

func backup(ctx context.Context, file, to string, progress func(written, of int64)) (c Copy, err error) {
	path, err := inFolder(file)
	if err != nil {
		return c, err
	}
	_, source, info, err := inspected(ctx, path)
	if err != nil {
		return c, explained(err)
	}
	// Beside the target, so that it can be given its name in one step.
	f, err := os.CreateTemp(filepath.Dir(to), ".billbridge-backup-*") // for nobody else: it will hold payments
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	c.At = time.Now()
	copied := make(chan error, 1)
	go func() { copied <- vacuumInto(ctx, source, f.Name()) }()
	for copying := true; copying; {
		select {
		case err = <-copied:
			copying = false
		case <-time.After(time.Second):
			if now, err := f.Stat(); err == nil && progress != nil {
				progress(now.Size(), info.Size())
			}
		}
	}
	if err != nil {
		return c, explained(err)
	}
	if err := c.examine(ctx, f.Name()); err != nil {
		return c, err
	}
	// SQLite does not wait for the disk here.
	if err := f.Sync(); err != nil {
		return c, err
	}
	if info, err = f.Stat(); err != nil {
		return c, err
	}
	c.Size = info.Size()
	if err := os.Link(f.Name(), to); err != nil { // unlike a rename, it never replaces a file
		return c, err
	}
	return c, syncFolder(filepath.Dir(to))
}

// vacuumInto copies what is committed, log included, as of one moment.
func vacuumInto(ctx context.Context, source, to string) error {
	values := url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(5000)"}}
	return oneFile(source, values, func(db *sql.DB) error {
		return run(ctx, db, func(q tx) {
			examine(q, forSQLite, Options{}) // inspected has read the file without its log: look again
			q.exec("VACUUM INTO $1", to)
		})
	})
}

// examine reads a copy as Open would read it.
func (c *Copy) examine(ctx context.Context, path string) error {
	source := (&url.URL{Scheme: "file", Path: path}).String()
	return oneFile(source, url.Values{"mode": {"ro"}, "immutable": {"1"}}, func(db *sql.DB) error {
		return run(ctx, db, func(q tx) {
			if recognise(q) {
				q.fail(errors.New("the copy is not a store of billbridge"))
			}
			examine(q, forSQLite, Options{})
			c.Bills = value[int](q, "SELECT count(*) FROM billbridge_bills WHERE upstream <> ''")
			c.Addresses = value[int](q, "SELECT count(*) FROM billbridge_addresses")
			c.Callbacks = value[int](q, "SELECT count(*) FROM billbridge_callbacks")
		})
	})
}

// syncFolder waits until a new name in a folder is on the disk.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
