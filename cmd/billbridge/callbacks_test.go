package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// runCommand runs a command as main does.
func runCommand(t *testing.T, terminal bool, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(t.Context(), args, system{
		in: strings.NewReader(""), out: &stdout, err: &stderr, terminal: terminal,
		env: func(name string) (string, bool) {
			if name == "USER" {
				return "kim", true
			}
			return os.LookupEnv(name)
		},
	})
	return code, stdout.String(), stderr.String()
}

// volatile are the parts of an output that differ from run to run, and what stands for them.
var volatile = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d+\.\d{3}s`), "TOOK"},
	{regexp.MustCompile(`"took_seconds":[\d.]+`), `"took_seconds":TOOK`},
	{regexp.MustCompile(`\d+ bytes`), "SOME bytes"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "HASH"},
	{regexp.MustCompile(`"revision":\d+`), `"revision":N`},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(` +\n`), "\n"},
}

// Callbacks that a partner refused are listed, shown, replayed and dropped, as testdata/callbacks.txt shows. After $ is a command or audit, after
// % one on a terminal, and after > are the bills that were delivered since the last such line, with their numbers. The partner refuses
// until the first of them. {MINE0} is the id of the callback of the bill MINE0.
func TestCallbacksCommands(t *testing.T) {
	t.Parallel()
	upstream, p, b := newCallbackUpstream(t, "v2"), newPartner(t), newCluster(t)
	p.setReaction(func(string, int) reaction { return refuse })
	// A callback has failed after one attempt.
	g := b.start(t, regexp.MustCompile(`schedule: .*`).ReplaceAllString(relayConfig(upstream, "sqlite:bridge.db", 20, "30s"), "schedule: [0s]"))
	bills := []string{"MINE0", "MINE1", "MINE2", "ELSE0", "ELSE1", "TWIN0", "TWIX0", "TWIX1"}
	client := b.client(t)
	b.createBills(t, client, p, bills)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, bill := range bills { // one after the other, for a known order
		must(t, upstream.notify(ctx, client, bill))
	}
	awaitNoneWaiting(t, g, len(bills))
	var names, ids []string
	for bill, id := range p.ids {
		names, ids = append(names, "{"+bill+"}", id), append(ids, id, "{"+bill+"}")
	}
	shown := strings.NewReplacer(append(ids, p.url, "PARTNER", g.operator, "GATEWAY", "\r", `\r`, "\x1b", `\e`)...)
	taken := map[string]int{}
	file := filepath.Join("testdata", "callbacks.txt")
	want := string(proxytest.ReadFile(t, file))
	var got strings.Builder
	before := ""
	for line := range strings.Lines(want) {
		mark, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch mark {
		case "#":
			got.WriteString("\n" + line)
			before = ""
		case "$", "%":
			args := strings.Fields(strings.NewReplacer(names...).Replace(rest))
			if args[0] != "audit" {
				args = append([]string{"callbacks"}, args...)
			}
			code, out, errs := runCommand(t, mark == "%", append(args, "--admin", "http://"+g.operator)...)
			text := shown.Replace(out + errs)
			for _, v := range volatile {
				text = v.is.ReplaceAllString(text, v.as)
			}
			fmt.Fprintf(&got, "%s%sexit code %d\n%s", before, line, code, text)
			before = "\n"
			for _, secret := range []string{"canary", "k-1", "k-2", "appr_num", "N" + bills[0]} {
				lacks(t, out+errs, secret, rest, out, errs)
			}
		case ">":
			awaitNoneWaiting(t, g, len(bills))
			p.mu.Lock()
			got.WriteString("\n>")
			for _, bill := range bills {
				if n := p.accepted[bill] - taken[bill]; n > 0 {
					fmt.Fprintf(&got, " %s %d", bill, n)
				}
				taken[bill] = p.accepted[bill]
			}
			p.mu.Unlock()
			got.WriteString("\n")
			p.setReaction(func(string, int) reaction { return accept })
		}
	}
	if *update {
		proxytest.WriteFile(t, file, strings.TrimPrefix(got.String(), "\n"))
	}
	equal(t, strings.TrimSpace(got.String()), strings.TrimSpace(want), file)
	terminate(t, b, g)
	lacks(t, g.process.all("stderr"), "canary", "the log shows the partner's query")
}
