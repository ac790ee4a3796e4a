//go:build unix

package store

import (
	"fmt"
	"syscall"
)

// writable reports whether a file may be written to. SQLite would open one that may only be read without a word, and make
// its log all the same. To open the file here would be wrong, as closing it again would end all locks that this
// process has on it.
func writable(path string) error {
	const forWriting = 2
	if err := syscall.Access(path, forWriting); err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	return nil
}
