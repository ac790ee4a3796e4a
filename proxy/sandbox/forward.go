package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	forwardWait  = 10 * time.Second // how long a request of a forwarder waits for a callback
	forwardLease = 15 * time.Second // how long a forwarder is connected after its last request has begun
)

// Forwarded is an attempt to deliver a callback, for the forwarder of its partner.
type Forwarded struct {
	ID     string      `json:"id"` // empty if there is no callback yet; only the forwarder knows it
	Bill   string      `json:"bill"`
	URL    string      `json:"url"`
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

// ForwardAnswer is the answer of a developer's program to a forwarded callback.
type ForwardAnswer struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
	Error  string `json:"error"` // why there is no answer
}

// A forwarder is a program on the machine of a developer, which the sandbox cannot reach. It takes the callbacks of one
// partner and returns the answers.
type forwarder struct {
	id    string         // which the program chooses
	until time.Time      // it is connected until then
	queue chan Forwarded // without a buffer: what nobody takes stays in its attempt, and fails with it
}

// transport returns the transport of an attempt: the forwarder of its partner, if one is connected.
func (n *sender) transport(c Callback) http.RoundTripper {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.forwarders[c.Partner]; time.Now().Before(f.until) {
		return forwarding{n, f.queue, c.BillID}
	}
	return n.service.opt.Transport
}

type forwarding struct {
	*sender
	queue chan<- Forwarded
	bill  string
}

// RoundTrip waits for the answer of the forwarder.
func (f forwarding) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body) // from memory
	sent := Forwarded{rand.Text(), f.bill, r.URL.String(), r.Header, string(body)}
	answer := make(chan ForwardAnswer, 1)
	f.answers.Store(sent.ID, answer)
	defer f.answers.Delete(sent.ID)
	for {
		select {
		case f.queue <- sent:
			f.queue = nil
		case a := <-answer:
			if a.Error != "" {
				return nil, errors.New("the forwarder: " + a.Error)
			}
			return &http.Response{StatusCode: a.Status, Body: io.NopCloser(strings.NewReader(a.Body))}, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// nextForwarded waits for the next callback of a partner. The request that connects a forwarder does not wait.
func (n *sender) nextForwarded(ctx context.Context, partner, id string) (next Forwarded, err error) {
	known := slices.ContainsFunc(n.service.Partners(), func(p Partner) bool { return p.Key == partner })
	n.mu.Lock()
	f := n.forwarders[partner]
	connected := time.Now().Before(f.until)
	switch {
	case !known:
		err = &refusedError{status: http.StatusNotFound, text: "no such partner: name the one of the callbacks"}
	case connected && f.id != id:
		err = &refusedError{status: http.StatusConflict, text: "another forwarder of the partner is connected"}
	default:
		if !connected {
			f.queue = make(chan Forwarded)
		}
		f.id, f.until = id, time.Now().Add(forwardLease)
		n.forwarders[partner] = f
	}
	n.mu.Unlock()
	if err != nil || !connected {
		return next, err
	}
	select {
	case next = <-f.queue:
	case <-time.After(forwardWait):
	case <-n.ctx.Done():
	case <-ctx.Done(): // the forwarder has ended, unless it has made another request
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.forwarders[partner] == f {
			delete(n.forwarders, partner)
		}
	}
	return next, nil
}

// answerForwarded ends an attempt with its answer.
func (n *sender) answerForwarded(id string, a ForwardAnswer) error {
	answer, waits := n.answers.LoadAndDelete(id)
	if !waits {
		return &refusedError{status: http.StatusNotFound, text: "the attempt has ended, for example with a timeout"}
	}
	answer.(chan ForwardAnswer) <- a
	return nil
}
