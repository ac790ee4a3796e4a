package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/tidwall/sjson"
)

// callbacks delivers callbacks of payments to receivers.
func (s *stackTrial) callbacks(t *testing.T) {
	at := s.address(4, 8080)
	g := s.serve(t, at, `store: {url: "sqlite:billbridge.db"}`,
		"callbacks: {public_url: \"http://"+at+"\", allow: [127.0.0.0/8], ports: []}")
	folder := stackFolder(t)
	for i, c := range [][]string{
		{"Java", "java", folder + "/Receiver.java", "HOST", "PORT"},
		{"PHP", "php", "-S", "HOST:PORT", folder + "/receiver.php"},
		{"Node", "node", folder + "/receiver.js", "HOST", "PORT"},
		{"Python", "/usr/bin/python3", folder + "/receiver.py", "HOST", "PORT"},
	} {
		if _, err := exec.LookPath(c[1]); err != nil {
			t.Logf("callbacks: not tested with %s, since %s is missing", c[0], c[1])
			continue
		}
		host := fmt.Sprint(s.network, 5+i)
		for n := range c {
			c[n] = strings.NewReplacer("HOST", host, "PORT", "8080").Replace(c[n])
		}
		p, err := launch(s.folder, c[1], c[2:]...)
		must(t, err)
		t.Cleanup(p.kill)
		proxytest.Eventually(t, func() bool {
			c, err := net.Dial("tcp", host+":8080")
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}, func() string { return p.all("stdout", "stderr") })
		s.rows = append(s.rows, s.callBack(t, g, p, c[0], "http://"+host+":8080/paid"))
	}
}

// callBack pays bills whose callbacks go to a receiver. Calls are attempts of the gateway.
func (s *stackTrial) callBack(t *testing.T, g *gateway, p *process, name, address string) stackRow {
	t.Helper()
	r := stackRow{stack: name, scenario: "callbacks", bills: map[string]bool{}}
	deliveredBefore, failedBefore := attempts(t, g)
	for range 20 {
		bill := s.newBill()
		body := operationBody("legacy", "create", billRef{trialKey, bill}, "m", false)
		body, err := sjson.Set(body, "bill.callbackURL", address)
		must(t, err)
		_, answer := httpCall(t, http.MethodPost, "http://"+g.partners+operationPath("legacy", "create"), body)
		if err := s.backend.Pay(trialKey, bill); err != nil {
			t.Fatal(err, answer)
		}
		r.bills[bill] = true
	}
	received := map[string]int{}
	for len(received) < len(r.bills) {
		line, err := p.await("stdout", `"bill_id":"(?P<bill>[^"]+)"`)
		if err != nil {
			t.Fatalf("callbacks, %s: %v", name, err)
		}
		if received[line["bill"]]++; received[line["bill"]] == 2 {
			r.repeated++
		}
	}
	proxytest.Eventually(t, func() bool {
		delivered, failed := attempts(t, g)
		r.errors = failed - failedBefore
		r.calls = delivered - deliveredBefore + r.errors
		return delivered-deliveredBefore == len(r.bills)
	}, func() string {
		return fmt.Sprintf("%s: %d attempts to deliver callbacks, %d failed", name, r.calls, r.errors)
	})
	return r
}

var attemptsLine = regexp.MustCompile(`(?m)^billbridge_callbacks_attempts_total\{outcome="([a-z_]+)".*\} (\d+)$`)

// attempts returns how many attempts to deliver callbacks a gateway has made.
func attempts(t *testing.T, g *gateway) (delivered, failed int) {
	t.Helper()
	_, metrics := httpCall(t, http.MethodGet, "http://"+g.operator+"/metrics", "")
	for _, line := range attemptsLine.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.Atoi(line[2])
		must(t, err)
		if line[1] == "delivered" {
			delivered += n
		} else {
			failed += n
		}
	}
	return delivered, failed
}
