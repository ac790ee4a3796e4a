//go:build !linux

package server

import (
	"net"
	"time"
)

// backlog is described in backlog_linux.go. Other systems do not tell.
func backlog(net.Conn) (waited time.Duration, gone bool) { return 0, false }
