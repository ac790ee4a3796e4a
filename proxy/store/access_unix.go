//go:build unix

package store

import (
	"fmt"
	"syscall"
)

// writable returns nil if a file may be written to. SQLite opens a read-only file without an error, and makes its log. The file must
// not be opened here: closing it would release all locks that this process has on it.
func writable(path string) error {
	const forWriting = 2
	if err := syscall.Access(path, forWriting); err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	return nil
}
