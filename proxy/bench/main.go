// Command bench compares the CPU time of billbridge with that of httputil.ReverseProxy, or measures the memory of
// idle connections or of bodies that are only half sent.
//
//	go run ./proxy/bench [-rounds 5] [-seconds 5] [-connections 64]
//	go run ./proxy/bench -idle 10000
//	go run ./proxy/bench -half-sent 2000
//
// The first form sends bill reads to three processes in front of one v2 backend: billbridge, which translates them
// from legacy; ReverseProxy with the default transport; and ReverseProxy with a transport that keeps as many idle
// connections as billbridge does. The two ReverseProxy processes translate, log, count and limit nothing.
// The processes are measured in turn, so that a change in the speed of the machine affects all of them.
// The CPU time is user and system time of the whole process.
//
// The command needs Linux, for /proc, and its first form needs wrk.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	v2Call     = `{"apiKey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"billId":"12345678901234567890"}}`
	legacyCall = `{"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill_id":"12345678901234567890"}`
	v2Answer   = `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"demo-partner-key","billId":"12345678901234567890","catId":"1234567890","apprPayType":0,"apprCardType":"신용","apprDt":20261121093015,"apprOriginDt":20261121093015,"apprPrice":"50000","apprIssuer":"신한카드","apprIssuerCd":"06","apprIssuerNum":"123456******1234","apprAcquirerCd":"06","apprAcquirerNm":"신한카드사","apprNum":"30012345","apprOriginNum":"30012345","apprResCd":"0000","apprMonthly":"00","apprState":"F","apprCashNum":"","apprCashTrader":"","apprCashIssuanceNumber":"","apprCardMerchantNum":"00951234567","dscTxNum":"20261121000001","cardType":"01","apprSign":"","udItem":null}}`
)

func main() {
	rounds := flag.Int("rounds", 5, "number of measurements of each process")
	seconds := flag.Int("seconds", 5, "duration of one measurement")
	connections := flag.Int("connections", 64, "number of connections that wrk opens")
	idle := flag.Int("idle", 0, "measure memory instead: open this many connections, make one call on each, and keep them open")
	halfSent := flag.Int("half-sent", 0, "measure memory instead: open this many connections, and send half of a body of 1 MiB on each")
	role := flag.String("role", "", "internal: the command starts itself in the roles backend, default and tuned")
	at := flag.String("at", "", "internal: the address on which a role listens")
	to := flag.String("to", "", "internal: the address of the backend")
	flag.Parse()
	var err error
	switch {
	case *idle > 0:
		err = measureIdle(*idle)
	case *halfSent > 0:
		err = measureHalfSent(*halfSent)
	case *role == "backend":
		err = backend(*at)
	case *role == "default":
		err = reverseProxy(*at, *to, nil)
	case *role == "tuned":
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 256
		err = reverseProxy(*at, *to, transport)
	default:
		err = measure(*rounds, *seconds, *connections)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// backend answers every call with the same read reply.
func backend(at string) error {
	answer := []byte(v2Answer)
	return http.ListenAndServe(at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(answer)
	}))
}

// reverseProxy serves the standard library's reverse proxy, the baseline of the comparison.
func reverseProxy(at, to string, transport http.RoundTripper) error {
	target := &url.URL{Scheme: "http", Host: to}
	return http.ListenAndServe(at, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0), // wrk closes its connections in the middle of a call when its time is up
	})
}

// processes are the backend and the processes that are measured.
type processes struct {
	ctx                                  context.Context
	dir                                  string
	billbridge, defaultProxy, tunedProxy int    // process ids
	billbridgeAt, defaultAt, tunedAt     string // addresses
	stopAndWaitForAll                    func()
}

// freeAddresses returns n addresses on which nothing listens.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // after all are open, so that they differ
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}

