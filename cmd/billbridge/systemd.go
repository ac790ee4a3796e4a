package main

import (
	"context"
	"log/slog"

	"billbridge/proxy/server"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A serviceManager reports the state of the process to systemd, for a unit with Type=notify. Without systemd, reports
// have no effect.
type serviceManager struct{ log *slog.Logger }

// report sends a state of sd_notify(3).
func (m serviceManager) report(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("the state of the process could not be reported to systemd", "report", state, "error", err.Error())
	}
}

// serve runs a server. It reports that the process is ready, and when ctx ends that it stops.
func (m serviceManager) serve(ctx context.Context, s *server.Server) error {
	m.report(daemon.SdNotifyReady)
	reported := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(reported)
		m.report(daemon.SdNotifyStopping)
	})
	err := s.Run(ctx)
	if !cancel() { // the report has begun
		<-reported
	}
	return err
}

// reload reports the beginning of a reload, reloads, and reports the end.
func (m serviceManager) reload(s *server.Server) {
	m.report(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	_ = s.Reload() // which logs its error
	m.report(daemon.SdNotifyReady)
}
