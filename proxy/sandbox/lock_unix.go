//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// lock keeps other processes from using a file, until it is closed.
func lock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
