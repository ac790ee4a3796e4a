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
)

// The commands of the READMEs are run.
//
// In a block marked sh, a line that begins with `$ ` is a command. TestReadmeCommands runs those of one README in their order, in a
// shell and in one folder, and compares what they print with the lines below each. The folder has a config and an overlay, as
// billbridge.yaml and mine.yaml: the README's own, or else another one's. serve and sandbox run in the background, on free ports in the
// place of the documented ones. A block marked console is a part of what the command before it has printed. A … stands for any text,
// and a line of it alone for any lines.
//
// Any other command, in a block or in backquotes, must be one that a script or such a block runs (TestReadmeMentionsAreRun).

// notRun are commands that no test can run, and why.
var notRun = map[string]string{
	"go test ./...":             "it runs this test",
	".ci/run":                   "it runs this test",
	"go build ./cmd/billbridge": "go test builds the same program, for the scripts",
	"go run ./cmd/billbridge":   "it stands for billbridge in all commands; with one of them it is run",
}

// ranElsewhere are commands that a test runs by itself, by how they begin, and the test: those of two READMEs, which it reads, and
// those that need the id of a callback.
var ranElsewhere = map[string]string{
	"proxy/bench/README.md: go ":         "TestReadmeBenchmarksRun",
	"proxy/store/README.md: pg_dump ":    "TestReadmeBackupOfPostgreSQL",
	"proxy/store/README.md: pg_restore ": "TestReadmeBackupOfPostgreSQL",
	"billbridge callbacks show ":         "TestCallbacksCommands",
	"billbridge callbacks replay ":       "TestCallbacksCommands",
	"billbridge callbacks drop ":         "TestCallbacksCommands",
}

// elsewhere tells whether a test runs a command of a README by itself.
func elsewhere(file, command string) bool {
	for begin := range ranElsewhere {
		if strings.HasPrefix(command, begin) || strings.HasPrefix(file+": "+command, begin) {
			return true
		}
	}
	return false
}

// A shellCommand is one command of a block and what it prints.
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

// bare is a command without the comment behind it, in the words of who has installed the program.
func bare(command string) string {
	command = comment.ReplaceAllString(command, "")
	if with, ok := strings.CutPrefix(command, "go run ./cmd/billbridge "); ok {
		return "billbridge " + with
	}
	return command
}

// TestReadmeCommands: what the commands are shown to print is what they print.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell here to paste into")
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

// A session is a reader who types the commands of one README.
type session struct {
	t       *testing.T
	dir     string
	serving [2]*process       // one of each kind of server
	at      map[string]string // by the documented address of a listener, the one that it has
	printed string            // what the last command has printed and no block has shown yet
	loose   bool              // the numbers in it differ from run to run
}

// A serving is a command that runs until it is ended.
type serving struct {
	command   string
	listeners [2]listener
	started   string // the last line that it prints at its start
}

// A listener of a server: the flag that places it, its documented address, and the line that shows the one that it has.
type listener struct{ flag, documented, shown string }

var servers = [2]serving{
	{"billbridge serve", [2]listener{
		{"--listen", "127.0.0.1:8080", `(?:  partners +http://|Listening for partners on )([0-9.:]+)`},
		{"--admin", "127.0.0.1:9090", `(?:  metrics +http://|, admin on )([0-9.]+:[0-9]+)`},
	}, `^(curl -s|billbridge rollout try|Listening for) `},
	{"billbridge sandbox", [2]listener{
		{"--listen", "127.0.0.1:8081", `  partners +http://([0-9.:]+)`},
		{"--control", "127.0.0.1:8082", `  control +http://([0-9.:]+)`},
	}, `^curl -s -X POST `},
}

// operates tells a command that calls the admin listener.
var operates = regexp.MustCompile(`^billbridge (rollout|bills|callbacks|store clock)\b`)

// run types a command, and compares what it prints. The numbers of rollout try differ: each run of it has other bills.
func (s *session) run(c shellCommand) {
	s.t.Helper()
	command := bare(c.command)
	if notRun[command] != "" || elsewhere(c.file, command) {
		return
	}
	s.loose = command == "billbridge rollout try"
	kind := slices.IndexFunc(servers[:], func(k serving) bool { return strings.HasPrefix(command, k.command) })
	switch {
	case kind >= 0:
		s.serve(kind, strings.Fields(command)[1:])
	case strings.HasPrefix(command, "curl ") && !hasCurl():
		s.t.Logf("%s:%d: there is no curl here", c.file, c.line)
		return
	default:
		s.shell(c, command)
	}
	if output := strings.Trim(c.output, "\n"); output != "" {
		s.shows(c.file, c.line+1, strings.Split(output, "\n"))
	}
	if kind < 0 && !s.loose && strings.TrimSpace(s.printed) != "" && !strings.HasSuffix(c.output, "…\n") {
		s.t.Errorf("%s:%d: %s\nprints more than the README shows:\n%s", c.file, c.line, c.command, s.printed)
	}
}

func hasCurl() bool {
	_, err := exec.LookPath("curl")
	return err == nil
}

// serve starts a server in the place of the one of its kind.
func (s *session) serve(kind int, args []string) {
	s.t.Helper()
	if before := s.serving[kind]; before != nil {
		before.kill()
	}
	for _, l := range servers[kind].listeners {
		args = append(args, l.flag, "127.0.0.1:0")
	}
	p, err := launch(s.dir, "billbridge", args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.kill)
	s.serving[kind] = p
	if _, err := p.await("stdout", servers[kind].started); err != nil {
		s.t.Fatal(err)
	}
	s.printed = p.all("stdout")
	for _, l := range servers[kind].listeners {
		found := regexp.MustCompile(l.shown).FindStringSubmatch(s.printed)
		if found == nil {
			s.t.Fatalf("no %s in\n%s", l.shown, s.printed)
		}
		s.at[l.documented] = found[1]
	}
}