// start builds billbridge, starts it, and starts this program in each of its roles.
func start() (*processes, error) {
	at, err := freeAddresses(5)
	if err != nil {
		return nil, err
	}
	backendAt, adminAt := at[0], at[1]
	dir, err := os.MkdirTemp("", "billbridge-bench")
	if err != nil {
		return nil, err
	}
	binary, configFile := filepath.Join(dir, "billbridge"), filepath.Join(dir, "config.yaml")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/billbridge").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	config := fmt.Sprintf("listen: %s\nadmin: {listen: %s}\nupstreams: {new: {form: v2, url: http://%s}}\n"+
		"limits: {connections: 100000, address_connections: 100000, partner: {in_flight: 0}}\n", at[2], adminAt, backendAt)
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	var started []*exec.Cmd
	p := &processes{ctx: ctx, dir: dir, billbridgeAt: at[2], defaultAt: at[3], tunedAt: at[4], stopAndWaitForAll: func() {
		stop()
		for _, c := range started {
			_ = c.Wait()
		}
		_ = os.RemoveAll(dir)
	}}
	for _, args := range [][]string{
		{self, "-role", "backend", "-at", backendAt},
		{self, "-role", "default", "-at", p.defaultAt, "-to", backendAt},
		{self, "-role", "tuned", "-at", p.tunedAt, "-to", backendAt},
		{binary, "serve", "--config", configFile},
	} {
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		if err := c.Start(); err != nil {
			p.stopAndWaitForAll()
			return nil, err
		}
		started = append(started, c)
	}
	p.defaultProxy, p.tunedProxy, p.billbridge = started[1].Process.Pid, started[2].Process.Pid, started[3].Process.Pid
	return p, nil
}

// measure prints the CPU time of one call in each process, and the ratios.
func measure(rounds, seconds, connections int) error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is not installed: install the Debian package wrk")
	}
	p, err := start()
	if err != nil {
		return err
	}
	defer p.stopAndWaitForAll()
	ctx, dir := p.ctx, p.dir
	subjects := []*subject{
		{name: "billbridge", url: "http://" + p.billbridgeAt + "/if/bill/read", body: legacyCall, pid: p.billbridge},
		{name: "ReverseProxy, default", url: "http://" + p.defaultAt + "/bill/read", body: v2Call, pid: p.defaultProxy},
		{name: "ReverseProxy, 256 idle", url: "http://" + p.tunedAt + "/bill/read", body: v2Call, pid: p.tunedProxy},
	}
	for _, s := range subjects {
		if err := s.prepare(dir); err != nil {
			return err
		}
		if _, err := s.run(ctx, 1, connections); err != nil { // warm-up
			return err
		}
	}
	ratios := map[string][]float64{}
	fmt.Printf("%-6s %-24s %10s %14s\n", "round", "process", "calls/s", "CPU µs/call")
	for round := 1; round <= rounds; round++ {
		var ours float64
		for i, s := range subjects {
			r, err := s.run(ctx, seconds, connections)
			if err != nil {
				return err
			}
			cost := r.cpu / r.calls * 1e6
			fmt.Printf("%-6d %-24s %10.0f %14.1f\n", round, s.name, r.calls/float64(seconds), cost)
			if i == 0 {
				ours = cost
				continue
			}
			ratios[s.name] = append(ratios[s.name], ours/cost)
		}
	}
	fmt.Println("\nCPU time of a read in billbridge, divided by that in")
	for _, s := range subjects[1:] {
		r := ratios[s.name]
		slices.Sort(r)
		fmt.Printf("  %s: min %.2f, median %.2f, max %.2f\n", s.name, r[0], r[len(r)/2], r[len(r)-1])
	}
	return nil
}

// A subject is one process that is measured.
type subject struct {
	name, url, body, script string
	pid                     int
}

type result struct{ calls, cpu float64 }

// prepare writes the wrk script and waits until the process answers.
func (s *subject) prepare(dir string) error {
	s.script = filepath.Join(dir, strconv.Itoa(s.pid)+".lua")
	lua := "wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.body = " + strconv.Quote(s.body) + "\n"
	if err := os.WriteFile(s.script, []byte(lua), 0o600); err != nil {
		return err
	}
	var last error
	for range 100 {
		response, err := http.Post(s.url, "application/json", strings.NewReader(s.body))
		if err != nil {
			last = err
			time.Sleep(50 * time.Millisecond)
			continue
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil && response.StatusCode == http.StatusOK && bytes.Contains(answer, []byte("30012345")) {
			return nil
		}
		last = fmt.Errorf("%s answered %s: %s", s.name, response.Status, answer)
		time.Sleep(50 * time.Millisecond)
	}
	return last
}

var (
	callsLine  = regexp.MustCompile(`(\d+) requests in`)
	failedLine = regexp.MustCompile(`(?m)^\s*(Socket errors|Non-2xx).*$`)
)

func (s *subject) run(ctx context.Context, seconds, connections int) (result, error) {
	before, err := cpuSeconds(s.pid)
	if err != nil {
		return result{}, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t", "1", "-c", strconv.Itoa(connections), "-d", fmt.Sprintf("%ds", seconds), "-s", s.script, s.url).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	after, err := cpuSeconds(s.pid)
	if err != nil {
		return result{}, err
	}
	if line := failedLine.Find(out); line != nil {
		return result{}, fmt.Errorf("%s: %s", s.name, line)
	}
	match := callsLine.FindSubmatch(out)
	if match == nil {
		return result{}, fmt.Errorf("no number of requests in the output of wrk:\n%s", out)
	}
	calls, err := strconv.ParseFloat(string(match[1]), 64)
	return result{calls, after - before}, err
}

// cpuSeconds returns the user and system time that a process has used (proc(5): fields 14 and 15, in ticks of 10 ms).
func cpuSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err1, err2)
}
