package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	c := Callback{Partner: b.Partner, BillID: b.ID, BillState: b.State, Form: b.Form, URL: b.CallbackURL}
	c.schedule(t.now)
	if c.URL == "" {
		m := t.Mappings.get(mappingKey{b.Partner, b.Member, b.Merchant})
		if m == nil || m.CallbackURL == "" {
			return
		}
		c.Form, c.URL = string(formV2), m.CallbackURL
	}
	lost := func(f Fault) bool { return f.Operation == lostCallbacks }
	if take(&t.faults, lost).Skip {
		c.State, c.Next = callbackGivenUp, time.Time{}
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
	err := s.update(func(t *tables) error {
		b, err := t.lookUp(partnerKey, billID)
		if err != nil {
			return err
		}
		found := false
		for _, state := range []string{statePaid, stateCancelled, stateDestroyed} {
			if c := t.Callbacks.get(callbackKey{b.Partner, b.ID, state}); c != nil {
				found = true
				again := *c
				again.schedule(t.now)
				t.Callbacks.put(again)
			}
		}
		if !found {
			return fmt.Errorf("%w with a callback: %q", errNoBill, billID)
		}
		return nil
	})
	s.sendDue()
	return err
}

// schedule makes the first attempt due.
func (c *Callback) schedule(now time.Time) {
	c.State, c.Made, c.Next, c.Attempts = callbackWaiting, now, now, []Attempt{}
}

// A sender sends callbacks. A timer waits for the next attempt, and each attempt runs in its own goroutine.
type sender struct {
	store   *store
	client  *http.Client
	ctx     context.Context // ends when the service is closed
	stop    context.CancelFunc
	mu      sync.Mutex // locked before that of the store
	timer   *time.Timer
	running map[callbackKey]struct{}
	all     sync.WaitGroup
}

func newSender(st *store) *sender {
	n := &sender{store: st, running: map[callbackKey]struct{}{}}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.client = &http.Client{
		Transport: st.opt.Transport, Timeout: st.opt.CallbackTimeout,
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
	n.timer.Stop()
	var next time.Time
	n.store.view(func(t *tables) {
		for k := range t.open {
			c := t.Callbacks.get(k)
			if c.Next.After(t.now) {
				if next.IsZero() || c.Next.Before(next) {
					next = c.Next
					n.timer.Reset(next.Sub(t.now))
				}
				continue
			}
			// The callback of a cancel waits for an attempt of the payment's callback that is due or running, so that a
			// partner gets them in order. The end of that attempt calls sendDue again.
			paid := t.Callbacks.get(callbackKey{k.partner, k.id, statePaid})
			waits := k.billState != statePaid && paid != nil && paid.State == callbackWaiting && !paid.Next.After(t.now)
			if _, running := n.running[k]; !running && !waits && len(n.running) < maxAttempts {
				n.running[k] = struct{}{}
				made := Attempt{At: t.now}
				n.all.Go(func() { n.attempt(*c, made) })
			}
		}
	})
}

// attempt makes one attempt and stores its result.
func (n *sender) attempt(c Callback, made Attempt) {
	if err := n.post(c, &made); err != nil {
		made.Wrong = err.Error()
	}
	if n.ctx.Err() != nil {
		return // interrupted by Close: the attempt is made again after the next start
	}
	o := &n.store.opt
	err := n.store.update(func(t *tables) error {
		now := *t.Callbacks.get(c.key())
		now.Attempts = append(slices.Clip(now.Attempts), made)
		switch {
		case made.Wrong == "":
			now.State, now.Next = callbackDelivered, time.Time{}
		case len(now.Attempts) > o.CallbackRetries:
			now.State, now.Next = callbackGivenUp, time.Time{}
		default:
			now.Next = t.now.Add(o.CallbackInterval)
		}
		t.Callbacks.put(now)
		return nil
	})
	n.mu.Lock()
	delete(n.running, c.key())
	n.mu.Unlock()
	if err != nil {
		o.Log.Error("the result of an attempt to deliver a callback was not stored; the attempt is made again",
			"err", err)
		time.AfterFunc(o.CallbackInterval, n.sendDue)
		return
	}
	n.sendDue()
}

// post sends a callback. It returns an error unless the partner has accepted it.
func (n *sender) post(c Callback, made *Attempt) error {
	req, err := http.NewRequestWithContext(n.ctx, http.MethodPost, c.URL, strings.NewReader(c.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "billbridge-sandbox")
	res, err := n.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	made.Status = res.StatusCode
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	made.Answer = strings.ToValidUTF8(string(answer[:min(len(answer), storedAnswer)]), "")
	switch any2xx := n.store.opt.CallbackAny2xx; {
	case any2xx && made.Status/100 == 2:
		return nil
	case err != nil:
		return err
	case any2xx:
		return fmt.Errorf("expected a status of 2xx but got: %d", made.Status)
	case made.Status != http.StatusOK:
		return fmt.Errorf("expected status 200 but got: %d", made.Status)
	}
	return checkAnswer(answer)
}

// checkAnswer returns an error unless an answer with status 200 is a success. Its code must be 0000.
func checkAnswer(answer []byte) error {
	members, ok := parseObject(answer)
	if !ok {
		return errors.New("expected a JSON object")
	}
	var code string
	if json.Unmarshal(members["code"], &code) != nil || code != codeSuccess {
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
