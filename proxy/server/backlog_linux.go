package server

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// backlog is how long a connection's data was in the socket before the connection was accepted: while the gateway did not run,
// and systemd held the socket. gone is true if the caller has closed it. Of a TLS connection the data is no request yet, and the
// caller answers before it sends one.
func backlog(c net.Conn) (waited time.Duration, gone bool) {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = outer.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	const established = 1 // of the states of TCP in Linux
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && info.Bytes_received > 0 {
			waited, gone = time.Duration(info.Last_data_recv)*time.Millisecond, info.State != established
		}
	})
	return waited, gone
}
