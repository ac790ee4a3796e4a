package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/alecthomas/kong"
)

// The commands in READMEs are tested.
//
// In a block marked sh, a line that begins with `$ ` is a command. TestReadmeCommands runs the commands of a README in their order, in
// one folder, and compares their output with the lines below each command. The folder has a config and an overlay (billbridge.yaml and
// mine.yaml), from this README or another one. serve and sandbox run in the background, on free ports instead of the documented ones.
// A block marked console has a part of the output of the command before it. A … stands for any text, and a line with … alone for any
// number of lines.
//
// Any other command of this program, in a block or in backquotes, must exist (TestReadmeMentionsExist).

// notRun are beginnings of commands that this test does not run, with the reason.
var notRun = map[string]string{
	"go test ./...":              "it would run this test again",
	"billbridge sandbox forward": "a script runs it",
	"pg_dump ":                   "TestReadmeBackupOfPostgreSQL runs it",
	"billbridge store backup billbridge.dump --made": "a script runs it",
}

// A shellCommand is a command of a block and its output.
type shellCommand struct {
	file            string
	line            int
	command, output string
}

func shellCommands(b block) []shellCommand {
	var list []shellCommand
	for i, line := range b.lines {
		if command, isCommand := strings.CutPrefix(line, "$ "); isCommand {
			list = append(list, shellCommand{file: b.file, line: b.line + i, command: command})
		} else if len(list) > 0 {
			list[len(list)-1].output += line + "\n"
		}
	}
	return list
}

var comment = regexp.MustCompile(`\s+#.*$`)

// bare removes the comment of a command, and replaces go run by the program's name.
func bare(command string) string {
	command = comment.ReplaceAllString(command, "")
	if with, ok := strings.CutPrefix(command, "go run ./cmd/billbridge "); ok {
		return "billbridge " + with
	}
	return command
}

// The output of every command in a README is its real output.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	all := allBlocks(t)
	for _, name := range readmes(t) {
		_, blocks := readme(t, name)
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			s := &session{t: t, dir: readmeFolder(t, slices.Concat(all, blocks)), at: map[string]string{}}
			for _, b := range blocks {
				switch b.language {
				case "sh":
					for _, c := range shellCommands(b) {
						s.run(c)
					}
				case "console":
					s.shows(b.file, b.line, b.lines)
				}
			}
		})
	}
}

// A session runs the commands of one README.
type session struct {
	t       *testing.T
	dir     string
	serving [2]*process       // one of each kind of server; may be nil
	at      map[string]string // the actual address of a listener, by its documented address
	printed string            // the output of the last command that no block has shown yet
}

// A serverCommand is a command that runs until it is killed.
type serverCommand struct {
	command   string
	listeners [2]listener
	started   string // a pattern for the last line of its output at the start
}

// A listener of a server: its flag, its documented address, and a pattern for its actual address in the output.
type listener struct{ flag, documented, shown string }

var servers = [2]serverCommand{
	{"billbridge serve", [2]listener{
		{"--listen", "127.0.0.1:8080", `(?:  partners +http://|Listening for partners on )([0-9.:]+)`},
		{"--admin", "127.0.0.1:9090", `(?:  metrics +http://|, admin on )([0-9.]+:[0-9]+)`},
	}, `^(curl -s|billbridge rollout status|Listening for) `},
	{"billbridge sandbox", [2]listener{
		{"--listen", "127.0.0.1:8081", `  partners +http://([0-9.:]+)`},
		{"--control", "127.0.0.1:8082", `  control +http://([0-9.:]+)`},
	}, `^curl -s -X POST `},
}

// adminCommand matches commands that call the admin listener.
var adminCommand = regexp.MustCompile(`^billbridge (rollout|bills|callbacks|store clock)\b`)

