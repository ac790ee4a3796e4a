package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// A load is what wrk measured.
type load struct {
	calls     int
	perSecond float64
	p99       time.Duration
}

// runWrk makes calls for a time. The script gets number as its argument.
func runWrk(ctx context.Context, script, url string, seconds, connections, number int) (load, error) {
	// Calls that take long are a result, not a failure: so the timeout is long.
	wrk := exec.CommandContext(ctx, "wrk", "--latency", "--timeout", "30s", "-t", "1", "-c", strconv.Itoa(connections),
		"-d", strconv.Itoa(seconds)+"s", "-s", script, url, "--", strconv.Itoa(number))
	out, err := wrk.CombinedOutput()
	if ctx.Err() != nil { // wrk ends without an error after Ctrl-C
		return load{}, ctx.Err()
	}
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parseWrk(out)
}

var (
	callsLine  = regexp.MustCompile(`(?m)^\s*(\d+) requests in`)
	rateLine   = regexp.MustCompile(`(?m)^Requests/sec:\s+([\d.]+)`)
	p99Line    = regexp.MustCompile(`(?m)^\s*99%\s+([\d.]+)(us|ms|s|m|h)\s*$`)
	failedLine = regexp.MustCompile(`(?m)^\s*((?:Socket errors|Non-2xx).*)$`)
)

// parseWrk reads the output of wrk. If calls failed, it returns the line about them as the error.
func parseWrk(out []byte) (load, error) {
	if line := failedLine.FindSubmatch(out); line != nil {
		return load{}, errors.New(string(line[1]))
	}
	calls, rate, p99 := callsLine.FindSubmatch(out), rateLine.FindSubmatch(out), p99Line.FindSubmatch(out)
	if calls == nil || rate == nil || p99 == nil {
		return load{}, fmt.Errorf("the number of requests, the rate or the latency is missing in the output of wrk:\n%s", out)
	}
	var l load
	var err1, err2, err3 error
	l.calls, err1 = strconv.Atoi(string(calls[1]))
	l.perSecond, err2 = strconv.ParseFloat(string(rate[1]), 64)
	l.p99, err3 = time.ParseDuration(string(p99[1]) + string(p99[2]))
	if l.calls == 0 {
		return load{}, errors.New("no call had an answer")
	}
	return l, errors.Join(err1, err2, err3)
}
