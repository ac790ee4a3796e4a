// Command billbridge is a reverse proxy between the two forms of the billing interface. README.md describes its use.
// Every command has --help.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/operate"
	"billbridge/translate"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

func main() { mainWith(config.Load) }

// mainWith runs the command in os.Args and ends the process. load reads the config of serve: that of tests changes
// constants.
func mainWith(load loadConfig) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	s := system{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv, load: load, hangup: hangup,
		terminal:          term.IsTerminal(int(os.Stderr.Fd())),
		ignoreBrokenPipes: func() { signal.Ignore(syscall.SIGPIPE) },
	}
	s.log = newLog(s)
	log.SetOutput(&redactedLog{slog.New(s.log)})
	os.Exit(run(ctx, os.Args[1:], s))
}

// newLog logs text to a terminal, and JSON otherwise. What is not printable is escaped, which the handlers of log/slog
// do not do for JSON.
func newLog(s system) *accesslog.Handler {
	return accesslog.New(s.err, func(lines io.Writer) slog.Handler {
		lines = terminalWriter{lines}
		if s.terminal {
			return slog.NewTextHandler(lines, nil)
		}
		return slog.NewJSONHandler(lines, nil)
	})
}

// redactedLog is the output of the standard logger, which net/http uses. It logs that there was a message, without the
// text: the text can quote the first bytes of an upstream's reply, with keys and names (R35).
type redactedLog struct{ log *slog.Logger }

func (l *redactedLog) Write(text []byte) (int, error) {
	l.log.Warn("net/http logged a message about a connection; the text is omitted because it may quote a reply",
		"bytes", len(text))
	return len(text), nil
}

// The exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// loadConfig is [config.Load].
type loadConfig func(path string, lookup func(string) (string, bool)) (*config.Config, error)

// A system is what a command uses of the process. Tests replace it.
type system struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	load     loadConfig       // of serve; nil for config.Load
	hangup   <-chan os.Signal // each signal causes a reload
	terminal bool             // whether err is a terminal

	// ignoreBrokenPipes makes a write to a log whose reader has ended an error. Without it the write ends the process,
	// with the calls in progress. It can be nil.
	ignoreBrokenPipes func()

	log *accesslog.Handler // to err; if nil, run creates it. run closes it at its end.

	// documents is out for JSON documents, which are printed byte for byte; progress is err for progress on a
	// terminal. Only run sets them.
	documents, progress io.Writer
}

type commands struct {
	Serve   serveCommand   `cmd:""`
	Sandbox sandboxCommand `cmd:""`
	Desk    deskCommand    `cmd:""`
	localCommands
	Callbacks callbacksCommand `cmd:""`
	Bills     billsCommand     `cmd:""`
	Rollout   rolloutCommand   `cmd:""`
	Wave      waveCommand      `cmd:""`
	Audit     auditCommand     `cmd:""`
	Store     storeCommand     `cmd:""`
	Assets    assetsCommand    `cmd:""`

	VersionFlag kong.VersionFlag `name:"version"`
}

// localCommands need no gateway and no store.
type localCommands struct {
	Init      initCommand      `cmd:""`
	Check     checkCommand     `cmd:""`
	Translate translateCommand `cmd:""`
	Hash      hashCommand      `cmd:""`
	Map       mapCommand       `cmd:""`
}

const description = "billbridge is a reverse proxy between partners and billing backends " +
	"that speak different forms of one interface.\n\n" +
	"Try it without a config:  billbridge serve"

// parserOptions configure the parser and its help.
var parserOptions = []kong.Option{
	kong.Name("billbridge"), kong.Description(description),
	kong.Vars{"version": versionLine()},
	kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}), kong.PostBuild(addHelp),
	kong.TypeMapper(reflect.TypeFor[operate.Force](), kong.MapperFunc(decodeForce)),
}

