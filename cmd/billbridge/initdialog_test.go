package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"github.com/creack/pty"
)

// The examples of package config are what init writes, and a gateway starts with them. The tests of config validate them with the schema.
func TestInitWritesTheExamples(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"pass-through", "--new", "https://billing.example.com", "--form", "legacy"},
		{"translate", "--new", "https://v2.example.com/partner"},
		{"callbacks", "--new", "https://v2.example.com/partner", "--public-url", "https://bridge.example.com", "--store", "${env:BILLBRIDGE_STORE_URL}"},
		{"migration", "--old", "https://legacy.example.com", "--new", "https://v2.example.com/partner", "--public-url", "https://bridge.example.com", "--listen", ":8080"},
	} {
		file := filepath.Join(module, "config", "testdata", "good", "init-"+args[0]+".yaml")
		code, out, errs := runCommand(t, false, append([]string{"init", "--output", "-", "--case"}, args...)...)
		if code != exitOK || errs != "" {
			t.Fatalf("%q: %d %s", args, code, errs)
		}
		if *update {
			proxytest.WriteFile(t, file, out)
		}
		want := proxytest.ReadFile(t, file)
		equal(t, out, string(want), file)
		variable := func(string) (string, bool) { return "sqlite:billbridge.db", true }
		if _, err := config.Parse(translate.File{Name: file, Data: []byte(out)}, variable); err != nil {
			t.Errorf("billbridge would not start: %v", err)
		}
	}
}

// answering runs init with answers, as on a terminal.
func answering(t *testing.T, answers string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(t.Context(), append([]string{"init"}, args...), system{
		in: strings.NewReader(answers), out: &stdout, err: &stderr, terminal: true, dialog: true,
		env: func(string) (string, bool) { return "", false },
	})
	return code, stdout.String(), stderr.String()
}

// A wrong answer is followed by the reason and the same question. An empty answer is the default.
func TestInitAsksAgainAfterAWrongAnswer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "b.yaml")
	code, out, errs := answering(t, "everything\nmigration\n\nlegacy.example.com\nhttps://legacy.example.com\nhttps://u:pass-word@v2.example.com\nhttps://v2.example.com\n"+
		"https://bridge.example.com\npostgres://u:pass-word@db/x\nsqlite:\n\n0000\n\n9980\nCARD\nnone\ndrop\npass\n8080\n[::]:8080\n", "--output", file)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	rest := errs
	for _, want := range []string{ // in this order
		"migration     partners move",
		"Case: ", " [translate]: ", `must be one of pass-through, translate, callbacks, migration, but is "everything"`,
		"Case: ", "URL of the old backend (for example https://legacy.example.com): ", "a value is required",
		"URL of the old backend", "must be a URL such as",
		"URL of the old backend", "URL of the new backend", "must not carry a user or password",
		"URL of the new backend", "URL at which backends reach this gateway", "Store for callbacks", "[sqlite:billbridge.db]: ",
		"a PostgreSQL URL has a password, which must not be in the config",
		"Store for callbacks", "must be sqlite:PATH", "Store for callbacks",
		"if a bill id is used", "[BILL_001]: ", "cannot have a pair", "if a bill id is used", "if there is no such bill", "Words in appr_pay_type", "the pay types must be WORD=N",
		"Words in appr_pay_type", "What partners in v2 get", `must be one of null, pass, none, but is "drop"`, "What partners in v2 get",
		"Address and port for partners", "must be HOST:PORT", "Address and port for partners",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("init does not say %q after %q:\n%s", want, strings.TrimSuffix(errs, rest), errs)
		}
		rest = after
	}
	lacks(t, out+errs, "pass-word", out, errs)
	if !strings.Contains(out, file+" was written") || !strings.Contains(out, "billbridge rollout begin") {
		t.Errorf("init says %s", out)
	}
	c, err := config.Load(file, os.LookupEnv)
	must(t, err)
	got := []string{c.Listen, c.Upstreams.Find("old").Address.String(), c.Upstreams.Find("new").Address.String(), c.Callbacks.PublicURL.String(), c.Rollout.Default}
	equal(t, got,
		[]string{"[::]:8080", "https://legacy.example.com", "https://v2.example.com", "https://bridge.example.com", "old"})
}

// What a flag gives is not asked. A wrong flag is an error before the first question, with the name of the flag.
func TestInitAsksOnlyWhatNoFlagGives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, errs := answering(t, "\n", "--case", "translate", "--new", "https://v2.example.com", "--output", filepath.Join(dir, "a.yaml"))
	if code != exitOK || strings.Count(errs, ": ") != 1 || !strings.Contains(errs, "port for partners") {
		t.Errorf("%d %s", code, errs)
	}
	code, _, errs = answering(t, "", "--case", "migration", "--new", "https://v2.example.com?x=1", "--output", filepath.Join(dir, "b.yaml"))
	if code != exitUsage || !strings.HasPrefix(errs, "billbridge: --new: must not have a query") {
		t.Errorf("%d %s", code, errs)
	}
	code, _, errs = answering(t, "https://v2.example.com\n", "--case", "translate", "--output", filepath.Join(dir, "c.yaml"))
	if code != exitUsage || !strings.Contains(errs, "the input ended before --listen had a value") {
		t.Errorf("%d %s", code, errs)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files %v, %v", left, err)
	}
}

