package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/proxytest"
)

// A notifySocket gets the reports of a process, as systemd does.
type notifySocket struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newNotifySocket(t *testing.T) *notifySocket {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket has at most 108 bytes
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &notifySocket{t: t, path: filepath.Join(dir, "s")}
	if s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// want awaits a report.
func (s *notifySocket) want(prefix string) {
	s.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	if n, err := s.conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), prefix) {
		s.t.Fatalf("the report is %q, %v, want %s", buf[:n], err, prefix)
	}
}

// A unit with Type=notify: the port answers when the process reports that it is ready. Reloads, also refused ones, and the stop are reported.
func TestStatesAreReportedToSystemd(t *testing.T) {
	t.Parallel()
	reports := newNotifySocket(t)
	const config = "listen: 127.0.0.1:1\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\n"
	address, socket := openSocket(t)
	p := startWithEnv(t, []string{"NOTIFY_SOCKET=" + reports.path}, config, socket)
	reports.want("READY=1")
	got, err := http.Get("http://" + address + "/")
	must(t, err)
	_ = got.Body.Close()
	for _, row := range []struct{ config, status string }{
		{config, "READY=1\nSTATUS="},
		{"lisen: 1\n", "READY=1\nSTATUS=The last reload was refused."},
	} {
		proxytest.WriteFile(t, filepath.Join(p.cmd.Dir, "billbridge.yaml"), row.config)
		must(t, p.cmd.Process.Signal(syscall.SIGHUP))
		reports.want("RELOADING=1\nMONOTONIC_USEC=")
		reports.want(row.status)
	}
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	reports.want("STOPPING=1")
	p.ends(t)
}

// Without the reports systemd would end a healthy process.
func TestWatchdogOfSystemdIsAnswered(t *testing.T) {
	t.Parallel()
	reports := newNotifySocket(t)
	startWithEnv(t, []string{"NOTIFY_SOCKET=" + reports.path, "WATCHDOG_USEC=60000"},
		"listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\n")
	reports.want("READY=1")
	for range 3 {
		reports.want("WATCHDOG=1")
	}
}

// The watchdog gets a report for a health check that succeeds, and none for one that fails or does not end.
func TestWatchdogNeedsAHealthyProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		checks, reports := 0, 0
		var lines bytes.Buffer
		m := serviceManager{log: slog.New(slog.NewTextHandler(&lines, nil)), notify: func(_ bool, state string) (bool, error) {
			reports++
			return state == "WATCHDOG=1", nil
		}}
		m.answerWatchdog(ctx, t.Context(), 3*time.Second, func(attempt context.Context) error {
			switch checks++; checks {
			case 1, 4:
				return nil
			case 2:
				return errors.New("refused")
			case 3:
				<-attempt.Done()
				return attempt.Err()
			}
			cancel()
			return nil
		})
		if got := strings.Count(lines.String(), "health check of the process failed"); checks != 5 || reports != 2 || got != 2 {
			t.Errorf("%d checks, %d reports, %d errors in the log, want 5, 2, 2:\n%s", checks, reports, got, lines.String())
		}
	})
}

// The admin listener is closed before the process has ended: what is left to do may take longer than the interval.
func TestWatchdogIsAnsweredUntilTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		serving, stop := context.WithCancel(t.Context())
		checks, reports := 0, 0
		var lines bytes.Buffer
		m := serviceManager{log: slog.New(slog.NewTextHandler(&lines, nil)), notify: func(_ bool, state string) (bool, error) {
			reports++
			return state == "WATCHDOG=1", nil
		}}
		m.answerWatchdog(ctx, serving, 3*time.Second, func(context.Context) error {
			stop() // and the listener is closed
			if checks++; checks > 5 {
				cancel()
			}
			return errors.New("refused")
		})
		if reports != 5 || lines.Len() > 0 {
			t.Errorf("%d reports, want 5, and no error in the log:\n%s", reports, lines.String())
		}
	})
}

// The health check works with and without TLS, and fails for a process that answers with an error.
func TestHealthCheckOfTheOwnProcess(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		equal(t, r.URL.Path, "/-/healthy", r.URL)
		w.WriteHeader(status)
	})
	for name, s := range map[string]*httptest.Server{"http": httptest.NewServer(handler), "https": httptest.NewTLSServer(handler)} {
		check := healthCheck(s.Listener.Addr().String(), name == "https")
		status = http.StatusOK
		if err := check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		status = http.StatusInternalServerError
		fails(t, "500", name)(check(t.Context()))
		s.Close()
		fails(t, "", name)(check(t.Context()))
	}
}
