package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The commands in README.md run and print a measurement. The test runs them with minimal load.
func TestReadmeBenchmarksRun(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	const load, idle = "go run ./proxy/bench", "go run ./proxy/bench -idle "
	const halfSent = "go run ./proxy/bench -half-sent "
	ran := map[string]bool{}
	for _, m := range regexp.MustCompile("`(go (?:test|run) [^`]+)`").FindAllSubmatch(readme, -1) {
		command := string(m[1])
		measurement, _, _ := strings.Cut(command, " -benchtime ")
		if ran[measurement] {
			continue
		}
		ran[measurement] = true
		t.Run(measurement, func(t *testing.T) {
			t.Parallel()
			shows, fails := "", false
			switch {
			case strings.HasPrefix(command, "go test "):
				command, shows = measurement+" -benchtime 1x", `(?m)^Benchmark\w+.* ns/op`
			case strings.HasPrefix(command, idle):
				command, shows = idle+"20", `^resident memory: \d+ MiB before, \d+ MiB with 20 idle connections\n$`
			case strings.HasPrefix(command, halfSent):
				command, shows = halfSent+"20", `^resident memory: \d+ MiB before, at most \d+ MiB with 20 half-sent bodies\n\d+ MiB \d+\.\d s after their end\n$`
			case strings.HasPrefix(command, load+" -ledger"):
				// The load takes minutes: TestWritesAreAccepted runs their parts. Here only the flags are checked.
				command, shows, fails = command+" -connections -1", `and -1\n`, true
			case command == load:
				command, shows = load+" -rounds 1 -seconds 1 -connections 2", `(?m)^\| billbridge: translated, logged, counted +\| .*\| +\d+\.\d\d \|$`
				if _, err := exec.LookPath("wrk"); err != nil {
					t.Skip(err)
				}
			default:
				t.Fatal("unknown command: add how to run it with minimal load")
			}
			shell := exec.Command("sh", "-c", command)
			shell.Dir = "../.."
			if out, err := shell.CombinedOutput(); (err != nil) != fails || !regexp.MustCompile(shows).Match(out) {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		})
	}
	if len(ran) < 8 {
		t.Errorf("%d commands were found: too few", len(ran))
	}
}
