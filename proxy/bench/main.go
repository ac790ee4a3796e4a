// Command bench measures billbridge and, for comparison, other reverse proxies: nginx, nginx with Lua, and
// httputil.ReverseProxy.
//
//	go run ./proxy/bench            CPU time of a read, and the ratios
//	go run ./proxy/bench -ledger    the same of creates and callbacks, with SQLite and PostgreSQL
//	go run ./proxy/bench -tls       reads and creates with HTTPS on both sides
//	go run ./proxy/bench -growth    creates with more and more connections, partners and bills
//	go run ./proxy/bench -idle 10000
//	go run ./proxy/bench -half-sent 2000
//
// The processes run in front of one backend, and wrk calls them. They are measured in turn, so that a change in the
// speed of the machine affects all of them. Tables are printed in Markdown, progress is printed on stderr. README.md
// says what is measured.
//
// The command needs Linux, for /proc, and wrk. It is run in the root of the project.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if args := os.Args[1:]; len(args) > 0 && args[0] == "role" { // the command starts itself
		fmt.Fprintln(os.Stderr, "bench:", role(args[1:]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A failure is the error that ends a run. It is a panic: the run has nothing to do but to end its processes.
type failure struct{ error }

// must ends the run if there is an error.
func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// get is must for a function that returns a value.
func get[T any](value T, err error) T {
	must(err)
	return value
}

// options are the flags.
type options struct {
	rounds, seconds, connections int
	ledger, tls, growth          bool
	delay                        time.Duration
	other                        string
	idle, halfSent               int
}

// parse reads the flags.
func parse(args []string, help io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.IntVar(&o.rounds, "rounds", 5, "`number` of measurements of each process")
	flags.IntVar(&o.seconds, "seconds", 5, "duration of one measurement, in `seconds`")
	flags.IntVar(&o.connections, "connections", 64, "`number` of connections that wrk opens")
	flags.BoolVar(&o.ledger, "ledger", false,
		"measure creates, with and without the ledger of a rollout, and callbacks, with SQLite and PostgreSQL")
	flags.BoolVar(&o.tls, "tls", false, "measure reads and creates with HTTPS, from wrk and to the backend")
	flags.BoolVar(&o.growth, "growth", false,
		"measure creates with the ledger of a rollout, with more and more connections, partners and bills")
	flags.DurationVar(&o.delay, "delay", 0, "put a round-trip `time` between each process and the backend, with -tls")
	flags.StringVar(&o.other, "other", "", "measure reads of another billbridge `file`, too, and with -tls creates")
	flags.IntVar(&o.idle, "idle", 0,
		"measure memory: open this `number` of connections, make one call on each, and keep them open")
	flags.IntVar(&o.halfSent, "half-sent", 0,
		"measure memory: open this `number` of connections, and send half of a body of 1 MiB on each")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.seconds < 1 || o.connections < 1 {
		return o, errors.New("-rounds, -seconds and -connections must be at least 1, and there are no arguments; " +
			"-h lists the flags")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	defer func() {
		ended := recover()
		if failed, ok := ended.(failure); ok {
			err = failed.error
		} else if ended != nil {
			panic(ended)
		}
		if ctx.Err() != nil { // the errors of processes that were ended say nothing
			err = errors.New("interrupted")
		}
	}()
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	l := newLab(ctx, o, progress)
	defer l.stop()
	switch {
	case o.idle > 0:
		l.measureIdle(o.idle, out)
	case o.halfSent > 0:
		l.measureHalfSent(o.halfSent, out)
	default:
		l.measureCalls(o, out)
	}
	return nil
}

// measureCalls prints the table of calls.
func (l *lab) measureCalls(o options, out io.Writer) {
	if _, err := exec.LookPath("wrk"); err != nil {
		must(errors.New("wrk is not installed: install the Debian package wrk"))
	}
	var subjects []*subject
	yardsticks := []string{nginxLua, tunedProxy}
	switch {
	case o.tls:
		subjects, yardsticks = l.secure(o.other), []string{nginxPass, tunedProxy, tunedCreate}
	case o.growth:
		subjects, yardsticks = l.growing(), []string{"16 connections", "1 partners", "1000 bills"}
	case o.ledger:
		subjects, yardsticks = l.writes("SQLite", "PostgreSQL"), []string{tunedCreate, plainCreate}
	default:
		subjects = l.reads(o.other)
	}
	if o.other != "" && !o.ledger {
		yardsticks = append(yardsticks, otherRead)
	}
	m := l.measure(subjects, o)
	fmt.Fprintf(out, "%s. %d connections. Medians (and ranges) of %d rounds of %d s.\n\n",
		machine(), o.connections, o.rounds, o.seconds)
	m.write(out, yardsticks)
}
