package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
	for _, text := range []string{config, "lisen: 1\n"} {
		proxytest.WriteFile(t, filepath.Join(p.cmd.Dir, "billbridge.yaml"), text)
		must(t, p.cmd.Process.Signal(syscall.SIGHUP))
		reports.want("RELOADING=1\nMONOTONIC_USEC=")
		reports.want("READY=1")
	}
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	reports.want("STOPPING=1")
	p.ends(t)
}
