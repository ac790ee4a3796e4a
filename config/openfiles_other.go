//go:build !unix

package config

// OpenFiles is described in openfiles_unix.go. Other systems have no such limit.
func OpenFiles() uint64 { return 0 }
