package server

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// socketState returns how long data was in the socket before the connection was accepted, and whether the client has
// closed the connection since. Data waits there while systemd holds the socket and no gateway runs. On a TLS connection
// the data is the handshake: the client has sent no request yet.
func socketState(c net.Conn) (queueTime time.Duration, closed bool) {
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
	const established = 1 // TCP_ESTABLISHED
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Bytes_received > 0 {
			queueTime, closed = time.Duration(info.Last_data_recv)*time.Millisecond, info.State != established
		}
	})
	return queueTime, closed
}