// Values that have a meaning in YAML are quoted.
func TestInitQuotesValues(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://a/#b", "http://a/ #b", "http://a/b: c", "http://a/{b}", `http://a/"b"`, "http://a/'", "http://a:", "http://a/,x]"} {
		file := filepath.Join(t.TempDir(), "b.yaml")
		code, _, errs := runCommand(t, false, "init", "--case", "translate", "--new", url, "--output", file)
		c, err := config.Load(file, os.LookupEnv)
		switch refused := strings.Contains(url, "#"); {
		case refused && (code != exitUsage || !strings.Contains(errs, "--new: must not have a query or a fragment")):
			t.Errorf("%s: %d %s", url, code, errs)
		case !refused && (code != exitOK || err != nil):
			t.Errorf("%s: %d %s %v", url, code, errs, err)
		case !refused && c.Upstreams[0].Form != "v2":
			t.Errorf("%s: %+v", url, c.Upstreams[0])
		}
	}
}

// On a real terminal the program asks, and Ctrl-C ends it without a file.
func TestInitOnATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		last string // answer
		want string
		code int
	}{{"\r", "billbridge.yaml was written", exitOK}, {"\x03", "before --listen had a value", exitUsage}} {
		cmd := exec.Command("billbridge", "init", "--new", "https://v2.example.com")
		cmd.Dir = t.TempDir()
		terminal, err := pty.Start(cmd)
		must(t, err)
		t.Cleanup(func() { _ = terminal.Close() })
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		output := bufio.NewReader(terminal)
		seen := ""
		until := func(text string) {
			for !strings.HasSuffix(seen, text) {
				b, err := output.ReadByte()
				if err != nil {
					t.Fatalf("no %q: %v\n%s", text, err, seen)
				}
				seen += string(b)
			}
		}
		until("[translate]: ")
		_, _ = terminal.WriteString("\r")
		until("[127.0.0.1:8080]: ")
		_, _ = terminal.WriteString(c.last)
		until(c.want)
		go func() { _, _ = output.WriteTo(&strings.Builder{}) }() // the program must not wait for its reader
		_ = cmd.Wait()
		equal(t, cmd.ProcessState.ExitCode(), c.code, seen)
		_, err = os.Stat(filepath.Join(cmd.Dir, "billbridge.yaml"))
		equal(t, err == nil, c.code == exitOK, c.last)
	}
}

// /dev/null is a device, and no terminal: nobody can answer there, and nothing is asked.
func TestInitAsksNobodyAtDevNull(t *testing.T) {
	t.Parallel()
	for code, args := range map[int][]string{exitUsage: {"init"}, exitOK: {"init", "--case", "translate", "--new", "https://v2.example.com"}} {
		cmd := exec.Command("billbridge", args...) // its input, output and errors are /dev/null
		cmd.Dir = t.TempDir()
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != code {
			t.Errorf("%q: %v, want exit code %d", args, err, code)
		}
	}
}

// What the old backend answers goes into an overlay beside the config: with it, partners in v2 get the codes and numbers of their form.
func TestInitWritesAnOverlayForTheOldBackend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	migration := []string{"init", "--case", "migration", "--old", "https://legacy.example.com", "--new", "https://v2.example.com", "--public-url", "https://bridge.example.com"}
	code, said, errs := runCommand(t, false, append(slices.Clone(migration), "--output", filepath.Join(dir, "billbridge.yaml"), "--used-code", "9800", "--no-bill-code", "9980", "--pay-types", "SIMPLE_PAY=0,CARD_VAN=1", "--other-pay-types", "null")...)
	equal(t, code, exitOK, errs)
	has(t, said, "billbridge-table.yaml was written")
	c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), func(string) (string, bool) { return "", false })
	must(t, err)
	equal(t, c.Table.Code("9800", "legacy", "v2")+c.Table.Code("9980", "legacy", "v2"), "BILL_001BILL_003")
	// Only the backend's operator knows whether replies have links.
	if warnings := c.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0].Text, "may have no link") {
		t.Errorf("warnings: %v", warnings)
	}
	for _, bad := range [][]string{{"--used-code", "0000"}, {"--pay-types", "CARD_VAN"}, {"--pay-types", "CARD_VAN=-1"}, {"--no-bill-code", "9980", "--output", "-"}} {
		if code, _, errs := runCommand(t, false, append(append(slices.Clone(migration), "--output", filepath.Join(dir, "x.yaml")), bad...)...); code == exitOK || !strings.Contains(errs, bad[0]) {
			t.Errorf("%q: %d %s", bad, code, errs)
		}
	}
}
