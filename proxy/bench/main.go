// Command bench measures billbridge beside what else could do its work: nginx, nginx with Lua, and httputil.ReverseProxy.
//
//	go run ./proxy/bench            CPU time of a read, and the ratios
//	go run ./proxy/bench -ledger    the same of creates and callbacks, with SQLite and PostgreSQL
//	go run ./proxy/bench -idle 10000
//	go run ./proxy/bench -half-sent 2000
//
// The processes run in front of one backend, and wrk calls them. They are measured in turn, so that a change in the speed
// of the machine affects all of them. Tables are printed in Markdown, progress is printed on stderr. README.md says what is measured.
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
)

func main() {
	var err error
	if args := os.Args[1:]; len(args) > 0 && args[0] == "role" { // the command starts itself
		err = role(args[1:])
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, args, os.Stdout, os.Stderr)
		if ctx.Err() != nil { // the errors of processes that were ended say nothing
			err = errors.New("interrupted")
		}
		stop()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	rounds, seconds, connections int
	compare                      string
	ledger                       bool
	idle, halfSent               int
}

// parse reads the flags. It prints the help to the writer.
func parse(args []string, help io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.Usage = func() {
		fmt.Fprintln(help, "Usage: go run ./proxy/bench [flags]\n\nWithout flags it measures the CPU time of reads beside nginx and httputil.ReverseProxy.")
		flags.PrintDefaults()
	}
	flags.IntVar(&o.rounds, "rounds", 5, "`number` of measurements of each process")
	flags.IntVar(&o.seconds, "seconds", 5, "duration of one measurement, in `seconds`")
	flags.IntVar(&o.connections, "connections", 0, "`number` of connections that wrk opens (default 64, with -ledger 32)")
	flags.StringVar(&o.compare, "compare", "", "`path` of another binary of billbridge, to measure it as well")
	flags.BoolVar(&o.ledger, "ledger", false, "measure creates, with and without the ledger of a rollout, and callbacks, with SQLite and PostgreSQL")
	flags.IntVar(&o.idle, "idle", 0, "measure memory: open this `number` of connections, make one call on each, and keep them open")
	flags.IntVar(&o.halfSent, "half-sent", 0, "measure memory: open this `number` of connections, and send half of a body of 1 MiB on each")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("there are no arguments, but %q was given; -h lists the flags", flags.Arg(0))
	case o.rounds < 1 || o.seconds < 1 || o.connections < 0:
		return o, fmt.Errorf("-rounds, -seconds and -connections must be at least 1, but are %d, %d and %d", o.rounds, o.seconds, o.connections)
	case o.connections == 0 && o.ledger:
		o.connections = 32
	case o.connections == 0:
		o.connections = 64
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	switch {
	case err != nil:
		return err
	case o.idle > 0:
		return measureIdle(ctx, o.idle, out)
	case o.halfSent > 0:
		return measureHalfSent(ctx, o.halfSent, out)
	}
	return measureCalls(ctx, o, out, progress)
}

// measureCalls prints the table of calls.
func measureCalls(ctx context.Context, o options, out, progress io.Writer) error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is not installed: install the Debian package wrk")
	}
	l, err := newLab(ctx, progress)
	if err != nil {
		return err
	}
	defer l.stop()
	subjects, yardsticks := l.reads, []string{nginxLua, tunedProxy}
	if o.ledger {
		subjects, yardsticks = l.writes, []string{tunedCreate, plainCreate}
	}
	list, err := subjects(o.compare)
	if err != nil {
		return err
	}
	m, err := l.measure(list, o)
	if err != nil {
		return err
	}
	conditions(out, o)
	m.write(out, m.compared(yardsticks...))
	return nil
}