// shell types a command that ends. Its code is 0, or that of a refusal.
func (s *session) shell(c shellCommand, command string) {
	s.t.Helper()
	if operates.MatchString(command) {
		command += " --admin http://127.0.0.1:9090"
	}
	if s.loose {
		command += " --partners http://127.0.0.1:8080"
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

// shows compares lines of a README with what was printed, which goes on behind them.
func (s *session) shows(file string, line int, lines []string) {
	s.t.Helper()
	pattern := `(?m)^`
	for _, l := range lines {
		if l == "…" {
			pattern += `(?:.*\n)*?`
		} else {
			pattern += expression(l, s.loose) + `\s*\n`
		}
	}
	at := regexp.MustCompile(pattern).FindStringIndex(s.printed + "\n")
	if at == nil {
		s.t.Errorf("%s:%d: this is not what is printed:\n%s\nbut:\n%s", file, line, strings.Join(lines, "\n"), s.printed)
		return
	}
	if !s.loose && strings.TrimSpace(s.printed[:at[0]]) != "" && lines[0] != "…" {
		s.t.Errorf("%s:%d: before this it prints\n%s", file, line, s.printed[:at[0]])
	}
	s.printed = (s.printed + "\n")[at[1]:]
}

// varying are the parts of a line that no two runs have in common: a time, a port, an address of a bill's page, the space between
// columns, and a number.
var varying = regexp.MustCompile(`…|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|127\.0\.0\.1:\d+|/b/[0-9a-f]{16}|  +|\b\d[\d.,]*\b`)

// expression matches what a line of a README stands for.
func expression(line string, loose bool) string {
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
		case loose:
			pattern += `[\d.,]+`
		default:
			pattern += regexp.QuoteMeta(part)
		}
	}
	return pattern + regexp.QuoteMeta(line[end:])
}

// readmeFolder is where a reader of the READMEs would be. Of several configs or overlays the last one is there.
func readmeFolder(t *testing.T, blocks []block) string {
	t.Helper()
	dir := t.TempDir()
	for _, b := range blocks {
		name := map[string]string{"config": "billbridge.yaml", "overlay": "mine.yaml"}[kindOf(b)]
		if b.language != "yaml" || name == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(b.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A mention is a command that a README names and does not show the output of.
type mention struct {
	file    string
	line    int
	command string
}

var (
	inBackquotes = regexp.MustCompile("`([^`]+)`")
	isCommand    = regexp.MustCompile(`^(billbridge( |$)|go (run|test|build|doc|tool|vet) |curl |pg_dump |pg_restore |systemctl |kubectl |docker |\.ci/)`)
)

// mentions are the commands of a README but for those in blocks marked sh and console.
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

// TestReadmeMentionsAreRun: a command that a README names is run by a script, or by TestReadmeCommands, with each of its flags.
func TestReadmeMentionsAreRun(t *testing.T) {
	t.Parallel()
	var ran []typed
	for _, b := range allBlocks(t) {
		if b.language == "sh" {
			for _, c := range shellCommands(b) {
				ran = append(ran, parts(bare(c.command)))
			}
		}
	}
	if len(ran) < 10 {
		t.Errorf("%d commands in blocks marked sh: TestReadmeCommands tests too little", len(ran))
	}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	runs := regexp.MustCompile(`(?m)^(?:exits 0|start \w+) (billbridge .*)$`)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range runs.FindAllStringSubmatch(string(text), -1) {
			ran = append(ran, parts(m[1]))
		}
	}
	n := 0
	for _, name := range readmes(t) {
		for _, m := range mentions(t, name) {
			n++
			if notRun[m.command] != "" || elsewhere(m.file, m.command) {
				continue
			}
			if !slices.ContainsFunc(ran, func(one typed) bool { return runsAs(parts(m.command), one) }) {
				t.Errorf("%s:%d: no test runs this: %s", m.file, m.line, m.command)
			}
		}
	}
	tests := declaredTests(t)
	for command, test := range ranElsewhere {
		if !tests[test] {
			t.Errorf("%s should be run by %s, which is not there", command, test)
		}
	}
	if n < 10 || len(ran) < 50 {
		t.Errorf("%d mentions, and %d commands that are run: this tests too little", n, len(ran))
	}
}

// A typed is a command in its parts: the words before its flags, and these. Words of the command's own language are small letters;
// any other is data, such as a file, an id or a number.
type typed struct {
	words []string
	flags map[string]string
}

func parts(command string) typed {
	c := typed{flags: map[string]string{}}
	flag := ""
	for _, word := range strings.Fields(command) {
		switch {
		case strings.HasPrefix(word, "-"):
			var value string
			flag, value, _ = strings.Cut(word, "=")
			c.flags[flag] = value
		case flag != "":
			c.flags[flag] = word
			flag = ""
		default:
			c.words = append(c.words, word)
		}
	}
	return c
}

var aWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

func same(mention, ran string) bool { return mention == ran || !aWord.MatchString(mention) }

// runsAs tells whether a command that was run is the mentioned one: it has its words and flags, and may have more flags.
func runsAs(mention, ran typed) bool {
	_, helps := ran.flags["--help"]
	if _, wanted := mention.flags["--help"]; helps != wanted || !slices.EqualFunc(mention.words, ran.words, same) {
		return false
	}
	for flag, value := range mention.flags {
		if is, ok := ran.flags[flag]; !ok || !same(value, is) {
			return false
		}
	}
	return true
}
