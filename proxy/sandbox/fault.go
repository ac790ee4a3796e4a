package sandbox

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Fault makes the sandbox delay, change, refuse or drop matching replies, callbacks or payments. The operation
// is still carried out, unless Skip or Code is set: callers must handle a reply
// that is lost after the operation took effect.
type Fault struct {
	// Name says in the log which fault it was. It changes nothing.
	Name string `json:"name,omitempty"`
	// Operation is the operation whose replies change, such as bill.create; any if empty. callback.payment is for
	// callbacks, also those of cancels: it changes the first attempt of the next Count of them. payment is for payments
	// of customers, which Code declines.
	Operation string `json:"operation,omitempty"`
	// Partner and Bill limit the fault to one partner's key and one bill id, if they are not empty.
	Partner string `json:"partner,omitempty"`
	Bill    string `json:"bill,omitempty"`
	// Count is the number of replies that change; 1 if it is not positive.
	Count int `json:"count,omitempty"`
	// Until is the time of the service's clock at which the fault ends. Count does not limit it then.
	Until time.Time `json:"until,omitzero"`
	// Delay is the time before the reply begins: the operation is carried out, and callbacks are sent, before. A
	// callback is due so much later, by the service's clock.
	Delay      time.Duration `json:"-"`
	FaultyHTTP `yaml:",inline"`
	// Body replaces the body of the reply or callback, if it is not empty.
	Body string `json:"body,omitempty"`
	// Code refuses the call or the payment with this code, without carrying it out.
	Code string `json:"code,omitempty"`
	// Drop aborts the connection before anything is sent, that of a callback before its answer is read.
	Drop bool `json:"drop,omitempty"`
	// Skip does not carry out the operation. The reply is the failure ERROR, changed by the other fields. A callback is
	// lost: it is never sent by itself.
	Skip bool `json:"skip,omitempty"`
	// Late is as Skip, but the operation is carried out that long after the call, in real time, if the service has not
	// ended before. It is for the desk: the control API does not have it.
	Late       time.Duration `json:"-"`
	FaultOfOne `yaml:",inline"`
}

// FaultyHTTP changes how HTTP carries a reply. Callbacks do not have it.
type FaultyHTTP struct {
	// Status replaces the HTTP status of the reply, if it is not 0.
	Status int `json:"status,omitempty"`
	// RetryAfter is the header Retry-After of the reply in seconds, if it is not 0.
	RetryAfter int `json:"retry_after,omitempty"`
	// Truncate sends half of the body and then aborts the connection.
	Truncate bool `json:"truncate,omitempty"`
	// Gzip compresses the body, with Content-Encoding: gzip.
	Gzip bool `json:"gzip,omitempty"`
}

// FaultOfOne changes what one operation alone has.
type FaultOfOne struct {
	// Pay pays the bill of a bill.create before the reply, so that with Delay its callback comes first.
	Pay bool `json:"pay,omitempty"`
	// Show is the state that a bill.read shows: W, F, C, D, or absent for BILL_003.
	Show string `json:"show,omitempty"`
	// ShowBill is the id of another bill of the partner that a bill.read shows.
	ShowBill string `json:"show_bill,omitempty"`
	// Amount is the amount in the body of a callback, instead of the bill's.
	Amount string `json:"amount,omitempty"`
	// Copies is how often a callback is sent at once, if it is over 1. The answer to one of them counts.
	Copies int `json:"copies,omitempty"`
}

// The operations that no call of a partner has.
const (
	opCallback = "callback.payment"
	opPayment  = "payment"
)

// notCalls are changed only by faults that name them.
var notCalls = []string{opNone, opCallback, opPayment}

// Operations returns the names of all operations in the log. That of callbacks is the last.
func Operations() (names []string) {
	for _, op := range operations {
		names = append(names, op.name)
	}
	return append(names, opCallback)
}

// showAbsent is the Show of a bill that a read does not find.
const showAbsent = "absent"

func (f *Fault) owner() *string { return &f.Partner }

