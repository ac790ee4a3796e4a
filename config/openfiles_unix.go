//go:build unix

package config

import "syscall"

// OpenFiles returns how many files the process may have open, for [Config.FitOpenFiles]. At its start a program in Go
// has raised the limit as far as it may.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
