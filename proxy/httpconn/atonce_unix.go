//go:build unix

package httpconn

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// atOnce returns a function that reads what has arrived, without waiting. If that is nothing, its error is
// errNothingYet.
func atOnce(c net.Conn) func(p []byte) (int, error) {
	var raw syscall.RawConn
	if c, ok := c.(syscall.Conn); ok {
		raw, _ = c.SyscallConn()
	}
	if raw == nil { // not a socket: it cannot be checked, so it is not used again
		return func([]byte) (int, error) { return 0, errors.ErrUnsupported }
	}
	var (
		into   []byte
		n      int
		failed error
	)
	read := func(fd uintptr) bool { // made once, so that a read allocates nothing
		for {
			if n, failed = syscall.Read(int(fd), into); failed != syscall.EINTR {
				return true
			}
		}
	}
	return func(p []byte) (int, error) {
		into = p
		err := raw.Read(read)
		into = nil
		switch {
		case err != nil:
			return 0, err
		case failed == syscall.EAGAIN:
			return 0, errNothingYet
		case failed != nil:
			return 0, failed
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
