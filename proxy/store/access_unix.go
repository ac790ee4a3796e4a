//go:build unix

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// narrow takes the rights of others to the file of a store, its log and its index away, and returns the mode that the
// file had, 0 if nobody else had any. If it may not do so, the file stays as it is.
func narrow(file string) (was os.FileMode) {
	const others = 0o077
	if linked, err := filepath.EvalSymlinks(file); err == nil {
		file = linked // the log is beside the file itself
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(file + suffix)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&others == 0 {
			continue
		}
		if os.Chmod(file+suffix, info.Mode()&^others) == nil && was == 0 {
			was = info.Mode().Perm()
		}
	}
	return was
}

// FreeBytes returns the free space of the disk of a store. ok is false for one that is no file.
func FreeBytes(url string) (free float64, ok bool) {
	p, err := placeOf(url)
	if err != nil || p.file == "" {
		return 0, false
	}
	var disk syscall.Statfs_t
	err = syscall.Statfs(filepath.Dir(p.file), &disk)
	return float64(disk.Bavail) * float64(disk.Bsize), err == nil
}

// writable returns nil if a file may be written to. SQLite opens a read-only file without an error, and makes its
// log. The file must not be opened here: closing it would release all locks that this process has on it.
func writable(path string) error {
	const forWriting = 2
	if err := syscall.Access(path, forWriting); err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	return nil
}
