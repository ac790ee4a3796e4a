package sandbox

import (
	"context"
	"encoding/json"
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

func (c *Callback) key() callbackKey { return callbackKey{c.Partner, c.BillID, c.BillState} }

// Attempt is one attempt to deliver a callback.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // HTTP status of the answer; 0 if there was none
	Answer string    `json:"answer,omitempty"` // the first bytes of its body
	Wrong  string    `json:"wrong,omitempty"`  // why the attempt failed; empty for a success
}

// notify adds the callback of a bill's new state, if there is an address: the bill's own, in the form of the bill; else that
// of the merchant's registration, in v2. The body has the fields of a read at the top level.
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
	s.view(func(t *tables) { list = t.Callbacks.all() })
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
		s.sendDue()
	}
	return err
}

// A sender sends callbacks. A timer waits for the next attempt, and each attempt runs in its own goroutine.
type sender struct {
	client  *http.Client
	ctx     context.Context // ends when the service is closed
	stop    context.CancelFunc
	slots   chan struct{}
	mu      sync.Mutex // locked before that of the store
	timer   *time.Timer
	running map[callbackKey]struct{}
	closed  bool
	all     sync.WaitGroup
}

func newSender(transport http.RoundTripper, timeout time.Duration) *sender {
	if transport == nil {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	n := &sender{running: map[callbackKey]struct{}{}, slots: make(chan struct{}, maxAttempts)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.client = &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return n
}

// sendDue starts every attempt that is due, and sets the timer for the next one. It must be called after every change of
// callbacks or of the clock.
func (s *Service) sendDue() {
	n := s.sender
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	var now, next time.Time
	s.view(func(t *tables) {
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
			n.all.Go(func() { s.attempt(k, c.URL, c.Body) })
		}
	})
	if n.timer != nil {
		n.timer.Stop()
	}
	if !next.IsZero() {
		n.timer = time.AfterFunc(next.Sub(now), s.sendDue)
	}
}

// attempt makes one attempt and stores its result.
func (s *Service) attempt(k callbackKey, url, body string) {
	n := s.sender
	select {
	case n.slots <- struct{}{}:
	case <-n.ctx.Done():
		return
	}
	made := s.post(url, body)
	<-n.slots
	if n.ctx.Err() != nil {
		return // interrupted by Close: the attempt is made again after the next start
	}
	err := s.store.update(func(t *tables) error {
		c := *t.Callbacks.get(k)
		if c.URL != url || c.Body != body {
			return nil
		}
		c.Attempts = append(c.Attempts[:len(c.Attempts):len(c.Attempts)], made)
		switch {
		case made.Wrong == "":
			c.State, c.Next = callbackDelivered, time.Time{}
		case len(c.Attempts) > s.opt.CallbackRetries:
			c.State, c.Next = callbackGivenUp, time.Time{}
		default:
			c.Next = t.now.Add(s.opt.CallbackInterval)
		}
		t.Callbacks.put(c)
		return nil
	})
	n.mu.Lock()
	delete(n.running, k)
	n.mu.Unlock()
	if err != nil {
		s.opt.Log.Error("the result of an attempt to deliver a callback was not stored; the attempt is made again", "err", err)
		time.AfterFunc(s.opt.CallbackInterval, s.sendDue)
		return
	}
	s.sendDue()
}

// post sends a callback.
func (s *Service) post(url, body string) (a Attempt) {
	a.At = s.Now()
	req, err := http.NewRequestWithContext(s.sender.ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		a.Wrong = err.Error()
		return a
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "billbridge-sandbox")
	res, err := s.sender.client.Do(req)
	if err != nil {
		a.Wrong = err.Error()
		return a
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	a.Status, a.Answer = res.StatusCode, strings.ToValidUTF8(string(answer[:min(len(answer), storedAnswer)]), "")
	switch {
	case s.opt.CallbackAny2xx && res.StatusCode/100 == 2:
	case err != nil:
		a.Wrong = err.Error()
	case s.opt.CallbackAny2xx:
		a.Wrong = fmt.Sprintf("expected a status of 2xx but got: %d", res.StatusCode)
	case res.StatusCode != http.StatusOK:
		a.Wrong = fmt.Sprintf("expected status 200 but got: %d", res.StatusCode)
	default:
		a.Wrong = wrongAnswer(answer)
	}
	return a
}

// wrongAnswer returns why an answer with status 200 is not a success, or "". Its code must be 0000.
func wrongAnswer(answer []byte) string {
	members, ok := parseObject(answer)
	if !ok {
		return "expected a JSON object"
	}
	var code string
	if err := json.Unmarshal(members["code"], &code); err != nil || code != codeSuccess {
		return `expected the code "0000" but got: ` + string(members["code"])
	}
	return ""
}

// Close interrupts running attempts and closes the data file. The attempts are made again after the next start. The service
// must not be called afterwards.
func (s *Service) Close() error {
	n := s.sender
	n.mu.Lock()
	n.closed = true
	if n.timer != nil {
		n.timer.Stop()
	}
	n.stop()
	n.mu.Unlock()
	n.all.Wait()
	return s.store.disk.close()
}
