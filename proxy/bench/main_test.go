package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// The test binary takes the roles of the command, because the command starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "role" {
		main()
	}
	os.Exit(m.Run())
}

// Calls of wrk to a gateway with a store are accepted, and each create has another id: the ledger has as many bills. There is no load, and
// no time is compared.
func TestWritesAreAccepted(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	l := newLab(t.Context(), options{}, io.Discard)
	defer l.stop()
	l.bound = 10
	subjects := l.writes("SQLite")
	l.prepare(subjects)
	for _, s := range subjects {
		r := l.once(s, 1, 2)
		if !strings.HasPrefix(s.name, "create, ") {
			continue
		}
		list := exec.Command(l.billbridge, "bills", "list", "--json", "--limit", "10000", "--admin", "http://"+s.process.admin)
		bills, err := list.Output()
		if n := bytes.Count(bills, []byte("\n")); err != nil || n < min(r.calls, 10000) {
			t.Errorf("%s: the ledger has %d bills after %d calls: %v", s.name, n, r.calls, err)
		}
	}
}

// Each command of README.md prints its measurement. The load is minimal.
func TestCommandsPrintTheirMeasurement(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	for args, shows := range map[string]string{
		"-idle 20":                            " MiB with 20 idle connections\n",
		"-half-sent 20":                       " s after their end\n",
		"-rounds 1 -seconds 1 -connections 2": "| billbridge: translated, logged, counted | ",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), &out, io.Discard); err != nil || !strings.Contains(out.String(), shows) {
			t.Errorf("%s: %v\n%s", args, err, out.String())
		}
	}
}

// If the run is ended, its processes end and its files are removed.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	ctx, interrupt := context.WithCancel(t.Context())
	l := newLab(ctx, options{}, io.Discard)
	l.gateway(l.readConfig())
	interrupt()
	l.stop()
	if _, err := os.Stat(l.dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want that it was removed", l.dir, err)
	}
	for _, p := range l.started {
		if p.command.ProcessState == nil {
			t.Errorf("%s still runs", p.command)
		}
	}
}

// The name of a process can contain spaces and parentheses.
func TestCPUTimeIsUserAndSystemTime(t *testing.T) {
	t.Parallel()
	stat := []byte("4711 (a b) c) S 42 4711 4711 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 7 0 1 1 1")
	if got := cpuTime(stat); got != 1750*time.Millisecond {
		t.Errorf("got %s, want 1.75s", got)
	}
}

// README.md names benchmarks that exist.
func TestReadmeNamesBenchmarksThatExist(t *testing.T) {
	t.Parallel()
	commands := regexp.MustCompile("`go test (\\S+) -run - -bench (\\S+?)[ `]").FindAllSubmatch(proxytest.ReadFile(t, "README.md"), -1)
	if len(commands) < 6 {
		t.Errorf("%d commands were found: too few", len(commands))
	}
	for _, command := range commands {
		files, err := filepath.Glob(filepath.Join("../..", string(command[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var code []byte
		for _, file := range files {
			code = append(code, proxytest.ReadFile(t, file)...)
		}
		name := strings.ReplaceAll(strings.TrimPrefix(string(command[2]), "."), "$", `\(`)
		if !regexp.MustCompile(`func Benchmark\w*` + name).Match(code) {
			t.Errorf("%s has no benchmark %q", command[1], name)
		}
	}
}