// helpText has the help of each command after a line with # and the command: what it does, in a line each its flags and
// arguments, and after an empty line examples and what else there is to know. A flag that is not there is in the
// section of a command above.
//
//go:embed help.txt
var helpText string

// addHelp adds helpText to the commands.
func addHelp(k *kong.Kong) error {
	details, helps := map[string]string{}, map[string]string{}
	for section := range strings.SplitSeq("\n"+helpText, "\n\n# ") {
		head, detail, _ := strings.Cut(section, "\n\n")
		var command string
		for i, line := range strings.Split(strings.TrimPrefix(head, "\n# "), "\n") {
			flag, help, _ := strings.Cut(line, " ")
			switch {
			case i == 0:
				command = line
			case line[0] == '-' || line[0] == '<':
				helps[command+" "+flag] = help
			default:
				helps[command] = line
			}
		}
		details[command] = strings.TrimSpace(detail)
	}
	eachCommand(k.Model.Node, k.Model.Name, func(n *kong.Node, command string) {
		n.Help, n.Detail = cmp.Or(helps[command], n.Help), details[command]
		add := func(v *kong.Value, name string) {
			for at := command; v.Help == "" && at != ""; at = at[:max(0, strings.LastIndexByte(at, ' '))] {
				v.Help = helps[at+" "+name]
			}
		}
		for _, flag := range n.Flags {
			add(flag.Value, "--"+flag.Name)
		}
		for _, argument := range n.Positional {
			add(argument, "<"+argument.Name+">")
		}
	})
	return nil
}

// eachCommand calls f for n and each command below it, with the words that select the command.
func eachCommand(n *kong.Node, words string, f func(n *kong.Node, words string)) {
	f(n, words)
	for _, child := range n.Children {
		eachCommand(child, words+" "+child.Name, f)
	}
}

// parserExit is the panic value by which the parser returns an exit code, for example after --help.
type parserExit int

// run runs the command of args and returns the exit code.
func run(ctx context.Context, args []string, s system) (code int) {
	defer func() {
		if panicked := recover(); panicked != nil {
			status, ok := panicked.(parserExit)
			if !ok {
				panic(panicked)
			}
			code = int(status)
		}
	}()
	if s.load == nil {
		s.load = config.Load
	}
	if s.log == nil {
		s.log = newLog(s)
	}
	defer s.log.Close()
	if len(args) > 0 && args[0] == "serve" {
		s.out, s.err = briefWriter{s.out}, briefWriter{s.err}
	}
	s.documents, s.progress = s.out, s.err
	s.out, s.err = terminalWriter{s.out}, terminalWriter{s.err}
	var c commands
	parser := kong.Must(&c, append([]kong.Option{
		kong.Writers(s.out, s.err), kong.Exit(func(code int) { panic(parserExit(code)) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s),
	}, parserOptions...)...)
	parsed, err := parser.Parse(args)
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		// The empty value is one that nobody gives.
		parsed = wrong.Context
		err = usageError(strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1))
	} else if err == nil {
		err = parsed.Run()
	}
	var usage usageError
	var exit exitCode
	var problems translate.Problems
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitError
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		command, _, _ := strings.Cut("billbridge "+parsed.Command(), " <") // without its arguments
		printf(s.err, "billbridge: %v\nTry: %s --help\n", linesOf(err), strings.TrimSpace(command))
		if strings.HasPrefix(command, "billbridge desk") {
			return exitDeskUsage
		}
		return exitUsage
	case errors.As(err, &problems): // one FILE:LINE:COLUMN: TEXT per line, which editors recognise
		printf(s.err, "%v\n", linesOf(problems))
		return exitError
	}
	printf(s.err, "billbridge: %v\n", linesOf(err))
	return exitError
}

// errReported ends a command with exit code 1 whose problem is already printed.
var errReported = errors.New("already reported")

// An exitCode ends a command whose result is already printed.
type exitCode int

func (e exitCode) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// A usageError is a wrong usage that the parser does not detect.
type usageError string

func (u usageError) Error() string { return string(u) }
