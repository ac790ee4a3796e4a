package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	forwardWait  = 10 * time.Second // how long a request of a forwarder waits for a callback
	forwardGrace = 5 * time.Second  // how long a forwarder stays connected between two requests
)

// Forwarded is an attempt to deliver a callback, for the forwarder of its partner.
type Forwarded struct {
	ID        string      `json:"id"` // empty if there is no callback yet
	Bill      string      `json:"bill"`
	URL       string      `json:"url"`
	Header    http.Header `json:"header"`
	Body      string      `json:"body"`
	TimeoutMS int64       `json:"timeout_ms"` // after which the attempt fails
}

// ForwardAnswer is the answer of a developer's program to a forwarded callback.
type ForwardAnswer struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
	Error  string `json:"error"` // why there is no answer
}

// forwarders are the forwarders of partners. A forwarder is a program on the machine of a developer, which the sandbox
// cannot reach. It takes the callbacks of one partner and returns the answers.
type forwarders struct {
	sync.Mutex
	of map[string]*forwarder // by partner
}

type forwarder struct {
	id    string // which the program chooses
	polls int    // requests that wait
	until time.Time
	stop  context.CancelFunc // ends the last request

	queue   chan Forwarded // without a buffer: what nobody takes stays in its attempt, and fails with it
	answers sync.Map       // channels by Forwarded.ID
}

func (f *forwarder) connected() bool { return f.polls > 0 || time.Now().Before(f.until) }

// route returns the client for an attempt: its own, or one that uses the forwarder of the partner if it is connected.
func (all *forwarders) route(client *http.Client, c Callback) *http.Client {
	all.Lock()
	defer all.Unlock()
	f := all.of[c.Partner]
	if f == nil || !f.connected() {
		return client
	}
	forwards := *client
	forwards.Transport = forwarding{f, c.BillID}
	return &forwards
}

// forwarding is the transport of one attempt.
type forwarding struct {
	*forwarder
	bill string
}

func (f forwarding) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	ctx, answer := r.Context(), make(chan ForwardAnswer, 1)
	sent := Forwarded{ID: rand.Text(), Bill: f.bill, URL: r.URL.String(), Header: r.Header, Body: string(body)}
	if at, ok := ctx.Deadline(); ok {
		sent.TimeoutMS = time.Until(at).Milliseconds()
	}
	f.answers.Store(sent.ID, answer)
	defer f.answers.Delete(sent.ID)
	select {
	case f.queue <- sent:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return nil, errors.New("the forwarder: " + a.Error)
		}
		return &http.Response{StatusCode: a.Status, Body: io.NopCloser(strings.NewReader(a.Body)), Request: r}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// nextForwarded waits for the next callback of a partner. The request that connects a forwarder does not wait. A
// forwarder that is disconnected without notice can connect again with its id, and another one after the grace.
func (n *sender) nextForwarded(asked context.Context, partner, id string) (next Forwarded, err error) {
	known := false
	n.service.view(func(t *tables) { known = t.Contracts.get(partner) != nil })
	switch {
	case partner == "" || id == "":
		return next, badRequest("name the partner whose callbacks are forwarded, and the forwarder")
	case !known:
		return next, errNoPartner
	}
	all := &n.forwarders
	all.Lock()
	f := all.of[partner]
	if f == nil {
		f = &forwarder{queue: make(chan Forwarded), stop: func() {}}
		all.of[partner] = f
	}
	connected := f.connected()
	if connected && f.id != id {
		all.Unlock()
		return next, &refusedError{
			status: http.StatusConflict, text: "another forwarder of the partner is connected: end that one first",
		}
	}
	f.stop() // the request of a connection that was lost must not take a callback
	ctx, stop := context.WithTimeout(asked, forwardWait)
	f.id, f.stop = id, stop
	f.polls++
	all.Unlock()
	defer func() {
		stop()
		all.Lock()
		defer all.Unlock()
		f.polls--
		f.until = time.Time{}
		if asked.Err() == nil {
			f.until = time.Now().Add(forwardGrace)
		}
	}()
	if connected {
		select {
		case next = <-f.queue:
		case <-ctx.Done():
		case <-n.ctx.Done():
		}
	}
	return next, nil
}

// answerForwarded ends an attempt with its answer.
func (n *sender) answerForwarded(partner, id string, a ForwardAnswer) error {
	n.forwarders.Lock()
	f := n.forwarders.of[partner]
	n.forwarders.Unlock()
	if f != nil {
		if answer, waits := f.answers.LoadAndDelete(id); waits {
			answer.(chan ForwardAnswer) <- a
			return nil
		}
	}
	return &refusedError{status: http.StatusNotFound, text: "the attempt has ended, such as with a timeout"}
}
