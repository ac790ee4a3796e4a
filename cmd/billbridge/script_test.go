package main

import (
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the wanted outputs of the scripts anew; read every line of the difference")

// TestMain makes this test binary the program, too: scripts and tests start it by the name billbridge.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"billbridge": main})
}

// The commands as a shell sees them: arguments, streams, signals and exit codes. Beside testscript's own words the
// scripts have
//
//	exits CODE PROGRAM [ARGS]      run to the end; stdin stays what it was until the next stdin
//	start NAME PROGRAM [ARGS]      run in the background
//	await NAME STREAM REGEXP       go on when a line is there; named groups become variables
//	signal NAME HUP|TERM
//	ends NAME CODE                 go on when it has ended; stdout and stderr are all that it said
//	call METHOD URL [FILE]         one HTTP call; stdout is the status, then the body
//	paste VARIABLE                 the curl line in the variable, without curl; stdout as of call
//	fill FILE                      put variables into a file
//	occupy VARIABLE                take a port
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(3 * patience), // a program that serves where it should end is ended
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "start": start, "await": await, "signal": sendSignal, "ends": ends,
			"call": call, "paste": paste, "fill": fill, "occupy": occupy,
		},
		Setup: func(env *testscript.Env) error {
			env.Values[processes{}] = map[string]*process{}
			env.Vars = append(env.Vars, noRaceSleep)
			return nil
		},
	})
}

// noRaceSleep keeps programs built with the race detector from waiting a second before they exit, as they do
// otherwise: the scripts run hundreds.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

// want refuses a line of a script that its command cannot make sense of.
func want(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "exits CODE PROGRAM [ARGS]")
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
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

// paste does what a shell with curl does, for the words that our lines have: a machine without curl has the test
// too.
func paste(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "paste VARIABLE")
	words, err := shellWords(ts.Getenv(args[0]))
	ts.Check(err)
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

// shellWords splits a line as a shell does that has words, blanks and single quotes, and refuses what else a shell
// would give a meaning to.
func shellWords(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		word := ""
		for line != "" && line[0] != ' ' {
			if line[0] == '\'' {
				quoted, rest, closed := strings.Cut(line[1:], "'")
				if !closed {
					return nil, errors.New("a quote is not closed")
				}
				word, line = word+quoted, rest
				continue
			}
			if strings.ContainsRune("\"\\$`|&;<>()*?[]#~!{}\n", rune(line[0])) {
				return nil, errors.New("a shell gives a meaning to " + line[:1])
			}
			_, size := utf8.DecodeRuneInString(line)
			word, line = word+line[:size], line[size:]
		}
		words = append(words, word)
	}
	return words, nil
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
