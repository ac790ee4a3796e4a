package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
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

// Callback reports one payment, cancel or destroy to the partner ("Events"), or the status of a registration.
type Callback struct {
	Partner   string    `json:"partner"`
	BillID    string    `json:"bill_id"`            // empty for a registration
	BillState string    `json:"bill_state"`         // F, C or D, or the status of a registration
	Member    string    `json:"member,omitempty"`   // of a registration
	Merchant  string    `json:"merchant,omitempty"` // of a registration
	Form      string    `json:"form"`
	URL       string    `json:"url"`
	Body      string    `json:"body"` // exactly as sent, unless a fault changes it
	State     string    `json:"state"`
	Made      time.Time `json:"made"`
	Next      time.Time `json:"next,omitzero"` // when the next attempt is due; zero unless State is waiting
	Attempts  []Attempt `json:"attempts"`      // oldest first
	Earlier   int       `json:"earlier"`       // attempts before the last call of Notify, which do not count

	fault Fault // of the next attempt
}

// callbackKey identifies a callback: a bill, or a registration, has one for each state that was reported.
type callbackKey struct{ partner, id, billState, member, merchant string }

func (c Callback) key() callbackKey {
	return callbackKey{c.Partner, c.BillID, c.BillState, c.Member, c.Merchant}
}

// Attempt is one attempt to deliver a callback.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // HTTP status of the answer; 0 if there was none
	Answer string    `json:"answer,omitempty"` // the first bytes of its body
	Wrong  string    `json:"wrong,omitempty"`  // why the attempt failed; empty for a success
}

// notify adds the callback of a bill's new state, if there is an address.
func (t *tables) notify(b *Bill) {
	if c := t.callbackOf(b); c.URL != "" {
		c.schedule(t)
		t.Callbacks.put(c)
	}
}

// callbackOf returns the callback of a bill's state. Its address is the bill's own, in the form of the bill; else that
// of the merchant's registration, in v2. The body has the fields of a read at the top level.
func (t *tables) callbackOf(b *Bill) Callback {
	c := Callback{
		Partner: b.Partner, BillID: b.ID, BillState: b.State, Form: b.Form, URL: b.CallbackURL,
		Made: t.now, Attempts: []Attempt{},
	}
	if m := t.Mappings.get(mappingKey{b.Partner, b.Member, b.Merchant}); c.URL == "" && m != nil {
		c.Form, c.URL = string(formV2), m.CallbackURL
	}
	f := form(c.Form)
	c.Body = string(f.object(recordFields, t.opt.record(f, b)))
	return c
}

// Callbacks returns every callback, in the order they were made.
func (s *Service) Callbacks() (list []Callback) {
	s.view(func(t *tables) { list = t.Callbacks.all() })
	return list
}

// SendCallback sends an extra callback of a bill once, whatever its state, and does not store it. change returns
// another body, such as a forged one.
func (s *Service) SendCallback(partnerKey, billID string, change func(body []byte) []byte) error {
	_, err := s.withBill(partnerKey, billID, "", func(t *tables, b *Bill) error {
		c := t.callbackOf(b)
		if c.URL == "" {
			return noCallback(b)
		}
		c.Body = string(change([]byte(c.Body)))
		s.all.Go(func() { _ = s.post(c, &Attempt{At: c.Made}) })
		return nil
	})
	return err
}

// Notify sends the callbacks of a bill again, also delivered ones, with as many attempts as the first time.
func (s *Service) Notify(partnerKey, billID string) error {
	_, err := s.withBill(partnerKey, billID, "", func(t *tables, b *Bill) error {
		err := noCallback(b)
		for _, state := range []string{statePaid, stateCancelled, stateDestroyed} {
			if c := t.Callbacks.get(callbackKey{partner: b.Partner, id: b.ID, billState: state}); c != nil {
				err = nil
				again := *c
				again.schedule(t)
				t.Callbacks.put(again)
			}
		}
		return err
	})
	return err
}

func noCallback(b *Bill) error { return fmt.Errorf("%w with a callback: %q", errNoBill, b.ID) }

