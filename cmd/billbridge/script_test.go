package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected outputs of the scripts; review every line of the difference")

// TestMain makes this test binary also the program billbridge, which scripts and tests start.
func TestMain(m *testing.M) {
	testscript.Main(proxytest.Tests{M: m}, map[string]func(){"billbridge": func() { mainWith(proxytest.LoadConfig) }})
}

// The scripts run the commands as a shell does. They test arguments, streams, signals and exit codes. In addition to the
// commands of testscript they have
//
//	exits CODE PROGRAM [ARGS]      run a program to its end, or its command within the test; stdin is kept until the next
//	                               stdin command
//	until REGEXP PROGRAM [ARGS]    run a program until its stdout matches
//	start NAME PROGRAM [ARGS]      start a program in the background
//	await NAME STREAM REGEXP       wait for a line; named groups become variables
//	signal NAME HUP|TERM           send a signal
//	ends NAME CODE                 wait for the end; stdout and stderr have all output of the program
//	call METHOD URL [FILE]         make an HTTP call; stdout has the status and the body
//	paste VARIABLE                 run the curl command in a variable, without curl; stdout as for call
//	fill FILE                      replace variables in a file
//	occupy VARIABLE                listen on a port
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "start": start, "await": await, "signal": sendSignal, "ends": ends,
			"call": call, "paste": paste, "fill": fill, "occupy": occupy,
		},
		Setup: func(env *testscript.Env) error {
			env.Values[processes{}] = map[string]*process{}
			env.Vars = append(env.Vars, noRaceSleep, "SHORT_WAIT="+shortWait)
			return nil
		},
	})
}

// shortWait is a line for configs of scripts: see [proxytest.Tuned].
var shortWait = proxytest.Tuned(func(c *config.Config) { c.Store.Wait = time.Second })

// noRaceSleep disables the pause of a second with which programs with the race detector exit.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

// want fails if the arguments of a script command are wrong.
func want(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

// atStart is in commands that exits must start as a program: they read files or stdin, or are gateways. Others that ask a
// gateway need no process of their own.
var atStart = regexp.MustCompile(`-file|\.txt|--config|--listen|^\S+ \S+ serve| -( |$)`)

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "exits CODE PROGRAM [ARGS]")
	code := 0
	if words := strings.Join(args, " "); strings.Contains(words, "--admin") && !atStart.MatchString(words) {
		args = args[:len(args):len(args)]
		if token := ts.Getenv("BILLBRIDGE_ADMIN_TOKEN"); token != "" && !strings.Contains(words, "--token") {
			args = append(args, "--token", token)
		}
		code = run(context.Background(), args[2:], system{
			in: strings.NewReader(""), out: ts.Stdout(), err: ts.Stderr(),
			env: func(name string) (string, bool) { value := ts.Getenv(name); return value, value != "" },
		})
	} else if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "until REGEXP PROGRAM [ARGS]")
	expected := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		switch {
		case expected.MatchString(ts.ReadFile("stdout")):
			return
		case time.Now().After(end):
			ts.Fatalf("no match for %s", args[0])
		}
	}
}

func call(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "call METHOD URL [FILE]")
	body := ""
	if len(args) > 2 {
		body = ts.ReadFile(args[2])
	}
	exchange(ts, args[0], args[1], http.Header{"Content-Type": {"application/json"}}, body)
}

func exchange(ts *testscript.TestScript, method, url string, header http.Header, body string) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	ts.Check(err)
	request.Header = header
	reply, err := http.DefaultClient.Do(request)
	ts.Check(err)
	text, err := io.ReadAll(reply.Body)
	ts.Check(errors.Join(err, reply.Body.Close()))
	_, err = io.WriteString(ts.Stdout(), reply.Status+"\n"+strings.TrimSuffix(string(text), "\n")+"\n")
	ts.Check(err)
}

// paste runs a curl command line without curl.
func paste(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "paste VARIABLE")
	var words []string
	for _, word := range regexp.MustCompile(`'([^']*)'|[^ ]+`).FindAllStringSubmatch(ts.Getenv(args[0]), -1) {
		words = append(words, cmp.Or(word[1], word[0]))
	}
	if len(words) == 0 || words[0] != "curl" {
		ts.Fatalf("%s is no curl line: %q", args[0], words)
	}
	url, body, method, header := "", "", http.MethodGet, http.Header{}
	for i := 1; i < len(words); i++ {
		next := func() string {
			if i++; i == len(words) {
				ts.Fatalf("%s needs a value", words[i-1])
			}
			return words[i]
		}
		switch word := words[i]; {
		case word == "-s":
		case word == "-H":
			name, value, _ := strings.Cut(next(), ": ")
			header.Add(name, value)
		case word == "-d":
			method, body = http.MethodPost, next()
		case strings.HasPrefix(word, "-"):
			ts.Fatalf("this test does not know curl's %s", word)
		default:
			url = word
		}
	}
	exchange(ts, method, url, header, body)
}

func fill(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "fill FILE")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

func occupy(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "occupy VARIABLE")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	ts.Setenv(args[0], listener.Addr().String())
}
