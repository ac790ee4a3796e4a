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

	"billbridge/proxy/sandbox"
)

// activated starts a gateway as systemd does: with an open socket, whose name says which listener it is.
func activated(t *testing.T, name, config string, sockets ...*os.File) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "billbridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// The process that the sockets are for is named in its environment: the shell becomes it.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec billbridge serve --config "$0"`, file)
	cmd.Dir, cmd.ExtraFiles = filepath.Dir(file), sockets
	cmd.Env = []string{fmt.Sprintf("LISTEN_FDS=%d", len(sockets)), "LISTEN_FDNAMES=" + name}
	p, err := launchCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// socket opens a listener and returns its address and a copy to hand over.
func socket(t *testing.T) (address string, copied *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	copied, err = l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = copied.Close() })
	return l.Addr().String(), copied
}

// TestRestartRefusesNoConnection: the socket stays open while one gateway drains and the next one starts. Every call of eight
// callers, each on a new connection, is answered.
func TestRestartRefusesNoConnection(t *testing.T) {
	t.Parallel()
	service := sandbox.New(sandbox.Options{})
	backend := httptest.NewServer(service)
	t.Cleanup(backend.Close)
	config := fmt.Sprintf("listen: 192.0.2.1:1\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: %q}}\n", backend.URL)
	address, handed := socket(t)
	const restarts, callers, callsBetween = 3, 8, 100
	p := activated(t, "listen", config, handed)
	if _, err := p.await("stdout", "partners on "+address+","); err != nil {
		t.Fatal(err)
	}
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
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if code, err := p.end(); err != nil || code != exitOK {
			t.Errorf("exit code %d, %v:\n%s", code, err, p.all("stderr"))
		}
		p = activated(t, "listen", config, handed)
	}
	for range callsBetween {
		<-made
	}
	over.Store(true)
	calling.Wait()
	t.Logf("%d restarts under the load of %d callers: %d calls, %d connections refused or broken off", restarts, callers, calls.Load(), refused.Load())
}

// TestSocketsThatFitNoListenerAreRefused: a call to such a socket would wait for ever.
func TestSocketsThatFitNoListenerAreRefused(t *testing.T) {
	t.Parallel()
	_, one := socket(t)
	_, two := socket(t)
	const config = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\n"
	for name, want := range map[string]string{
		"partners:admin":  `systemd passed 1 sockets named "partners"`,
		"listen:listen":   `systemd passed 2 sockets named "listen"`,
		"admin:callbacks": "systemd passed a socket named callbacks, but the config has no callbacks.listen",
	} {
		p := activated(t, name, config, one, two)
		if code, err := p.end(); err != nil || code != exitError || !strings.Contains(p.all("stderr"), want) {
			t.Errorf("%s: exit code %d, %v:\n%s", name, code, err, p.all("stderr"))
		}
	}
}

// TestOneSocketIsThatOfPartners: a socket unit without a FileDescriptorName hands over its own name.
func TestOneSocketIsThatOfPartners(t *testing.T) {
	t.Parallel()
	address, one := socket(t)
	p := activated(t, "billbridge.socket", "listen: 127.0.0.1:1\nadmin: {listen: 127.0.0.1:0}\nupstreams: {only: {form: v2, url: \"http://127.0.0.1:1\"}}\n", one)
	if _, err := p.await("stdout", "partners on "+address+","); err != nil {
		t.Error(err)
	}
}