// run runs a command and compares its output.
func (s *session) run(c shellCommand) {
	s.t.Helper()
	command := bare(c.command)
	for begin := range notRun {
		if strings.HasPrefix(command, begin) {
			return
		}
	}
	kind := slices.IndexFunc(servers[:], func(k serverCommand) bool { return strings.HasPrefix(command, k.command) })
	switch {
	case kind >= 0:
		s.serve(kind, strings.Fields(command)[1:])
	case strings.HasPrefix(command, "curl ") && !hasCurl():
		s.t.Logf("%s:%d: curl is not installed", c.file, c.line)
		return
	default:
		s.shell(c, command)
	}
	if output := strings.Trim(c.output, "\n"); output != "" {
		s.shows(c.file, c.line+1, strings.Split(output, "\n"))
	}
	if kind < 0 && strings.TrimSpace(s.printed) != "" && !strings.HasSuffix(c.output, "…\n") {
		s.t.Errorf("%s:%d: %s\nprints more than the README has:\n%s", c.file, c.line, c.command, s.printed)
	}
}

func hasCurl() bool {
	_, err := exec.LookPath("curl")
	return err == nil
}

// serve starts a server, and ends the one before of the same kind.
func (s *session) serve(kind int, args []string) {
	s.t.Helper()
	if before := s.serving[kind]; before != nil {
		before.kill()
	}
	for _, l := range servers[kind].listeners {
		args = append(args, l.flag, "127.0.0.1:0")
	}
	p, err := launch(s.dir, "billbridge", args...)
	must(s.t, err)
	s.t.Cleanup(p.kill)
	s.serving[kind] = p
	works(s.t)(p.await("stdout", servers[kind].started))
	s.printed = p.all("stdout")
	for _, l := range servers[kind].listeners {
		found := regexp.MustCompile(l.shown).FindStringSubmatch(s.printed)
		if found == nil {
			s.t.Fatalf("no %s in\n%s", l.shown, s.printed)
		}
		s.at[l.documented] = found[1]
	}
}

// shell runs a command that ends. Its exit code must be 0 or 1.
func (s *session) shell(c shellCommand, command string) {
	s.t.Helper()
	if adminCommand.MatchString(command) {
		command += " --admin http://127.0.0.1:9090"
	}
	for documented, is := range s.at {
		command = strings.ReplaceAll(command, documented, is)
	}
	paste := exec.Command("sh", "-c", command)
	paste.Dir = s.dir
	if strings.HasPrefix(command, "go ") {
		paste.Dir = module
	}
	paste.Env = append(os.Environ(), noRaceSleep, "USER=anna")
	printed, err := paste.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != exitError || err != nil && exit == nil {
		s.t.Errorf("%s:%d: %v\n%s", c.file, c.line, err, printed)
	}
	s.printed = string(printed)
}

// shows compares lines of a README with the next output.
func (s *session) shows(file string, line int, lines []string) {
	s.t.Helper()
	pattern := `(?m)^`
	for _, l := range lines {
		if l == "…" {
			pattern += `(?:.*\n)*?`
		} else {
			pattern += expression(l) + `\s*\n`
		}
	}
	at := regexp.MustCompile(pattern).FindStringIndex(s.printed + "\n")
	if at == nil {
		s.t.Errorf("%s:%d: the README has\n%s\nbut the output is\n%s", file, line, strings.Join(lines, "\n"), s.printed)
		return
	}
	if strings.TrimSpace(s.printed[:at[0]]) != "" && lines[0] != "…" {
		s.t.Errorf("%s:%d: the output has before this line\n%s", file, line, s.printed[:at[0]])
	}
	s.printed = (s.printed + "\n")[at[1]:]
}

// varying matches the parts of a line that differ between runs: times, ports, page tokens, the space between columns, and
// numbers.
var varying = regexp.MustCompile(`…|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|127\.0\.0\.1:\d+|/b/[0-9a-f]{16}|  +|\b\d[\d.,]*\b`)

