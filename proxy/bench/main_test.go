package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The test binary takes the roles of the command, because the command starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "role" {
		if err := role(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"": 64, "-ledger": 32, "-connections 5": 5} {
		if o, err := parse(strings.Fields(args), io.Discard); err != nil || o.connections != want {
			t.Errorf("%q: connections %d, %v, want %d", args, o.connections, err, want)
		}
	}
	for args, want := range map[string]string{
		"-rounds 0": "-rounds, -seconds and -connections must be at least 1, but are 0, 5 and 0",
		"more":      `there are no arguments, but "more" was given; -h lists the flags`,
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", args, err, want)
		}
	}
}

// Every gateway with a store answers as it should, and wrk's calls are accepted: creates in each stage, and callbacks. There is no
// load, and no time is compared.
func TestWritesAreAccepted(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip(err)
	}
	l, err := newLab(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer l.stop()
	subjects, err := l.writes("")
	if err != nil {
		t.Fatal(err)
	}
	if len(subjects) != 8 {
		t.Errorf("%d subjects, want 8", len(subjects))
	}
	if !proxytest.Long() { // one of them shows that the command works
		subjects = slices.DeleteFunc(subjects, func(s *subject) bool { return s.name != "create, stage drained, SQLite" })
	}
	if err := l.prepare(subjects); err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects {
		if s.process == nil {
			t.Logf("not measured: %s. %s", s.name, s.missing)
			continue
		}
		if !strings.HasSuffix(s.name, "SQLite") {
			continue
		}
		r, err := l.once(s, 1, 2)
		if err != nil {
			t.Error(err)
			continue
		}
		// Each create has another id, so that the ledger has as many bills.
		if strings.HasPrefix(s.name, "create") {
			list := exec.Command(l.billbridge, "bills", "list", "--json", "--limit", "10000", "--admin", "http://"+s.process.admin)
			bills, err := list.Output()
			if n := bytes.Count(bills, []byte("\n")); err != nil || n < min(r.calls, 10000) {
				t.Errorf("%s: the ledger has %d bills after %d calls: %v", s.name, n, r.calls, err)
			}
		}
	}
}

// If the run is ended, its processes end and its files are removed.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	ctx, interrupt := context.WithCancel(t.Context())
	l, err := newLab(ctx, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := l.reads("")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.prepare(reads); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if _, err := l.measure(reads, options{rounds: 1, seconds: 60, connections: 1}); err == nil {
		t.Error("the run went on")
	}
	l.stop()
	if _, err := os.Stat(l.dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want that it was removed", l.dir, err)
	}
	for _, p := range l.started {
		if p.command.ProcessState == nil {
			t.Errorf("%s still runs", p.command)
		}
	}
}
