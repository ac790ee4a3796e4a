//go:build !unix

package store

import "os"

// writable cannot be checked on this system.
func writable(string) error { return nil }

// FreeBytes is not known on this system.
func FreeBytes(string) (free float64, ok bool) { return 0, false }

// narrow has nothing to do: there are no such rights on this system.
func narrow(string) os.FileMode { return 0 }
