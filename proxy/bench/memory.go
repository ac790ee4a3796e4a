package main

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// bodyLength is the length that a half-sent body announces: the default of limits.body.
const bodyLength = 1 << 20

// memory returns a memory value of a process in MiB: VmRSS, or its peak VmHWM.
func (p *process) memory(name string) float64 {
	match := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB`).FindSubmatch(p.proc("status"))
	return get(strconv.ParseFloat(string(match[1]), 64)) / 1024
}

// connected starts a gateway and opens connections that begin with the same bytes. It returns the memory before.
func (l *lab) connected(n int, bodyLength int, body string) (gateway *process, open []net.Conn, before float64) {
	gateway = l.gateway(l.readConfig())
	l.await(translated.of("billbridge", gateway), translated.answer)
	before = gateway.memory("VmRSS")
	for range n {
		c := get(net.Dial("tcp", gateway.at))
		open = append(open, c)
		must(c.SetWriteDeadline(time.Now().Add(5 * time.Second)))
		// An error: billbridge has refused the connection and closed it, which shows in what is read.
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "+
			"%d\r\n\r\n%s",
			translated.path, gateway.at, bodyLength, body)
	}
	return gateway, open, before
}

// measureIdle opens connections, makes one call on each, keeps them open, and prints the memory of billbridge.
func (l *lab) measureIdle(n int, out io.Writer) {
	gateway, open, before := l.connected(n, len(legacyCall), legacyCall)
	for _, c := range open {
		get(c.Read(make([]byte, 4096)))
	}
	fmt.Fprintf(out, "resident memory: %.0f MiB before, %.0f MiB with %d idle connections\n",
		before, gateway.memory("VmRSS"), n)
	if n < 1000 {
		return
	}
	const wait = 20 * time.Second // billbridge returns their memory after 15 s
	time.Sleep(wait)
	fmt.Fprintf(out, "%.0f MiB %s later\n", gateway.memory("VmRSS"), wait)
	for _, c := range open {
		_ = c.Close()
	}
}

// measureHalfSent opens connections, sends half of a body on each, and prints the memory of billbridge: the peak, and
// what is left after the connections are closed.
func (l *lab) measureHalfSent(n int, out io.Writer) {
	gateway, open, before := l.connected(n, bodyLength, strings.Repeat(" ", bodyLength/2))
	peak := gateway.memory("VmHWM")
	for _, c := range open {
		_ = c.Close()
	}
	fmt.Fprintf(out, "resident memory: %.0f MiB before, at most %.0f MiB with %d half-sent bodies\n", before, peak, n)
	ended := time.Now()
	must(l.until(func() error {
		after := gateway.memory("VmRSS")
		if after > before+(peak-before)/4 && peak-before >= 20 { // of a small load there is nothing to return
			return fmt.Errorf("%.0f MiB a minute after their end", after)
		}
		fmt.Fprintf(out, "%.0f MiB %.1f s after their end\n", after, time.Since(ended).Seconds())
		return nil
	}))
}
