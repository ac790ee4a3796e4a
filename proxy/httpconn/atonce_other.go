//go:build !unix

package httpconn

import (
	"errors"
	"net"
	"os"
	"time"
)

// atOnce returns a function that reads what has arrived, and waits for at most a millisecond. If that is nothing, its
// error is errNothingYet.
func atOnce(c net.Conn) func(p []byte) (int, error) {
	return func(p []byte) (int, error) {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, err := c.Read(p)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errNothingYet
		}
		return n, err
	}
}