// expression returns a regular expression for a line of a README.
func expression(line string) string {
	pattern, end := "", 0
	for _, at := range varying.FindAllStringIndex(line, -1) {
		part := line[at[0]:at[1]]
		pattern += regexp.QuoteMeta(line[end:at[0]])
		end = at[1]
		switch {
		case part == "…":
			pattern += `.*`
		case strings.HasPrefix(part, "127.0.0.1:"):
			pattern += `127\.0\.0\.1:\d+`
		case strings.HasPrefix(part, "/b/"):
			pattern += `/b/[0-9a-f]{16}`
		case part[0] == ' ':
			pattern += ` +`
		case strings.Contains(part, "T"):
			pattern += `[-0-9T:.]+(?:Z|[+-]\d\d:\d\d)`
		default:
			pattern += regexp.QuoteMeta(part)
		}
	}
	return pattern + regexp.QuoteMeta(line[end:])
}

// readmeFolder returns a folder with a config and an overlay: the last ones of blocks.
func readmeFolder(t *testing.T, blocks []block) string {
	t.Helper()
	dir := t.TempDir()
	for _, b := range blocks {
		name := map[string]string{"config": "billbridge.yaml", "overlay": "mine.yaml"}[kindOf(b)]
		if b.language != "yaml" || name == "" {
			continue
		}
		proxytest.WriteFile(t, filepath.Join(dir, name), strings.Join(b.lines, "\n")+"\n")
	}
	return dir
}

// A mention is a command in a README whose output is not shown.
type mention struct {
	file    string
	line    int
	command string
}

var (
	inBackquotes = regexp.MustCompile("`([^`]+)`")
	isCommand    = regexp.MustCompile(`^billbridge( |$)`)
)

// mentions returns the commands of a README that are not in blocks marked sh and console.
func mentions(t *testing.T, name string) (all []mention) {
	t.Helper()
	lines, blocks := readme(t, name)
	inBlock := map[int]string{}
	for _, b := range blocks {
		for i := -1; i <= len(b.lines); i++ {
			inBlock[b.line+i] = b.language
		}
	}
	for i, line := range lines {
		language, block := inBlock[i+1]
		switch {
		case block && (language == "sh" || language == "console" || language == "yaml"):
		case block, strings.HasPrefix(line, "    "):
			if command := bare(strings.TrimPrefix(strings.TrimSpace(line), "$ ")); isCommand.MatchString(command) {
				all = append(all, mention{name, i + 1, command})
			}
		default:
			for _, m := range inBackquotes.FindAllStringSubmatch(line, -1) {
				if command := bare(m[1]); isCommand.MatchString(command) && command != "billbridge" {
					all = append(all, mention{name, i + 1, command})
				}
			}
		}
	}
	return all
}

// Every command of this program that a README mentions exists, with each of its flags.
func TestReadmeMentionsExist(t *testing.T) {
	t.Parallel()
	commands := map[string]*kong.Node{}
	eachCommand(model().Node, "billbridge", func(n *kong.Node, words string) { commands[words] = n })
	n := 0
	for _, name := range readmes(t) {
		for _, m := range mentions(t, name) {
			words, command := "", commands["billbridge"]
			for i, word := range strings.Fields(m.command) {
				words = strings.TrimSpace(words + " " + word)
				if at := commands[words]; at != nil {
					command = at
				} else if len(command.Children) > 0 && command.DefaultCmd == nil && !strings.HasPrefix(word, "-") {
					t.Errorf("%s:%d: there is no command %s", m.file, m.line, words)
				}
				flag, _, _ := strings.Cut(word, "=")
				if name, isFlag := strings.CutPrefix(flag, "--"); i > 0 && isFlag && name != "help" &&
					!slices.ContainsFunc(flagsOf(command), func(f *kong.Flag) bool { return f.Name == name }) {
					t.Errorf("%s:%d: there is no flag %s: %s", m.file, m.line, flag, m.command)
				}
			}
			n++
		}
	}
	if n < 10 {
		t.Errorf("%d mentions: too few", n)
	}
}
