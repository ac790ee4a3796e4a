package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The states of a callback.
const (
	callbackWaiting   = "waiting"
	callbackDelivered = "delivered"
	callbackGivenUp   = "given_up"
)

const (
	maxAttempts  = 32       // attempts at the same time
	maxAnswer    = 64 << 10 // bytes that are read of a partner's answer
	storedAnswer = 500      // bytes of it that are stored
)

// Callback reports one payment, cancel or destroy to the partner ("Events").
type Callback struct {
	Partner   string    `json:"partner"`
	BillID    string    `json:"bill_id"`
	BillState string    `json:"bill_state"` // F, C or D
	Form      string    `json:"form"`
	URL       string    `json:"url"`
	Body      string    `json:"body"` // exactly as sent
	State     string    `json:"state"`
	Made      time.Time `json:"made"`
	Next      time.Time `json:"next,omitzero"` // when the next attempt is due; zero unless State is waiting
	Attempts  []Attempt `json:"attempts"`      // oldest first
}

// callbackKey identifies a callback: a bill has one for each state that was reported.
type callbackKey struct{ partner, id, billState string }

func (c Callback) key() callbackKey { return callbackKey{c.Partner, c.BillID, c.BillState} }

// Attempt is one attempt to deliver a callback.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // HTTP status of the answer; 0 if there was none
	Answer string    `json:"answer,omitempty"` // the first bytes of its body
	Wrong  string    `json:"wrong,omitempty"`  // why the attempt failed; empty for a success
}

// notify adds the callback of a bill's new state, if there is an address: the bill's own, in the form of the bill;
// else that of the merchant's registration, in v2. The body has the fields of a read at the top level.
func (s *Service) notify(t *tables, b *Bill) {
	c := Callback{
		Partner: b.Partner, BillID: b.ID, BillState: b.State, Form: b.Form, URL: b.CallbackURL,
		State: callbackWaiting, Made: t.now, Next: t.now, Attempts: []Attempt{},
	}
	if c.URL == "" {
		m := t.Mappings.get(mappingKey{b.Partner, b.Member, b.Merchant})
		if m == nil || m.CallbackURL == "" {
			return
		}
		c.Form, c.URL = string(formV2), m.CallbackURL
	}
	f := form(c.Form)
	c.Body = string(f.object(s.record(f, b)...))
	t.Callbacks.put(c)
}

// Callbacks returns every callback, in the order they were made.
func (s *Service) Callbacks() (list []Callback) {
	s.store.view(func(t *tables) { list = t.Callbacks.all() })
	return list
}

// Notify sends the callbacks of a bill again, also delivered ones, with all attempts.
func (s *Service) Notify(partnerKey, billID string) error {
	err := s.store.update(func(t *tables) error {
		b, err := t.lookUp(partnerKey, billID)
		if err != nil {
			return err
		}
		found := false
		for _, billState := range []string{statePaid, stateCancelled, stateDestroyed} {
			existing := t.Callbacks.get(callbackKey{b.Partner, b.ID, billState})
			if existing == nil {
				continue
			}
			found = true
			c := *existing
			c.State, c.Made, c.Next, c.Attempts = callbackWaiting, t.now, t.now, []Attempt{}
			t.Callbacks.put(c)
		}
		if !found {
			return fmt.Errorf("%w with a callback: %q", errNoBill, billID)
		}
		return nil
	})
	if err == nil {
		s.sender.sendDue()
	}
	return err
}

// A sender sends callbacks. A timer waits for the next attempt, and each attempt runs in its own goroutine.
type sender struct {
	opt     *Options
	store   *store
	client  *http.Client
	ctx     context.Context // ends when the service is closed
	stop    context.CancelFunc
	slots   chan struct{}
	mu      sync.Mutex // locked before that of the store
	timer   *time.Timer
	running map[callbackKey]struct{}
	all     sync.WaitGroup
}

