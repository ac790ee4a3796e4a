// Command bench measures billbridge beside what else could do its work: nginx, nginx with Lua, and httputil.ReverseProxy.
//
//	go run ./proxy/bench            CPU time of one call, and the ratios
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
	"strconv"
	"strings"
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
	rounds, seconds int
	connections     string
	compare         string
	scale, ledger   bool
	svg             string
	idle, halfSent  int
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.rounds, "rounds", 5, "number of measurements of each process")
	flags.IntVar(&o.seconds, "seconds", 5, "duration of one measurement")
	flags.StringVar(&o.connections, "connections", "", "number of connections that wrk opens (default 64, with -ledger 32); with -scale a list (default 1,16,64,256,1024)")
	flags.StringVar(&o.compare, "compare", "", "measure this other binary of billbridge, too")
	flags.BoolVar(&o.scale, "scale", false, "measure throughput, p99 and CPU time by the number of connections")
	flags.BoolVar(&o.ledger, "ledger", false, "measure creates with and without the ledger of a rollout, and callbacks, with SQLite and PostgreSQL")
	flags.StringVar(&o.svg, "svg", "", "with -scale: draw the plot into this file")
	flags.IntVar(&o.idle, "idle", 0, "measure memory instead: open this many connections, make one call on each, and keep them open")
	flags.IntVar(&o.halfSent, "half-sent", 0, "measure memory instead: open this many connections, and send half of a body of 1 MiB on each")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.seconds < 1 {
		return errors.New("-rounds and -seconds must be at least 1, and there are no arguments; -h lists the flags")
	}
	if o.svg != "" && !o.scale {
		return errors.New("-svg needs -scale")
	}
	if o.connections == "" {
		o.connections = "64"
		switch {
		case o.scale:
			o.connections = "1,16,64,256,1024"
		case o.ledger:
			o.connections = "32"
		}
	}
	switch {
	case o.idle > 0:
		return measureIdle(ctx, o.idle, out)
	case o.halfSent > 0:
		return measureHalfSent(ctx, o.halfSent, out)
	}
	switch {
	case o.scale:
		return measureScale(ctx, o, out, progress)
	case o.ledger:
		return measureWrites(ctx, o, out, progress)
	}
	return measureReads(ctx, o, out, progress)
}

// counts reads a list such as 1,16,64.
func counts(list string) ([]int, error) {
	var numbers []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-connections must be numbers such as 64 or 1,16,64, but is %q", list)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// measureReads prints the CPU time of a read of a bill in each process, and the ratios.
func measureReads(ctx context.Context, o options, out, progress io.Writer) error {
	l, err := newLab(ctx, progress)
	if err != nil {
		return err
	}
	defer l.stop()
	subjects, err := l.reads(o.compare)
	if err != nil {
		return err
	}
	standard, err := l.defaultProxy()
	if err != nil {
		return err
	}
	measured, err := l.measure(append(subjects, standard), o)
	if err != nil {
		return err
	}
	conditions(out, o)
	measured.write(out, measured.compared(0, nginxLua, tunedProxy))
	return nil
}

// measureWrites prints the CPU time of creates and callbacks, and the ratios.
func measureWrites(ctx context.Context, o options, out, progress io.Writer) error {
	l, err := newLab(ctx, progress)
	if err != nil {
		return err
	}
	defer l.stop()
	subjects, err := l.writes()
	if err != nil {
		return err
	}
	measured, err := l.measure(subjects, o)
	if err != nil {
		return err
	}
	conditions(out, o)
	measured.write(out, measured.compared(0, tunedCreate, plainCreate))
	return nil
}

// wrkPath returns an error that says what to do if wrk is not installed.
func wrkPath() (string, error) {
	path, err := exec.LookPath("wrk")
	if err != nil {
		return "", errors.New("wrk is not installed: install the Debian package wrk")
	}
	return path, nil
}
