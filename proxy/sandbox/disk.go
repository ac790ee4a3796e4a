package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// header is the first line of a data file. Other files, and files of another version, are not written.
const header = `{"billbridge_sandbox":2}` + "\n"

// A disk is the data file. Each line is a transaction: the JSON of the rows that it changed. The service reads the
// file at the start, and adds a line before it answers. A nil disk stores nothing.
type disk struct {
	file *os.File
	size int64 // the end of the last transaction
}

// openDisk opens or creates a data file, locks it against other processes, checks its header, makes it private, and
// loads its transactions. The file must be closed also after an error.
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
	if lock(file) != nil {
		return d, errors.New("another process has it open")
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return d, err
	}
	// A file is also new if a kill has interrupted its first start.
	isNew := strings.HasPrefix(header, string(data))
	if !isNew && !strings.HasPrefix(string(data), header) {
		return d, errors.New("it is not a data file of this version of the sandbox: name a new file")
	}
	if err := d.makePrivate(log); err != nil {
		return d, err
	}
	if isNew {
		return d, d.add(header)
	}
	for line := range bytes.Lines(data) {
		if d.size > 0 {
			err = json.Unmarshal(line, into)
		}
		end := d.size + int64(len(line))
		last := end == int64(len(data))
		whole := err == nil && line[len(line)-1] == '\n'
		into.end(whole)
		switch {
		case whole:
			d.size = end
		case !last: // a last line that is not complete is a call that was not answered
			return d, fmt.Errorf("line %d: %w", bytes.Count(data[:end], []byte{'\n'}), err)
		}
	}
	return d, nil
}

// makePrivate takes the permissions of other users away from an existing file, and reports that.
func (d *disk) makePrivate(log *slog.Logger) error {
	info, err := d.file.Stat()
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	text := "other users could read the data file; its mode is 0600 now"
	if d.file.Chmod(0o600) != nil {
		text = "other users can read the data file, and its mode cannot be changed"
	}
	log.Warn(text, "file", d.file.Name(), "mode_before", fmt.Sprintf("%#o", info.Mode().Perm()))
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
