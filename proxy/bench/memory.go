package main

import (
	"context"
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

// A memoryLab is one gateway, of which the memory is measured.
type memoryLab struct {
	*lab
	gateway *process
	before  float64 // after its first call, in MiB
}

// newMemoryLab starts the gateway. The caller must call stop.
func newMemoryLab(ctx context.Context) (*memoryLab, error) {
	l, err := newLab(ctx, io.Discard)
	if err != nil {
		return nil, err
	}
	m := &memoryLab{lab: l}
	if err := m.startGateway(); err != nil {
		l.stop()
		return nil, err
	}
	return m, nil
}

func (m *memoryLab) startGateway() error {
	p, err := m.lab.gateway(m.billbridge, m.readConfig())
	if err != nil {
		return err
	}
	m.gateway = p
	if err := m.await(translated.of("billbridge", m.gateway), translated.answer); err != nil {
		return err
	}
	m.before, err = m.resident()
	return err
}

// resident returns the resident memory of the gateway in MiB.
func (m *memoryLab) resident() (float64, error) { return m.memory("VmRSS") }

// measureIdle opens connections, makes one call on each, keeps them open, and prints the memory of billbridge.
func measureIdle(ctx context.Context, connections int, out io.Writer) error {
	m, err := newMemoryLab(ctx)
	if err != nil {
		return err
	}
	defer m.stop()
	call := fmt.Sprintf("POST /if/bill/read HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", m.gateway.at, len(legacyCall), legacyCall)
	for i := range connections {
		c, err := net.Dial("tcp", m.gateway.at)
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
	after, err := m.resident()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "resident memory: %.0f MiB before, %.0f MiB with %d idle connections\n", m.before, after, connections)
	if connections < 1000 {
		return nil
	}
	const wait = 20 * time.Second // billbridge returns their memory after 15 s
	if err := m.sleep(wait); err != nil {
		return err
	}
	if after, err = m.resident(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%.0f MiB %s later\n", after, wait)
	return nil
}

// measureHalfSent opens connections, sends half of a body on each, and prints the memory of billbridge: the peak, and what is left after the
// connections are closed.
func measureHalfSent(ctx context.Context, connections int, out io.Writer) error {
	m, err := newMemoryLab(ctx)
	if err != nil {
		return err
	}
	defer m.stop()
	half := fmt.Sprintf("POST /if/bill/read HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", m.gateway.at, bodyLength) +
		strings.Repeat(" ", bodyLength/2)
	var open []net.Conn
	for i := range connections {
		c, err := net.Dial("tcp", m.gateway.at)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		open = append(open, c)
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, half) // an error: billbridge has refused it and closed the connection
	}
	peak, err := m.memory("VmHWM")
	if err != nil {
		return err
	}
	for _, c := range open {
		_ = c.Close()
	}
	fmt.Fprintf(out, "resident memory: %.0f MiB before, at most %.0f MiB with %d half-sent bodies\n", m.before, peak, connections)
	ended := time.Now()
	for limit := m.before + (peak-m.before)/4; ; {
		after, err := m.resident()
		if err != nil {
			return err
		}
		took := time.Since(ended)
		if after <= limit || peak-m.before < 20 { // of a small load there is nothing to return
			fmt.Fprintf(out, "%.0f MiB %.1f s after their end\n", after, took.Seconds())
			return nil
		}
		if took > time.Minute {
			return fmt.Errorf("%.0f MiB a minute after their end", after)
		}
		if err := m.sleep(100 * time.Millisecond); err != nil {
			return err
		}
	}
}

// memory returns a memory value of the gateway in MiB: VmRSS, or its peak VmHWM (proc(5)).
func (m *memoryLab) memory(name string) (float64, error) {
	pid := m.gateway.command.Process.Pid
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
