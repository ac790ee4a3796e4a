package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/operate"
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

// Callbacks that a partner refused are listed, shown, replayed and dropped.
func TestCallbacksCommands(t *testing.T) {
	t.Parallel()
	upstream, p, b := newCallbackUpstream(t, "v2"), newPartner(t), newCluster(t)
	p.setReaction(func(string, int) reaction { return refuse })
	// A callback is dead after one attempt.
	g := b.start(t, regexp.MustCompile(`schedule: .*`).ReplaceAllString(relayConfig(upstream, "sqlite:bridge.db", 20, "30s"), "schedule: [0s]"))
	bills := []string{"MINE0", "MINE1", "MINE2", "ELSE0", "ELSE1", "TWIN0", "TWIX0", "TWIX1"}
	client := b.client(t)
	b.createBills(t, client, p, bills)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, bill := range bills { // one after the other, for a known order
		if _, err := upstream.notify(ctx, client, bill); err != nil {
			t.Fatal(err)
		}
	}
	awaitNoneWaiting(t, g, len(bills))

	// does runs a command and matches its output with patterns; "" is no output.
	does := func(want int, out, errs string, args ...string) string {
		t.Helper()
		code, gotOut, gotErrs := runCommand(t, false, append([]string{"callbacks", args[0], "--admin", "http://" + g.operator}, args[1:]...)...)
		if code != want || !regexp.MustCompile("^(?:"+out+")$").MatchString(gotOut) || !regexp.MustCompile("^(?:"+errs+")$").MatchString(gotErrs) {
			t.Errorf("callbacks %s: exit code %d, want %d\nstdout: %s\nwant %s\nstderr: %s\nwant %s", args, code, want, gotOut, out, gotErrs, errs)
		}
		for _, secret := range []string{"canary", "k-1", "k-2", "appr_num", "N" + bills[0]} {
			if strings.Contains(gotOut+gotErrs, secret) {
				t.Errorf("callbacks %s shows %s:\n%s%s", args, secret, gotOut, gotErrs)
			}
		}
		return gotOut
	}
	listed := func(args ...string) (found []string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(does(exitOK, `(?s).*`, "", append([]string{"list", "--json"}, args...)...)), "\n")
		for _, line := range lines {
			if line == "" {
				continue
			}
			var l operate.Callback
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if p.ids[l.Bill] != l.ID {
				t.Errorf("%s is listed as %s, and came as %s", l.Bill, l.ID, p.ids[l.Bill])
			}
			found = append(found, l.Bill)
		}
		return found
	}
	lists := func(want []string, args ...string) {
		t.Helper()
		if got := listed(args...); !slices.Equal(got, want) {
			t.Errorf("callbacks list %s: %v, want %v", args, got, want)
		}
	}
	// afterwards waits until no callback is waiting, and checks which bills were delivered since the last time.
	taken := map[string]int{}
	afterwards := func(want ...string) {
		t.Helper()
		awaitNoneWaiting(t, g, len(bills))
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, bill := range bills {
			if got := p.accepted[bill] - taken[bill]; got != 0 && !slices.Contains(want, bill) || got != 1 && slices.Contains(want, bill) {
				t.Errorf("%s is delivered %d times more; to be delivered were %v", bill, got, want)
			}
			taken[bill] = p.accepted[bill]
		}
	}
	const (
		mine = "7c35c5a1785d"
		twin = "e36aa3131328"
	)

	// Newest first, with every filter, in pages, as a table and as JSON.
	latest := slices.Clone(bills)
	slices.Reverse(latest)
	lists(latest)
	lists(latest, "--limit", "0", "--state", "dead", "--upstream", "backend", "--since", "1h")
	lists(latest[:3], "--limit", "3")
	lists(nil, "--state", "delivered")
	lists(nil, "--since", "2100-01-01T00:00:00+09:00")
	lists(nil, "--until", "1h")
	lists([]string{"MINE2", "MINE1", "MINE0"}, "--partner", mine)
	lists([]string{"ELSE0"}, "--bill", "ELSE0")
	lists(nil, "--bill", "ELSE")
	lists([]string{"TWIN0"}, "--partner", twin+"0a4b") // more digits are unique
	const row = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)  dead   1         status 500  backend   `
	does(exitOK, `RECEIVED +STATE  ATTEMPTS  LAST        UPSTREAM  PARTNER +BILL +ID\n`+row+twin+`  TWIX1  cb_[0-9a-f]{32}\n`+row+twin+`  TWIX0  cb_[0-9a-f]{32}\n`,
		"", "list", "--limit", "2")
	does(exitError, "", `billbridge: the gateway refused the request \(400\): store: the partner's short hash fits more than one partner\n`, "list", "--partner", twin)

	// One callback. Its body and the query of the address are not printed.
	does(exitOK, `id        `+p.ids["MINE1"]+`\nreceived  .+\nfrom      backend\npartner   `+mine+`, in the legacy form\nbill      MINE1\n`+
		`address   `+p.url+`/paid/MINE1\nstate     dead\nattempts  1\nlast      .+, status 500\n`+
		`body      \d+ bytes, application/json; charset=utf-8, not shown; SHA-256 of the upstream's body: [0-9a-f]{64}\n`+
		`\nATTEMPT  ENDED  +TOOK +STATUS  CODE +RESULT\n1 +\S+  \d+\.\d{3}s  500 +\S+ +HTTP 500\n`, "", "show", p.ids["MINE1"])
	does(exitOK, `\{"id":"`+p.ids["MINE1"]+`",.*"state":"dead","attempts":1,.*\}\n`, "", "show", "--json", p.ids["MINE1"])

	// An ambiguous or too short partner is refused and changes nothing.
	p.setReaction(func(string, int) reaction { return accept })
	does(exitError, "", `billbridge: the gateway refused the request \(400\): .* fits more than one partner\n`, "replay", "--partner", twin)
	does(exitError, "", `billbridge: the gateway refused the request \(400\): .* fits more than one partner\n`, "drop", "--partner", twin)
	does(exitError, "", `billbridge: the gateway refused the request \(400\): .* 12 to 64 lower-case hex digits of the SHA-256 of its key\n`, "replay", "--partner", mine[:11])
	does(exitError, "", `billbridge: the gateway refused the request \(400\): .* 12 to 64 lower-case hex digits of the SHA-256 of its key\n`, "drop", "--partner", "MINE0")
	afterwards()
	lists(latest, "--state", "dead")

	// A dry run prints the number of callbacks.
	does(exitOK, `3 failed callbacks would be queued for delivery\.\n`, "", "replay", "--partner", mine, "--dry-run")
	does(exitOK, `1 failed callback would be dropped\.\n`, "", "drop", "--bill", "ELSE1", "--dry-run")
	does(exitOK, `1 callback would be dropped\.\n`, "", "drop", p.ids["ELSE0"], "--dry-run")
	does(exitOK, "AT  BY  ACTION  PARTNER  FROM  TO\n", "", "audit")
	afterwards()
	lists(latest, "--state", "dead")

	// By partner, by id (also a delivered one), and all.
	does(exitOK, `3 failed callbacks queued for delivery\.\n`, "", "replay", "--partner", mine, "--since", "1h")
	afterwards("MINE0", "MINE1", "MINE2")
	does(exitOK, `1 callback queued for delivery\.\n`, "", "replay", p.ids["MINE1"])
	afterwards("MINE1")
	does(exitOK, `1 callback queued for delivery\.\n`, "", "replay", p.ids["ELSE1"], "--force", "newer")
	afterwards("ELSE1")
	lists([]string{"ELSE1", "MINE2", "MINE1", "MINE0"}, "--state", "delivered")

	// The address of a callback for a lost one.
	does(exitUsage, "", `(?s).*the log names a lost address as new/8c21f6e0a94b, not "8c21".*`, "assign", "8c21", "--like", p.ids["MINE1"])
	does(exitUsage, "", `(?s).*a callback id is cb_ and 32 hex digits.*`, "assign", "backend/8c21f6e0a94b", "--like", "../counts")
	does(exitError, "", `billbridge: the gateway refused the request \(400\): .*the address must be .*\n`,
		"assign", "backend/8c21f6e0a94b", "--like", p.ids["MINE1"], "--url", "ftp://partner.example.com/")
	does(exitOK, `Callbacks to the lost address backend/8c21f6e0a94b are accepted when the backend sends them again\.\n`,
		"", "assign", "backend/8c21f6e0a94b", "--like", p.ids["MINE1"])
	does(exitOK, `AT +BY +ACTION +PARTNER +FROM +TO\n\S+  kim  address  `+mine+` +lost backend/8c21f6e0a94b to `+p.url+`/paid/MINE1 +- +-\n`,
		"", "audit", "--limit", "1")

	// A dropped callback cannot be replayed or dropped again.
	does(exitOK, `1 callback dropped\.\n`, "", "drop", p.ids["ELSE0"], "--by", "박")
	does(exitError, "", `billbridge: the gateway refused the request \(409\): .*`+p.ids["ELSE0"]+` is dropped, and can be dropped only if it is dead\n`, "drop", p.ids["ELSE0"], "--dry-run")
	does(exitOK, `AT +BY +ACTION +PARTNER +FROM +TO\n\S+  박 +drop +[0-9a-f]{12} `+p.ids["ELSE0"]+` +dead +dropped\n`+
		`\S+  kim +address  `+mine+` +lost .*\n\S+  kim +replay +[0-9a-f]{12} `+p.ids["ELSE1"]+` +dead +waiting\n\S+  kim +replay +`+mine+` `+p.ids["MINE1"]+` +delivered +waiting\n`+
		`\S+  kim +replay +`+mine+` 3 callbacks, since \S+ +dead +waiting\n`, "", "audit")
	does(exitOK, `\{"revision":\d+,"action":"drop","by":"박","at":"[^"]+","partner":"[0-9a-f]{12}","from":"dead","to":"dropped","subject":"`+p.ids["ELSE0"]+`"\}\n`, "", "audit", "--json", "--limit", "1")
	does(exitError, "", `billbridge: the gateway refused the request \(409\): .*`+p.ids["ELSE0"]+` is dropped, and can be dropped only if it is dead\n`, "drop", p.ids["ELSE0"])
	does(exitError, "", `billbridge: the gateway refused the request \(409\): .* is delivered, and can be dropped only if it is dead\n`, "drop", p.ids["ELSE1"])
	does(exitError, "", `billbridge: the gateway refused the request \(409\): .* is dropped, and can be replayed only if it is dead or delivered or superseded\n`, "replay", p.ids["ELSE0"])
	does(exitOK, `1 failed callback dropped\.\n`, "", "drop", "--bill", "TWIN0", "--partner", twin+"0a4b")
	lists([]string{"TWIN0", "ELSE0"}, "--state", "dropped")

	// On a terminal the progress is shown, and erased at the end.
	code, out, errs := runCommand(t, true, "callbacks", "replay", "--all", "--admin", "http://"+g.operator)
	if code != exitOK || out != "2 failed callbacks queued for delivery.\n" || errs != "\r0 of 2\r2 of 2\r\x1b[K" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	afterwards("TWIX0", "TWIX1")
	lists(nil, "--state", "dead")
	does(exitOK, `0 failed callbacks dropped\.\n`, "", "drop", "--all")
	terminate(t, b, g)
	does(exitError, "", `(?s)billbridge: cannot reach the gateway at .*\n`, "replay", "--all")
	if log := g.process.all("stderr"); strings.Contains(log, "canary") {
		t.Errorf("the log shows the partner's query:\n%s", log)
	}
	if _, err := os.Stat(filepath.Join(b.folder, "bridge.db")); err != nil {
		t.Error(err)
	}
}
