// Package bench measures billbridge and, for comparison, other reverse proxies: nginx, nginx with Lua, and
// httputil.ReverseProxy.
//
//	go test ./proxy/bench -run - -bench Reads     CPU time of a read, and the ratios
//	go test ./proxy/bench -run - -bench Ledger    the same of creates and callbacks, with SQLite and PostgreSQL
//	go test ./proxy/bench -run - -bench Idle -idle 10000
//	go test ./proxy/bench -run - -bench HalfSent -half-sent 2000
//
// The processes run in front of one backend, and wrk calls them. They are measured in turn, so that a change in the
// speed of the machine affects all of them. Tables are printed in Markdown, progress is printed on stderr. README.md
// says what is measured.
//
// It needs Linux, for /proc, and wrk.
package bench

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// settings are the length and the load of a measurement.
type settings struct{ rounds, seconds, connections int }

var (
	given    settings
	idle     = flag.Int("idle", 0, "Idle: open this `number` of connections, make one call on each, and keep them open")
	halfSent = flag.Int("half-sent", 0,
		"HalfSent: open this `number` of connections, and send half of a body of 1 MiB on each")
)

// TestMain makes this test binary also the servers that it starts.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 0 && args[0] == "role" {
		fmt.Fprintln(os.Stderr, "bench:", role(args[1:]))
		os.Exit(1)
	}
	flag.IntVar(&given.rounds, "rounds", 5, "`number` of measurements of each process")
	flag.IntVar(&given.seconds, "seconds", 5, "duration of one measurement, in `seconds`")
	flag.IntVar(&given.connections, "connections", 64, "`number` of connections that wrk opens")
	os.Exit(m.Run())
}

func BenchmarkReads(b *testing.B)  { newLab(b).measureReads(given, os.Stdout) }
func BenchmarkLedger(b *testing.B) { newLab(b).measureLedger(given, os.Stdout) }

func BenchmarkIdle(b *testing.B) {
	if *idle == 0 {
		b.Skip("-idle is not given")
	}
	newLab(b).measureIdle(*idle, os.Stdout)
}

func BenchmarkHalfSent(b *testing.B) {
	if *halfSent == 0 {
		b.Skip("-half-sent is not given")
	}
	newLab(b).measureHalfSent(*halfSent, os.Stdout)
}

func (l *lab) measureReads(s settings, out io.Writer) {
	l.measureCalls(l.reads(), s, out, nginxLua, tunedProxy)
}

func (l *lab) measureLedger(s settings, out io.Writer) {
	l.measureCalls(l.writes("SQLite", "PostgreSQL"), s, out, tunedCreate, plainCreate)
}

// measureCalls prints the table of calls.
func (l *lab) measureCalls(subjects []*subject, s settings, out io.Writer, yardsticks ...string) {
	if _, err := exec.LookPath("wrk"); err != nil {
		l.Skip("wrk is not installed: install the Debian package wrk")
	}
	m := l.measure(subjects, s)
	fmt.Fprintf(out, "%s. %d connections. Medians (and ranges) of %d rounds of %d s.\n\n",
		machine(), s.connections, s.rounds, s.seconds)
	m.write(out, yardsticks)
}

// Calls of wrk to a gateway with a store are accepted, and each create has another id: the ledger has as many bills. There is no load, and
// no time is compared.
func TestWritesAreAccepted(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	l := newLab(t)
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

// Each measurement of README.md prints its result. The load is minimal.
func TestMeasurementsPrintTheirResult(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	for shows, measure := range map[string]func(*lab, io.Writer){
		" MiB with 20 idle connections\n":              func(l *lab, out io.Writer) { l.measureIdle(20, out) },
		" s after their end\n":                         func(l *lab, out io.Writer) { l.measureHalfSent(20, out) },
		"| billbridge: translated, logged, counted | ": func(l *lab, out io.Writer) { l.measureReads(settings{1, 1, 2}, out) },
	} {
		var out bytes.Buffer
		if measure(newLab(t), &out); !strings.Contains(out.String(), shows) {
			t.Errorf("no %q in\n%s", shows, out.String())
		}
	}
}

// If a measurement is ended, its processes end and its files are removed.
func TestInterruptedMeasurementLeavesNothing(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	var l *lab
	var gateway *process
	t.Run("measurement", func(t *testing.T) {
		l = newLab(t)
		gateway = l.gateway(l.readConfig())
	})
	if _, err := os.Stat(l.dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want that it was removed", l.dir, err)
	}
	if gateway.command.ProcessState == nil {
		t.Errorf("%s still runs", gateway.command)
	}
}

// README.md names benchmarks that exist.
func TestReadmeNamesBenchmarksThatExist(t *testing.T) {
	t.Parallel()
	commands := regexp.MustCompile("`go test (\\S+) -run - -bench (\\S+?)[ `]").FindAllSubmatch(proxytest.ReadFile(t, "README.md"), -1)
	if len(commands) < 8 {
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
