package sandbox

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Fault changes replies. The operation is still carried out, unless Skip or Code is set: callers must handle a reply
// that is lost after the operation took effect.
type Fault struct {
	// Operation is the operation whose replies change, such as bill.create; any if empty. callback.payment is for
	// callbacks: with Skip, the next Count of them are lost. They are never sent.
	Operation string `json:"operation"`
	// Count is the number of replies that change; 1 if it is not positive.
	Count int `json:"count"`
	// Delay is the time before the reply begins.
	Delay time.Duration `json:"-"`
	// Status replaces the HTTP status of the reply, if it is not 0.
	Status int `json:"status"`
	// Body replaces the body of the reply, if it is not empty.
	Body string `json:"body"`
	// Code refuses the call with this code, without carrying out the operation.
	Code string `json:"code"`
	// Truncate sends half of the body and then aborts the connection.
	Truncate bool `json:"truncate"`
	// Drop aborts the connection before anything is sent.
	Drop bool `json:"drop"`
	// Gzip compresses the body, with Content-Encoding: gzip.
	Gzip bool `json:"gzip"`
	// Skip does not carry out the operation. The reply is the failure ERROR, changed by the other fields.
	Skip bool `json:"skip"`
}

// lostCallbacks is the operation of faults that lose callbacks.
const lostCallbacks = "callback.payment"

// take removes and returns the next fault that matches. The zero Fault changes nothing.
func take(waiting *[]Fault, matches func(Fault) bool) Fault {
	i := slices.IndexFunc(*waiting, matches)
	if i < 0 {
		return Fault{}
	}
	taken := &(*waiting)[i]
	f := *taken
	if taken.Count--; taken.Count < 1 {
		*waiting = slices.Delete(*waiting, i, i+1)
	}
	return f
}

// Fault adds a fault after the others for the same calls. It panics if its operation does not exist, or if net/http
// cannot answer with its status.
func (s *Service) Fault(f Fault) {
	if err := s.addFault(f, 999); err != nil {
		panic(err) // a programming error
	}
}

// addFault adds a fault, unless no call could match it or its status is over the highest one.
func (s *Service) addFault(f Fault, highest int) error {
	var names []string
	for _, op := range operations {
		names = append(names, op.name)
	}
	switch {
	case f.Status != 0 && (f.Status < 200 || f.Status > highest):
		// A 1xx is not a final status, and net/http panics on invalid ones.
		return &refusedError{status: http.StatusBadRequest, text: fmt.Sprintf("status: expected 200 to %d", highest)}
	case f.Operation == lostCallbacks && f != (Fault{Operation: lostCallbacks, Count: f.Count, Skip: true}):
		text := "operation: for " + lostCallbacks + " only count can be set, and skip must be"
		return &refusedError{status: http.StatusBadRequest, text: text}
	case f.Operation != "" && f.Operation != lostCallbacks && !slices.Contains(names, f.Operation):
		text := fmt.Sprintf("operation: expected one of %s but got: %q", strings.Join(names, ", "), f.Operation)
		return &refusedError{status: http.StatusBadRequest, text: text}
	}
	s.view(func(t *tables) { t.faults = append(t.faults, f) })
	return nil
}

// ClearFaults removes all unused faults.
func (s *Service) ClearFaults() { s.view(func(t *tables) { t.faults = nil }) }

// deliver writes a reply with a fault. http.ErrAbortHandler makes net/http abort the connection, in HTTP/1 and HTTP/2.
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
	// With the full length, the caller notices that a truncated body is incomplete.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if !f.Truncate {
		_, _ = w.Write(body) // an error means that the caller has disconnected
		return
	}
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func compress(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // writing to a bytes.Buffer does not fail
	_ = z.Close()
	return b.Bytes()
}
