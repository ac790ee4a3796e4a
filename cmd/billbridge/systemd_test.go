package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// startWithEnv starts a gateway with sockets and variables, as systemd does.
func startWithEnv(t *testing.T, env []string, config string, sockets ...*os.File) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "billbridge.yaml")
	proxytest.WriteFile(t, file, config)
	// LISTEN_PID must be the id of the gateway: the shell execs it.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec billbridge serve --config "$0"`, file)
	cmd.Dir, cmd.ExtraFiles = filepath.Dir(file), sockets
	cmd.Env = append(env, fmt.Sprintf("LISTEN_FDS=%d", len(sockets)))
	p, err := launchCommand(cmd)
	must(t, err)
	t.Cleanup(p.kill)
	return p
}

// openSocket opens a listener, and returns its address and a copy of its socket.
func openSocket(t *testing.T) (address string, copied *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	copied, err = l.(*net.TCPListener).File()
	must(t, err)
	t.Cleanup(func() { _ = copied.Close() })
	return l.Addr().String(), copied
}

// The socket stays open while one gateway drains and the next one starts: every call is answered.
func TestRestartRefusesNoConnection(t *testing.T) {
	t.Parallel()
	service := sandbox.New(sandbox.Options{})
	backend := httptest.NewServer(service)
	t.Cleanup(backend.Close)
	config := fmt.Sprintf("listen: 192.0.2.1:1\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: %q}}\nlog: {level: warn}\n", backend.URL)
	address, handed := openSocket(t)
	const restarts, callers, callsBetween = 3, 8, 100
	start := func() *process {
		p := startWithEnv(t, []string{"LISTEN_FDNAMES=listen"}, config, handed)
		if _, err := p.await("stdout", "partners on "+address+","); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := start()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	var calls, refused atomic.Int64
	var over atomic.Bool
	made := make(chan struct{}, 1<<16)
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for !over.Load() {
				got, err := client.Post("http://"+address+"/if/bill/read", "application/json", strings.NewReader(
					`{"apikey":"demo-partner-key","member":"m","merchant":"s","bill_id":"B1"}`))
				calls.Add(1)
				if err == nil {
					_, err = io.Copy(io.Discard, got.Body)
					_ = got.Body.Close()
				}
				if err != nil || got.StatusCode != http.StatusOK {
					refused.Add(1)
					t.Errorf("%v %v", got, err)
				}
				made <- struct{}{}
			}
		})
	}
	for range restarts {
		for range callsBetween {
			<-made
		}
		must(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.ends(t)
		p = start()
	}
	for range callsBetween {
		<-made
	}
	over.Store(true)
	calling.Wait()
	t.Logf("%d restarts under the load of %d callers: %d calls, %d connections refused or broken off", restarts, callers, calls.Load(), refused.Load())
}

// A core dump would have the keys of partners, and go to a file that others keep.
func TestUnitAllowsNoCoreDump(t *testing.T) {
	t.Parallel()
	if _, unit, _ := runCommand(t, false, "assets", "service"); !strings.Contains(unit, "\nLimitCORE=0\n") {
		t.Error(unit)
	}
}

// A call to such a socket would never be answered.
func TestUnknownSystemdSocketsAreRefused(t *testing.T) {
	t.Parallel()
	_, one := openSocket(t)
	_, two := openSocket(t)
	const config = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\n"
	for name, want := range map[string]string{
		"partners:admin":  `systemd passed 1 sockets named "partners"`,
		"listen:listen":   `systemd passed 2 sockets named "listen"`,
		"admin:callbacks": "systemd passed a socket named callbacks, but the config has no callbacks.listen",
	} {
		p := startWithEnv(t, []string{"LISTEN_FDNAMES=" + name}, config, one, two)
		p.ends(t, exitError)
		has(t, p.all("stderr"), want, name)
	}
}

// Without FileDescriptorName the name of a socket is that of its unit.
func TestSingleSystemdSocketIsForPartners(t *testing.T) {
	t.Parallel()
	address, one := openSocket(t)
	const config = "listen: 127.0.0.1:1\nadmin: {listen: 127.0.0.1:0}\n" +
		"upstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\n"
	p := startWithEnv(t, []string{"LISTEN_FDNAMES=billbridge.socket"}, config, one)
	works(t)(p.await("stdout", "partners on "+address+","))
}

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

// A unit with Type=notify: the port answers when the process reports that it is ready. Reloads, also refused ones, and the
// stop are reported.
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
