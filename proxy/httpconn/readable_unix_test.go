//go:build unix

package httpconn

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// waitUntilReadable waits until something has arrived on an idle connection. It leaves it there.
func waitUntilReadable(t testing.TB, c *Conn) {
	t.Helper()
	raw, err := c.socket.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.net.SetDeadline(time.Now().Add(testTimeout))
	var one [1]byte
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		return err != syscall.EAGAIN && err != syscall.EINTR
	}); err != nil {
		t.Fatal("nothing has arrived: ", err)
	}
	c.setDeadline(c.deadline)
}
