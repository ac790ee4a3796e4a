//go:build !unix

package sandbox

import "os"

// lock is described in lock_unix.go. Other systems let two processes use a file.
func lock(*os.File) error { return nil }