func newSender(o *Options, st *store) *sender {
	n := &sender{opt: o, store: st, running: map[callbackKey]struct{}{}, slots: make(chan struct{}, maxAttempts)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.client = &http.Client{
		Transport: o.Transport, Timeout: o.CallbackTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	n.timer = time.AfterFunc(time.Hour, n.sendDue) // set by the first sendDue
	return n
}

// sendDue starts every attempt that is due, and sets the timer for the next one. It must be called after every change
// of callbacks or of the clock.
func (n *sender) sendDue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	var now, next time.Time
	n.store.view(func(t *tables) {
		now = t.now
		for k := range t.open {
			c := t.Callbacks.get(k)
			if c.Next.After(now) {
				if next.IsZero() || c.Next.Before(next) {
					next = c.Next
				}
				continue
			}
			if _, running := n.running[k]; running {
				continue
			}
			// The callback of a cancel waits for an attempt of the payment's callback that is due or running, so that a
			// partner gets them in order. The end of that attempt calls sendDue again.
			paid := t.Callbacks.get(callbackKey{k.partner, k.id, statePaid})
			if k.billState != statePaid && paid != nil && paid.State == callbackWaiting && !paid.Next.After(now) {
				continue
			}
			n.running[k] = struct{}{}
			n.all.Go(func() { n.attempt(k, c.URL, c.Body) })
		}
	})
	n.timer.Stop()
	if !next.IsZero() {
		n.timer.Reset(next.Sub(now))
	}
}

// attempt makes one attempt and stores its result.
func (n *sender) attempt(k callbackKey, url, body string) {
	select {
	case n.slots <- struct{}{}:
	case <-n.ctx.Done():
		return
	}
	var made Attempt
	n.store.view(func(t *tables) { made.At = t.now })
	status, answer, err := n.post(url, body)
	<-n.slots
	made.Status, made.Answer = status, strings.ToValidUTF8(string(answer[:min(len(answer), storedAnswer)]), "")
	if err != nil {
		made.Wrong = err.Error()
	}
	if n.ctx.Err() != nil {
		return // interrupted by Close: the attempt is made again after the next start
	}
	err = n.store.update(func(t *tables) error {
		c := *t.Callbacks.get(k)
		if c.URL != url || c.Body != body {
			return nil
		}
		c.Attempts = append(c.Attempts[:len(c.Attempts):len(c.Attempts)], made)
		switch {
		case made.Wrong == "":
			c.State, c.Next = callbackDelivered, time.Time{}
		case len(c.Attempts) > n.opt.CallbackRetries:
			c.State, c.Next = callbackGivenUp, time.Time{}
		default:
			c.Next = t.now.Add(n.opt.CallbackInterval)
		}
		t.Callbacks.put(c)
		return nil
	})
	n.mu.Lock()
	delete(n.running, k)
	n.mu.Unlock()
	if err != nil {
		n.opt.Log.Error("the result of an attempt to deliver a callback was not stored; the attempt is made again",
			"err", err)
		time.AfterFunc(n.opt.CallbackInterval, n.sendDue)
		return
	}
	n.sendDue()
}

// post sends a callback. It returns an error unless the partner has accepted it.
func (n *sender) post(url, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(n.ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "billbridge-sandbox")
	res, err := n.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	status = res.StatusCode
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case n.opt.CallbackAny2xx && status/100 == 2:
		return status, answer, nil
	case err != nil:
		return status, answer, err
	case n.opt.CallbackAny2xx:
		return status, answer, fmt.Errorf("expected a status of 2xx but got: %d", status)
	case status != http.StatusOK:
		return status, answer, fmt.Errorf("expected status 200 but got: %d", status)
	}
	return status, answer, checkAnswer(answer)
}

// checkAnswer returns an error unless an answer with status 200 is a success. Its code must be 0000.
func checkAnswer(answer []byte) error {
	members, ok := parseObject(answer)
	if !ok {
		return errors.New("expected a JSON object")
	}
	var code string
	if err := json.Unmarshal(members["code"], &code); err != nil || code != codeSuccess {
		return fmt.Errorf("expected the code %q but got: %s", codeSuccess, members["code"])
	}
	return nil
}

// close interrupts running attempts.
func (n *sender) close() {
	n.mu.Lock()
	n.timer.Stop()
	n.stop()
	n.mu.Unlock()
	n.all.Wait()
}
