package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"github.com/rogpeppe/go-internal/testscript"
)

// A process is a program that runs in the background.
type process struct {
	cmd   *exec.Cmd
	lines map[string]chan string // by stream; closed at the end of the stream
	read  sync.WaitGroup

	mu     sync.Mutex
	output map[string]*strings.Builder // by stream
}

// patience bounds every wait. No test waits for the whole time.
const patience = proxytest.Patience

func launch(dir, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	return launchCommand(cmd)
}

func launchCommand(cmd *exec.Cmd) (*process, error) {
	p := &process{
		cmd: proxytest.Tie(cmd), lines: map[string]chan string{},
		output: map[string]*strings.Builder{"stdout": {}, "stderr": {}},
	}
	p.cmd.Env = append(append(os.Environ(), noRaceSleep), cmd.Env...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	streams := map[string]io.Reader{"stdout": stdout}
	if cmd.Stderr == nil {
		if streams["stderr"], err = p.cmd.StderrPipe(); err != nil {
			return nil, err
		}
	}
	for name, stream := range streams {
		lines := make(chan string, 1000) // more than the output of any test
		p.lines[name] = lines
		p.read.Go(func() {
			defer close(lines)
			for scanner := bufio.NewScanner(stream); scanner.Scan(); {
				p.mu.Lock()
				p.output[name].WriteString(scanner.Text() + "\n")
				p.mu.Unlock()
				lines <- scanner.Text()
			}
		})
	}
	return p, p.cmd.Start()
}

// await waits for a line that matches a pattern, and returns its named groups.
func (p *process) await(stream, pattern string) (map[string]string, error) {
	matcher, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for late := time.After(patience); ; {
		select {
		case line, ok := <-p.lines[stream]:
			if !ok {
				return nil, fmt.Errorf("%s ended without %s:\n%s", stream, pattern, p.all("stdout", "stderr"))
			}
			if found := matcher.FindStringSubmatch(line); found != nil {
				groups := map[string]string{}
				for i, name := range matcher.SubexpNames() {
					groups[name] = found[i]
				}
				delete(groups, "")
				return groups, nil
			}
		case <-late:
			return nil, fmt.Errorf("no %s on %s:\n%s", pattern, stream, p.all("stdout", "stderr"))
		}
	}
}

func (p *process) all(streams ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := ""
	for _, stream := range streams {
		all += p.output[stream].String()
	}
	return all
}

// end waits for the process and returns its exit code, or -1 if a signal ended it.
func (p *process) end() (int, error) {
	late := time.AfterFunc(patience, p.kill)
	defer late.Stop()
	p.read.Wait() // before Wait, which closes the streams
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

// ends expects the exit code 0 of a process that ends, or another one.
func (p *process) ends(t testing.TB, code ...int) {
	t.Helper()
	got, err := p.end()
	must(t, err)
	equal(t, got, append(code, exitOK)[0], p.all("stdout", "stderr"))
}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

// processes is the key of the processes of a script, by name.
type processes struct{}

func named(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processes{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "start NAME PROGRAM [ARGS]")
	p, err := launch(ts.MkAbs("."), args[1], args[2:]...)
	ts.Check(err)
	ts.Value(processes{}).(map[string]*process)[args[0]] = p
	ts.Defer(p.kill) // without effect on a process that has ended
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "await NAME STREAM REGEXP")
	groups, err := named(ts, args[0]).await(args[1], args[2])
	ts.Check(err)
	for name, value := range groups {
		ts.Setenv(name, value)
	}
}

var signals = map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": os.Interrupt}

func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "signal NAME HUP|TERM")
	ts.Check(named(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "ends NAME CODE")
	p := named(ts, args[0])
	code, err := p.end()
	ts.Check(err)
	for stream, writer := range map[string]io.Writer{"stdout": ts.Stdout(), "stderr": ts.Stderr()} {
		_, err := io.WriteString(writer, p.all(stream))
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[1] {
		ts.Fatalf("exit code %d, want %s:\n%s", code, args[1], p.all("stdout", "stderr"))
	}
}

// A gateway is the process of a gateway, the file of its config, and its addresses.
type gateway struct {
	*process
	file, partners, operator string
}

// serve starts a gateway in a folder. If log is not nil, its log goes there.
func serve(t *testing.T, folder string, log *os.File, config string, args ...string) *gateway {
	t.Helper()
	file := filepath.Join(folder, "billbridge.yaml")
	proxytest.WriteFile(t, file, config)
	cmd := exec.Command("billbridge", append([]string{"serve", "--config", file}, args...)...)
	if cmd.Dir = folder; log != nil {
		cmd.Stderr = log
	}
	p, err := launchCommand(cmd)
	must(t, err)
	t.Cleanup(p.kill)
	at, err := p.await("stdout", `partners on (?P<partners>\S+), admin on (?P<operator>\S+)\.$`)
	must(t, err)
	return &gateway{p, file, at["partners"], at["operator"]}
}

// launchInTempDir starts a process for a test that is not a script.
func launchInTempDir(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := launch(t.TempDir(), "billbridge", args...)
	must(t, err)
	t.Cleanup(p.kill)
	return p
}

var (
	must, works = proxytest.Must, proxytest.Works
	has, lacks  = proxytest.Has, proxytest.Lacks
	gives       = proxytest.Gives
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}

// httpCall makes one call. It can run in another goroutine: it does not end the test.
func httpCall(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	text, err := io.ReadAll(reply.Body)
	_ = reply.Body.Close()
	must(t, err)
	return reply.StatusCode, strings.TrimSpace(string(text))
}