// takeFault removes and returns the next fault for a call or callback. The zero Fault changes nothing.
func (t *tables) takeFault(operation, partner, bill string) Fault {
	i := slices.IndexFunc(t.faults, func(f Fault) bool {
		return (f.Operation == operation || f.Operation == "" && !slices.Contains(notCalls, operation)) &&
			cmp.Or(f.Partner, partner) == partner && cmp.Or(f.Bill, bill) == bill
	})
	if i < 0 {
		return Fault{}
	}
	f := t.faults[i]
	if t.faults[i].Count--; f.Count < 2 && f.Until.IsZero() {
		t.faults = slices.Delete(t.faults, i, i+1)
	}
	return f
}

// Faults returns the faults that wait, in order.
func (s *Service) Faults() (list []Fault) {
	s.view(func(t *tables) { list = slices.Clone(t.faults) })
	return list
}

// Fault is AddFault, but panics instead of returning an error.
func (s *Service) Fault(f Fault) {
	if err := s.AddFault(f); err != nil {
		panic(err) // a programming error
	}
}

// AddFault adds a fault after the others for the same calls. It returns an error if its operation does not exist or
// lacks one of the other fields, or if net/http cannot answer with its status.
func (s *Service) AddFault(f Fault) error {
	names, text := append(Operations(), opPayment), ""
	switch {
	case f.Status != 0 && (f.Status < 200 || f.Status > 999):
		// A 1xx is not a final status, and net/http panics on invalid ones.
		text = "status: expected 200 to 999"
	case f.Operation != "" && !slices.Contains(names, f.Operation):
		text = fmt.Sprintf("operation: expected one of %s but got: %q", strings.Join(names, ", "), f.Operation)
	case f.Operation == opCallback && (f.Status+f.RetryAfter != 0 || f.Code != "" || f.Truncate || f.Gzip),
		f.Operation != opCallback && (f.Amount != "" || f.Copies != 0),
		f.Operation != opRead && f.Show+f.ShowBill != "",
		f.Operation != opCreate && f.Pay:
		text = "operation: bill.read alone has show and show_bill, bill.create alone has pay, and callback.payment " +
			"alone has amount and copies, but not status, code, truncate and gzip"
	case f.Operation == opPayment && (f.Code == "" || f != Fault{
		Name: f.Name, Operation: opPayment, Partner: f.Partner, Bill: f.Bill,
		Count: f.Count, Until: f.Until, Code: f.Code,
	}):
		text = "code: a payment needs a code, and has nothing else"
	case f.Show != "" && f.Show != showAbsent && statusWords[f.Show] == "":
		text = fmt.Sprintf("show: expected W, F, C, D or %s but got: %q", showAbsent, f.Show)
	default:
		s.view(func(t *tables) { t.faults = append(t.faults, f) })
		return nil
	}
	return badRequest(text)
}

// ClearFaults removes the unused faults that are limited to one partner, or all if its key is empty.
func (s *Service) ClearFaults(partnerKey string) {
	s.view(func(t *tables) {
		t.faults = slices.DeleteFunc(t.faults, func(f Fault) bool {
			return partnerKey == "" || f.Partner == partnerKey
		})
	})
}

// show changes the state of a bill that a read shows. An approval that the bill does not have is not invented.
func (b *Bill) show(state string) {
	b.State = state
	if state == stateUnpaid || state == stateDestroyed {
		b.Approval = nil
	}
	if state != stateCancelled {
		b.Cancel = nil
	}
}

// deliver writes the reply of an exchange with its fault. http.ErrAbortHandler makes net/http abort the connection, in
// HTTP/1 and HTTP/2.
func deliver(w http.ResponseWriter, r *http.Request, x *Exchange, status int) {
	f := x.Fault
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	x.Status = cmp.Or(f.Status, status)
	body := x.Reply
	if f.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(body) // writing to a bytes.Buffer does not fail
		_ = z.Close()
		body = packed.Bytes()
	}
	if f.RetryAfter != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	// With the full length, the caller notices that a truncated body is incomplete.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(x.Status)
	if !f.Truncate {
		_, _ = w.Write(body) // an error means that the caller has disconnected
		return
	}
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
