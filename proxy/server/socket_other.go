//go:build !linux

package server

import (
	"net"
	"time"
)

// socketState is described in socket_linux.go. Other systems do not report the state.
func socketState(net.Conn) (queueTime time.Duration, closed bool) { return 0, false }