// schedule makes the first attempt due, as the next fault of callbacks says.
func (c *Callback) schedule(t *tables) {
	c.fault = t.takeFault(opCallback, c.Partner, c.BillID)
	c.State, c.Next, c.Earlier = callbackWaiting, t.now.Add(c.fault.Delay), len(c.Attempts)
	if c.fault.Skip {
		c.State, c.Next = callbackGivenUp, time.Time{}
	}
}

// A sender sends callbacks. A timer waits for the next attempt, and each attempt runs in its own goroutine.
type sender struct {
	service *Service
	client  http.Client
	ctx     context.Context // ends when the service is closed
	stop    context.CancelFunc
	mu      sync.Mutex // locked before that of the store
	timer   *time.Timer
	running map[callbackKey]struct{}
	all     sync.WaitGroup
}

func newSender(s *Service) *sender {
	n := &sender{service: s, running: map[callbackKey]struct{}{}}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.client = http.Client{
		Timeout:       s.opt.CallbackTimeout,
		Transport:     s.opt.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	n.timer = time.AfterFunc(time.Hour, n.sendDue) // set by the first sendDue
	return n
}

// sendDue starts every attempt that is due, and sets the timer for the next one. It must be called after every change
// of callbacks or the clock.
func (n *sender) sendDue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	n.timer.Stop()
	var next time.Time
	n.service.view(func(t *tables) {
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
			paid := t.Callbacks.get(callbackKey{partner: k.partner, id: k.id, billState: statePaid})
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
	for range c.fault.Copies - 1 {
		n.all.Go(func() { _ = n.post(c, &Attempt{At: made.At}) })
	}
	if err := n.post(c, &made); err != nil {
		made.Wrong = err.Error()
	}
	if n.ctx.Err() != nil {
		return // interrupted by Close: the attempt is made again after the next start
	}
	o := &n.service.opt
	err := n.service.update(func(t *tables) error {
		now := *t.Callbacks.get(c.key())
		now.Attempts, now.fault = append(slices.Clip(now.Attempts), made), Fault{}
		switch {
		case made.Wrong == "":
			now.State, now.Next = callbackDelivered, time.Time{}
		case len(now.Attempts)-now.Earlier > o.CallbackRetries:
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

// errDropped is the failure of an attempt with Fault.Drop.
var errDropped = errors.New("the connection was closed by a fault before the answer was read")

// post sends a callback, changed by its fault. It returns an error unless the partner has accepted it.
func (n *sender) post(c Callback, made *Attempt) (err error) {
	f := c.fault
	body := []byte(cmp.Or(f.Body, c.Body))
	if members, isObject := parseObject(body); isObject && f.Amount != "" {
		members[form(c.Form).name("apprPrice")] = marshal(f.Amount)
		body = marshal(members)
	}
	x := &Exchange{
		Facts: Facts{
			Began: time.Now(), Clock: made.At, Operation: opCallback, Form: c.Form, Bill: c.BillID,
			ContentType: "application/json; charset=utf-8", UserAgent: "billbridge-sandbox",
		},
		Partner: c.Partner, Method: http.MethodPost, Path: c.URL, Request: body, Fault: f,
	}
	if c.BillID != "" {
		x.Before = c.BillState
	}
	defer func() {
		x.Status, x.Done = made.Status, err == nil
		n.service.observe(x)
	}()
	ctx, hangUp := context.WithCancelCause(n.ctx)
	defer hangUp(nil)
	if f.Drop {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			// The partner gets the time to begin its work.
			WroteRequest: func(httptrace.WroteRequestInfo) {
				time.AfterFunc(100*time.Millisecond, func() { hangUp(errDropped) })
			},
		})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", x.ContentType)
	req.Header.Set("User-Agent", x.UserAgent)
	res, err := n.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if f.Drop {
		return errDropped // the answer was faster
	}
	made.Status = res.StatusCode
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	x.Reply = answer
	made.Answer = strings.ToValidUTF8(string(answer[:min(len(answer), storedAnswer)]), "")
	members, isObject := parseObject(answer)
	var code string
	switch {
	case err != nil:
		return err
	case made.Status != http.StatusOK:
		return fmt.Errorf("expected status 200 but got: %d", made.Status)
	case !isObject:
		return errors.New("expected a JSON object")
	case json.Unmarshal(members["code"], &code) != nil || code != codeSuccess:
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
