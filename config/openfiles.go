package config

import (
	"fmt"

	"billbridge/translate"
)

// Files of the gateway besides the connections of callers and of [Upstream.Connections].
const (
	filesOfStore  = 128 // with the log, the config and the admin listener
	filesUnneeded = 64  // connections to an upstream that are opened before they are needed
)

// FitOpenFiles lowers the limits of connections to what a process can have with a limit of open files, and warns about
// it. Without that, a caller is accepted too late, and calls fail because there is no file for the upstream. 0 is no
// limit.
func (c *Config) FitOpenFiles(files uint64) {
	l, own := &c.Limits, filesOfStore
	for _, u := range c.Upstreams {
		own += u.Connections + filesUnneeded
	}
	if c.Callbacks != nil {
		own += c.Callbacks.AtOnce
	}
	// While connections are cut because their requests arrive slowly, there are an eighth more.
	most := l.Connections
	needed := own + most + most/8
	if files == 0 || files >= uint64(needed) {
		return
	}
	left := max(int(files)-own, int(files)/4) // with few files, the calls of some callers wait for an upstream
	l.Connections = min(most, max(1, left*8/9))
	l.AddressConnections = min(l.AddressConnections, (l.Connections+1)/2) // one address cannot use up all
	c.warnings = append(c.warnings, translate.Problem{File: c.File, Line: 1, Column: 1, Text: fmt.Sprintf(
		"at most %d connections of partners and backends at a time: this process may have %d files open, "+
			"and up to %d of them are for upstreams, callbacks, the store and the log; for %d connections it needs "+
			"%d: raise the limit (ulimit -n; LimitNOFILE in a unit of systemd)",
		l.Connections, files, own, most, needed)})
}
