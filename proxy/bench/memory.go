package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// bodyLength is the length that a half-sent body announces: the default of limits.body.
const bodyLength = 1 << 20

// startAndMeasure starts the processes, and returns the memory of billbridge after its first call. If err is nil, the caller must stop them.
func startAndMeasure() (p *processes, before float64, err error) {
	if p, err = start(); err != nil {
		return nil, 0, err
	}
	s := &subject{name: "billbridge", url: "http://" + p.billbridgeAt + "/if/bill/read", body: legacyCall, pid: p.billbridge}
	if err = s.prepare(p.dir); err == nil {
		before, err = residentMiB(p.billbridge)
	}
	if err != nil {
		p.stopAndWaitForAll()
	}
	return p, before, err
}

// measureIdle opens connections, makes one call on each, keeps them open, and prints the memory of billbridge.
func measureIdle(connections int) error {
	p, before, err := startAndMeasure()
	if err != nil {
		return err
	}
	defer p.stopAndWaitForAll()
	call := fmt.Sprintf("POST /if/bill/read HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.billbridgeAt, len(legacyCall), legacyCall)
	for i := range connections {
		c, err := net.Dial("tcp", p.billbridgeAt)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, call); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	after, err := residentMiB(p.billbridge)
	if err != nil {
		return err
	}
	fmt.Printf("resident memory: %.0f MiB before, %.0f MiB with %d idle connections\n", before, after, connections)
	if connections < 1000 {
		return nil
	}
	const wait = 20 * time.Second // billbridge returns their memory after 15 s
	time.Sleep(wait)
	if after, err = residentMiB(p.billbridge); err != nil {
		return err
	}
	fmt.Printf("%.0f MiB %s later\n", after, wait)
	return nil
}

// measureHalfSent opens connections, sends half of a body on each, and prints the memory of billbridge: the peak, and what is left after the
// connections are closed.
func measureHalfSent(connections int) error {
	p, before, err := startAndMeasure()
	if err != nil {
		return err
	}
	defer p.stopAndWaitForAll()
	half := fmt.Sprintf("POST /if/bill/read HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", p.billbridgeAt, bodyLength) +
		strings.Repeat(" ", bodyLength/2)
	var open []net.Conn
	for i := range connections {
		c, err := net.Dial("tcp", p.billbridgeAt)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		open = append(open, c)
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, half) // an error: billbridge has refused it and closed the connection
	}
	peak, err := memoryMiB(p.billbridge, "VmHWM")
	if err != nil {
		return err
	}
	for _, c := range open {
		_ = c.Close()
	}
	fmt.Printf("resident memory: %.0f MiB before, at most %.0f MiB with %d half-sent bodies\n", before, peak, connections)
	ended := time.Now()
	for limit := before + (peak-before)/4; ; time.Sleep(100 * time.Millisecond) {
		after, err := residentMiB(p.billbridge)
		if err != nil {
			return err
		}
		took := time.Since(ended)
		if after <= limit || peak-before < 20 { // of a small load there is nothing to return
			fmt.Printf("%.0f MiB %.1f s after their end\n", after, took.Seconds())
			return nil
		}
		if took > time.Minute {
			return fmt.Errorf("%.0f MiB a minute after their end", after)
		}
	}
}

// residentMiB returns the resident memory of a process in MiB.
func residentMiB(pid int) (float64, error) { return memoryMiB(pid, "VmRSS") }

// memoryMiB returns a memory value of a process in MiB: VmRSS, or its peak VmHWM (proc(5)).
func memoryMiB(pid int, name string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		return 0, errors.New("/proc/" + strconv.Itoa(pid) + "/status has no " + name)
	}
	kib, err := strconv.ParseFloat(string(match[1]), 64)
	return kib / 1024, err
}
