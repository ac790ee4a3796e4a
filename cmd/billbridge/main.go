// Command billbridge is the reverse proxy between the two forms of the billing interface. The README shows its
// use; every command has --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"billbridge/translate"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends a drain that takes too long
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	s := surroundings{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv, hangup: hangup, terminal: isTerminal(os.Stderr),
	}
	log.SetOutput(&stray{newLogger(s)})
	os.Exit(run(ctx, os.Args[1:], s))
}

// stray takes what net/http tells the standard logger: of a connection on which an upstream sent what nobody asked
// for, for one, with the first bytes of it. Those may be a reply, with keys and names, so the words are left out.
type stray struct{ log *slog.Logger }

func (s *stray) Write(words []byte) (int, error) {
	s.log.Warn("net/http reports an event on a connection; its words are left out, they may quote a message", "bytes", len(words))
	return len(words), nil
}

// The exit codes: done, refused or failed, wrong usage.
const (
	done    = 0
	refused = 1
	misused = 2
)

// surroundings are what a command takes from the process, so that a test can give its own.
type surroundings struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	hangup   <-chan os.Signal // asks for a reload
	terminal bool             // whether err is one
}

type commands struct {
	Serve     serveCommand     `cmd:"" help:"Run the gateway."`
	Sandbox   sandboxCommand   `cmd:"" help:"Run only the billing service of the interface document, for trying and testing. Not for production."`
	Check     checkCommand     `cmd:"" help:"Validate config and table, and print what they make of every route and field."`
	Translate translateCommand `cmd:"" help:"Translate JSON documents from stdin to stdout."`
	Hash      hashCommand      `cmd:"" help:"Print the text that a request's hash is made of, and the hash."`
	Map       mapCommand       `cmd:"" help:"Print the translation table in use."`
	Callbacks callbacksCommand `cmd:"" help:"See the payment callbacks that a running gateway relays, and decide about dead ones."`
	Bills     billsCommand     `cmd:"" help:"See the bills in the ledger of a running gateway: those that may be open, and writes with an unknown outcome."`
	Rollout   rolloutCommand   `cmd:"" help:"See how far partners have moved from one upstream of a running gateway to the other, and move them."`
	Store     storeCommand     `cmd:"" help:"Back up the store; see and confirm the clock by which a running gateway removes what is over from it."`
	Version   versionCommand   `cmd:"" help:"Print version, commit and Go version."`
}

const description = "billbridge carries calls between partners and billing backends, each in its own form of the interface.\n\n" +
	"Try it without any config:  billbridge serve"

// exited ends the parser where it would end the process.
type exited int

// run is the whole program: it returns its exit code.
func run(ctx context.Context, args []string, s surroundings) (code int) {
	defer func() {
		if end := recover(); end != nil {
			status, ok := end.(exited)
			if !ok {
				panic(end)
			}
			code = int(status)
		}
	}()
	var c commands
	parser := kong.Must(&c, kong.Name("billbridge"), kong.Description(description),
		kong.Writers(s.out, s.err), kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s))
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(s.err, "billbridge: %v\nTry: billbridge --help\n", err)
		return misused
	}
	err = parsed.Run()
	var usage usageError
	var problems translate.Problems
	switch {
	case err == nil:
		return done
	case errors.Is(err, errRefused): // has been told already
		return refused
	case errors.As(err, &usage):
		command, _, _ := strings.Cut(parsed.Command(), " <") // without its arguments
		fmt.Fprintf(s.err, "billbridge: %v\nTry: billbridge %s --help\n", err, command)
		return misused
	case errors.As(err, &problems): // FILE:LINE:COLUMN: what, one a line, for editors too
		fmt.Fprintln(s.err, problems)
		return refused
	}
	fmt.Fprintf(s.err, "billbridge: %v\n", err)
	return refused
}

// errRefused ends a command with exit code 1 when everything has been said.
var errRefused = errors.New("refused")

// A usageError is a wrong use of a command that the parser cannot see.
type usageError string

func (u usageError) Error() string { return string(u) }

// isTerminal tells whether a person reads the file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// examples is the help of a command's use.
func examples(lines ...string) string { return "Examples:\n\n  " + strings.Join(lines, "\n  ") }
