package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"billbridge/proxy/server"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A serviceManager reports the state of the process to systemd, for a unit with Type=notify. Without systemd, reports
// have no effect.
type serviceManager struct {
	log    *slog.Logger
	notify func(unsetEnvironment bool, state string) (sent bool, err error) // daemon.SdNotify
}

// report sends a state of sd_notify(3).
func (m serviceManager) report(state string) {
	if _, err := m.notify(false, state); err != nil {
		m.log.Warn("the state of the process could not be reported to systemd", "report", state, "error", err.Error())
	}
}

// serve runs a server. It reports that the process is ready, and when ctx ends that it stops. It reports to the
// watchdog until the server has ended.
func (m serviceManager) serve(ctx context.Context, s *server.Server, withTLS bool) error {
	m.report(daemon.SdNotifyReady)
	reported := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(reported)
		m.report(daemon.SdNotifyStopping)
	})
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.log.Warn("nothing is reported to the watchdog of systemd", "error", err.Error())
	}
	if interval > 0 {
		running, ended := context.WithCancel(context.WithoutCancel(ctx))
		defer ended()
		go m.answerWatchdog(running, ctx, interval, healthCheck(s.AdminAddress(), withTLS))
	}
	err = s.Run(ctx)
	if !cancel() { // the report has begun
		<-reported
	}
	return err
}

// reload reports the beginning of a reload, reloads, and reports the end.
func (m serviceManager) reload(s *server.Server) {
	m.report(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	status := "STATUS="
	if err := s.Reload(); err != nil { // which it logs
		status += "The last reload was refused. The gateway continues with the previous config. The log has the reason."
	}
	m.report(daemon.SdNotifyReady + "\n" + status)
}

// answerWatchdog reports WATCHDOG=1 after each health check that succeeds, three times per interval, until ctx ends.
// If the checks fail for the whole interval, systemd ends the process and starts it again. After the end of serving
// the checks do not count: the admin listener closes before the last work ends, and TimeoutStopSec bounds the stop.
func (m serviceManager) answerWatchdog(
	ctx, serving context.Context, interval time.Duration, check func(context.Context) error,
) {
	pause := time.NewTicker(interval / 3)
	defer pause.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, interval/3)
		err := check(attempt)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, serving.Err() != nil:
			m.report(daemon.SdNotifyWatchdog)
		default:
			m.log.Error("the health check of the process failed; systemd restarts the process if all checks within "+
				"the interval fail", "error", err.Error(), "within", interval.String())
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// healthCheck returns a request to /-/healthy of the admin listener, over a new connection: it fails if the process
// does not accept connections or serve requests.
func healthCheck(address string, withTLS bool) func(context.Context) error {
	scheme := "http"
	if withTLS {
		scheme = "https"
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// The process calls itself, and the certificate is for another name.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/-/healthy", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/-/healthy returned %s", answer.Status)
		}
		return nil
	}
}
