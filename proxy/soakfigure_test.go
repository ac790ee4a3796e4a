package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"billbridge/proxy/proxytest"
)

// A soakFigure is what a process holds.
type soakFigure struct {
	goroutines, files, series int
	heap                      uint64
}

// soakStoreFiles is how many descriptors more the store may have: it opens connections for reading when many read at
// the same time, and keeps them.
const soakStoreFiles = 16

func (f soakFigure) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d KiB of heap, %d series", f.goroutines, f.files, f.heap>>10, f.series)
}

// measure closes what is idle and reads the figures.
func (s *soak) measure() (f soakFigure) {
	s.reload(s.loads[0])
	s.reload(s.quiet)
	idle := []func(){s.partner.server.CloseClientConnections, s.old.client.CloseIdleConnections, s.next.client.CloseIdleConnections, http.DefaultClient.CloseIdleConnections}
	if *soakFor < 30*time.Second {
		// A call that ends after a reload leaves its connection idle for 30 s. A short run does not wait for that.
		idle = append(idle, s.old.server.CloseClientConnections, s.next.server.CloseClientConnections)
	}
	for _, end := range idle {
		end()
	}
	response, err := http.Get("http://" + s.gateway.AdminAddress() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "billbridge_") {
			f.series++
		}
		_, _ = fmt.Sscanf(line, "process_open_fds %d", &f.files)
		// The series of callbacks stay: some of a removed upstream may wait to be delivered.
		if strings.Contains(line, `upstream="extra"`) && !strings.HasPrefix(line, "billbridge_callbacks_") {
			s.t.Errorf("a series of an upstream that is gone: %s", line)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.goroutines, f.heap = runtime.NumGoroutine(), m.HeapAlloc
	return f
}

// await looks until something is so, and says what is not.
func (s *soak) await(what func() string) {
	s.t.Helper()
	proxytest.Eventually(s.t, func() bool { return what() == "" }, what)
}

// settle waits until every callback is delivered and nothing of the load runs any more, and measures.
func (s *soak) settle(notAbove *soakFigure) (f soakFigure) {
	s.t.Helper()
	s.old.paying.Wait()
	s.next.paying.Wait()
	s.await(func() string {
		for _, b := range []*soakBook{s.old, s.next} {
			b.mu.Lock()
			s.partner.mu.Lock()
			for id, bill := range b.bills {
				if bill.notified && s.partner.got[id] == 0 {
					b.mu.Unlock()
					s.partner.mu.Unlock()
					return "the callback of " + id + " was taken and not delivered"
				}
			}
			b.mu.Unlock()
			s.partner.mu.Unlock()
		}
		return ""
	})
	f = s.measure()
	s.await(func() string {
		if notAbove == nil || f.goroutines <= notAbove.goroutines && f.files <= notAbove.files+soakStoreFiles {
			return ""
		}
		f = s.measure()
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return fmt.Sprintf("before: %s\nafter:  %s\n%s", notAbove, f, stacks.String())
	})
	return f
}
