package sandbox

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is something that goes wrong with replies. The operation is carried
// out all the same, since a reply that is lost after the work is done is what
// a caller must be able to take, unless Skip or Code says otherwise.
type Fault struct {
	// Operation is the name of the operation it waits for, bill.create say; any if empty.
	Operation string
	// Count is how many replies it touches; 1 if it is not positive.
	Count int
	// Delay passes before the reply is begun.
	Delay time.Duration
	// Status is the HTTP status instead of the reply's own, if it is not 0.
	Status int
	// Body is sent instead of the reply's own, if it is not empty.
	Body string
	// Code answers the call with that code in the caller's form and does nothing.
	Code string
	// Truncate sends half of the body and breaks the connection off.
	Truncate bool
	// Drop breaks the connection off before anything is sent.
	Drop bool
	// Gzip compresses the body and says so.
	Gzip bool
	// Skip leaves the operation undone. The reply is an ERROR envelope, unless
	// the rest of the fault changes it.
	Skip bool
}

// faultQueue are those that wait for a reply, first come first used.
type faultQueue struct {
	mu      sync.Mutex
	waiting []Fault
}

// check tells whether any call can meet the fault.
func (f Fault) check() error {
	if f.Operation != "" && !slices.Contains(operations, operation(f.Operation)) {
		known := make([]string, len(operations))
		for i, op := range operations {
			known[i] = string(op)
		}
		return fmt.Errorf("operation: expected one of %s but got: %q", strings.Join(known, ", "), f.Operation)
	}
	return nil
}

// Fault makes the next replies go wrong as f says, after those of earlier
// faults that wait for the same calls. It panics if f names an operation that
// does not exist.
func (s *Service) Fault(f Fault) {
	if err := f.check(); err != nil {
		panic(err) // a mistake of the program: no call would ever meet it
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	f.Count = max(f.Count, 1)
	s.faults.waiting = append(s.faults.waiting, f)
}

// ClearFaults forgets every fault that has not been used up.
func (s *Service) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.waiting = nil
}

// take returns the fault for a call of op; the zero Fault changes nothing.
func (q *faultQueue) take(op operation) Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.waiting {
		f := &q.waiting[i]
		if f.Operation != "" && f.Operation != string(op) {
			continue
		}
		taken := *f
		if f.Count--; f.Count == 0 {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
		}
		return taken
	}
	return Fault{}
}

// deliver writes a reply, as the fault wants it. http.ErrAbortHandler is how a
// handler of net/http breaks a connection off, in HTTP/1 and HTTP/2 alike.
func deliver(w http.ResponseWriter, r *http.Request, f Fault, status int, body []byte) {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.Status != 0 {
		status = f.Status
	}
	if f.Body != "" {
		body = []byte(f.Body)
	}
	if f.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		body = compress(body)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	// The length is announced in whole, so that a break cannot pass for an end.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if !f.Truncate {
		_, _ = w.Write(body) // the caller may be gone, which is no concern of the service
		return
	}
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func compress(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // a bytes.Buffer takes everything
	_ = z.Close()
	return b.Bytes()
}
