package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
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
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		proxytest.Eventually(t, func() bool {
			c, err := net.Dial("tcp", host+":8080")
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}, func() string { return p.all("stdout", "stderr") })
		s.rows = append(s.rows, s.callBack(t, p, c[0], "http://"+g.partners, "http://"+host+":8080/paid"))
	}
}

// callBack pays bills whose callbacks go to a receiver.
func (s *stackTrial) callBack(t *testing.T, p *process, name, gateway, address string) stackRow {
	r := stackRow{stack: name, scenario: "callbacks", bills: map[string]bool{}}
	for range 20 {
		bill := s.newBill()
		body := operationBody("legacy", "create", billRef{trialKey, bill}, "m", false)
		body, err := sjson.Set(body, "bill.callbackURL", address)
		if err != nil {
			t.Fatal(err)
		}
		_, answer := httpCall(t, http.MethodPost, gateway+operationPath("legacy", "create"), body)
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
		received[line["bill"]]++
	}
	for _, n := range received {
		r.calls++
		if n > 1 {
			r.repeated++
		}
	}
	return r
}
