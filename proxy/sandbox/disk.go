package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The first line of a data file identifies it and its version. Other files, and files of another version, are not
// written.
const (
	headerFormat = `{"billbridge_sandbox":%d}` + "\n"
	dataVersion  = 2 // version 1 was an SQLite file
)

// A disk is the data file. Each line is a transaction: the JSON of the rows that it changed. The service reads the
// file at the start, and adds a line before it answers. A nil disk stores nothing.
type disk struct {
	file *os.File
	size int64 // the end of the last transaction
}

// openDisk opens or creates a data file, locks it against other processes, and loads its rows.
func openDisk(name string, into *rows, log *slog.Logger) (*disk, error) {
	// Only its owner can read it: it has the keys and phones of a test.
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %s", filepath.Dir(name))
	case err != nil:
		return nil, errors.Unwrap(err) // without the path
	}
	d := &disk{file: file}
	if err := d.load(into, log); err != nil {
		_ = file.Close()
		return nil, err
	}
	return d, nil
}

// load locks the file, checks its header, makes it private, and loads its transactions.
func (d *disk) load(into *rows, log *slog.Logger) error {
	if syscall.Flock(int(d.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errors.New("another process has it open")
	}
	var version int
	header := fmt.Sprintf(headerFormat, dataVersion)
	r := bufio.NewReader(d.file)
	first, err := r.ReadSlice('\n')
	found := string(first)
	_, wrongHeader := fmt.Sscanf(found, headerFormat, &version)
	// A file is also new if a kill has interrupted its first start.
	isNew := errors.Is(err, io.EOF) && strings.HasPrefix(header, found)
	switch {
	case isNew || found == header:
	case strings.HasPrefix(found, "SQLite format 3\x00"):
		return errors.New("it is an SQLite file, which this billbridge does not read: name a new file")
	case wrongHeader == nil:
		return fmt.Errorf("its version is %d, but this billbridge supports %d", version, dataVersion)
	default:
		return errors.New("it is not a data file of the sandbox")
	}
	if err := d.makePrivate(log); err != nil {
		return err
	}
	if isNew {
		return d.add(header)
	}
	d.size = int64(len(header))
	for n := 2; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, into)
		}
		if err != nil {
			into.end(false)
			// A last line that is not complete is a call that was not answered.
			if _, more := r.Peek(1); errors.Is(more, io.EOF) {
				return nil
			}
			return fmt.Errorf("line %d: %w", n, err)
		}
		into.end(true)
		d.size += int64(len(line))
	}
}

// makePrivate takes the permissions of other users away from an existing file, and reports that.
func (d *disk) makePrivate(log *slog.Logger) error {
	info, err := d.file.Stat()
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	about := []any{"file", d.file.Name(), "mode_before", fmt.Sprintf("%#o", info.Mode().Perm())}
	if err := d.file.Chmod(0o600); err != nil {
		about = append(about, "error", err.Error())
		log.Warn("other users can read the data file, and its mode cannot be changed", about...)
		return nil
	}
	log.Warn("other users could read the data file; its mode is 0600 now", about...)
	return nil
}

// write adds the changed rows, if there are any.
func (d *disk) write(changed *rows) error {
	if d == nil {
		return nil
	}
	line, err := json.Marshal(changed)
	if err != nil || string(line) == "{}" {
		return err
	}
	return d.add(string(line) + "\n")
}

// add adds a line, which is on the disk when add returns.
func (d *disk) add(line string) error {
	err := d.file.Truncate(d.size) // removes what a failed write has left
	if err == nil {
		_, err = d.file.WriteAt([]byte(line), d.size)
	}
	if err == nil {
		err = d.file.Sync()
	}
	if err != nil {
		return errors.Join(err, d.file.Truncate(d.size))
	}
	d.size += int64(len(line))
	return nil
}

func (d *disk) close() error {
	if d == nil {
		return nil
	}
	return d.file.Close()
}
