package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"billbridge/proxy/proxytest"
)

// assetFile writes an asset to a file and returns its path. A second call of its function must give the same text.
func assetFile(t *testing.T, name string) string {
	t.Helper()
	i := slices.IndexFunc(assets, func(a asset) bool { return a.name == name })
	if i < 0 {
		t.Fatalf("there is no asset %s", name)
	}
	text, err := assets[i].text()
	if again, errAgain := assets[i].text(); err != nil || errAgain != nil || !bytes.Equal(text, again) {
		t.Fatalf("two texts of %s differ, or %v, %v", name, err, errAgain)
	}
	file := filepath.Join(t.TempDir(), assets[i].file)
	proxytest.WriteFile(t, file, text)
	return file
}

// outputOf runs a program that not every machine has.
func outputOf(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// completions are lines with what their last word is completed to. ONLY.FILE is a file in the working folder.
var completions = []struct {
	line string
	want []string
}{
	{"billbridge rollo", []string{"rollout"}},
	{"billbridge comp", nil}, // what the completion itself asks
	{"billbridge rollout re", []string{"report", "reset", "restored", "resume"}},
	{"billbridge rollout set --stage dr", []string{"drained"}},
	{"billbridge rollout set --par", []string{"--partner", "--partner-file"}},
	{"billbridge serve --con", []string{"--config"}},
	{"billbridge serve --config ONL", []string{"ONLY.FILE"}},
	{"billbridge serve --rate 1", nil},
	{"billbridge serve ONL", nil},
	{"billbridge store backup ONL", []string{"ONLY.FILE"}},
	{"billbridge sandbox --callback-r", []string{"--callback-retries"}},
	{"billbridge sandbox forward --p", []string{"--partner"}},
	{"billbridge assets sch", []string{"schema"}},
	{"billbridge assets part", []string{"partner-guide"}},
	{"billbridge assets partner-guide --lang", []string{"--language"}},
	{"billbridge assets comp", []string{"completion-bash", "compose"}},
	{"billbridge --ver", []string{"--version"}},
	{"billbridge bills list --admin-", []string{"--admin-ca"}},
}

// folderWithFile returns a folder with the file ONLY.FILE.
func folderWithFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	proxytest.WriteFile(t, filepath.Join(dir, "ONLY.FILE"), "")
	return dir
}

func wantCompletions(t *testing.T, line, output string, want []string) {
	t.Helper()
	got := strings.Fields(output)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q is completed to %q, want %q", line, got, want)
	}
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	file, dir := assetFile(t, "completion-bash"), folderWithFile(t)
	const script = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _billbridge; printf '%s\n' "${COMPREPLY[@]}"`
	for _, c := range completions {
		wantCompletions(t, c.line, outputOf(t, dir, "bash", slices.Concat([]string{"-c", script, file}, strings.Fields(c.line))...), c.want)
	}
	const inHome = `HOME=$(dirname "$(command -v "$1")"); set -- "~/$1" "${@:2}"; ` + script
	wantCompletions(t, "~/billbridge asset", outputOf(t, dir, "bash", "-c", inHome, file, "billbridge", "asset"), []string{"assets"})
	for _, words := range [][]string{{"--stage", "=", "dr"}, {"--partner", "abc", "--stage", "=", "dr"}} { // bash splits at =
		args := slices.Concat([]string{"-c", script, file, "billbridge", "rollout", "set"}, words)
		wantCompletions(t, strings.Join(words, " "), outputOf(t, dir, "bash", args...), []string{"drained"})
	}
}

// A flag that may be left out has the choice "", which no message lists: nobody gives it.
func TestNoMessageListsAnEmptyChoice(t *testing.T) {
	t.Parallel()
	m := model()
	optional := 0
	eachCommand(m.Node, m.Name, func(n *kong.Node, words string) {
		for _, f := range flagsOf(n) {
			if f.Enum == "" || !slices.Contains(f.EnumSlice(), "") {
				continue
			}
			optional++
			_, _, errs := runCommand(t, false, append(strings.Fields(words)[1:], "--"+f.Name, "no-such-choice")...)
			if strings.Contains(errs, `""`) || !strings.Contains(errs, "--"+f.Name+` must be one of "`) {
				t.Errorf("%s --%s: %s", words, f.Name, errs)
			}
		}
	})
	if optional < 5 {
		t.Errorf("only %d flags have such a choice", optional)
	}
}

// People find the command that they need among few: each one more is one more to know.
func TestCommandsAreFew(t *testing.T) {
	t.Parallel()
	var all []string
	eachCommand(model().Node, "", func(n *kong.Node, words string) {
		if len(n.Children) == 0 && !n.Hidden {
			all = append(all, strings.TrimSpace(words))
		}
	})
	if len(all) < 30 || len(all) > 42 {
		t.Errorf("%d commands: %q", len(all), all)
	}
}
