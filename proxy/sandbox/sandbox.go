// Package sandbox is the billing service of the interface document, in one process: to develop and test integrations,
// and to test billbridge. It is NOT FOR PRODUCTION: it moves no money, sends no messages, and its keys are public.
//
//	s := sandbox.New(sandbox.Options{})
//	go http.ListenAndServe("127.0.0.1:8081", s)           // for partners and customers
//	go http.ListenAndServe("127.0.0.1:8082", s.Control()) // for testers
//	err := s.Pay("demo-partner-key", "1234567890ABCDEFGHIJ")
//
// After a payment the sandbox sends a callback to the partner ("Events"), whether the payment is made by Pay, by the
// control API, or on the page behind a short URL. Open keeps all data in a file.
//
// The forms legacy and v2 share one service and one store: a bill created in one form can be read, destroyed and
// cancelled in the other. The package shares no code with the gateway, so that tests can compare the two.
//
// The sandbox is strict where the document states a rule. Where the document is silent, it does what public
// integrations rely on. Each such choice is a field of Options or one of these rules:
//
//   - Only requests that are not calls of the interface have an HTTP status of their own: 404, 405, 413 and 415, with
//     the envelope of their form.
//   - A call is checked in this order: key, contract, field types, merchant, field values, hash, amount, bill type,
//     bill. A refusal changes nothing.
//   - Field types are those of the document, but a price may be a JSON number or a string of digits in either form.
//     null counts as absent.
//   - A bill id has letters, digits, - and _. It is unique within its partner. A call with another member or merchant
//     than the create finds no bill.
//   - A callback address is any text: a callback to one that is no address fails.
//   - A destroy of a bill that is not unpaid and a cancel of one that is not paid is BILL_002, a resend BILL_006. One
//     of a part of the amount is VALIDATION_001.
//   - Names are case-sensitive. A duplicate name is refused; a name that is not in the document is ignored.
//   - A create with a past expireDt is refused. A bill that expires today can be created and paid until midnight in
//     Korea.
//   - A missing hash is VALIDATION_001. A wrong one, also one in upper case, is VALIDATION_002.
//   - apprOriginNum and apprOriginDt of a paid bill repeat apprNum and apprDt. After a cancel, apprNum and apprDt are
//     those of the cancel.
//   - A merchant mapping of an unregistered merchant is PARTNER_004, its status PARTNER_MAPPING_003. A key of a removed
//     partner is PARTNER_005.
//   - A callback goes to the bill's own address, in the form in which the bill was created. If the bill has none, it
//     goes to that of the merchant's registration, in v2. Its body is what a read showed at the payment, also if it
//     is sent again later. With CallbackCancelDestroy, cancels and destroys have callbacks too, each with its own
//     attempts.
//   - A message (a TALK bill, any legacy bill, a resend) costs a prepaid partner one point.
//
// DefaultPartners lists the partners.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// bodyLimit bounds the body of a request. The document has no limit.
const bodyLimit = 1 << 20

// Service is the billing service. It is an http.Handler for the documented paths and for the pages that its replies
// link to. It is safe for concurrent use.
type Service struct {
	store
	*sender
}

// New returns a service with an empty store in memory. It panics if o.Check fails. A service that has sent callbacks
// must be closed.
func New(o Options) *Service {
	s, err := Open("", o)
	if err != nil {
		panic(err) // a programming error: the options are invalid
	}
	return s
}

// Open is New with a data file, which is created if it does not exist. Before the service answers a call, the file
// has its effect, so that it survives a kill. Faults, call counts and the log are not in the file. Only one process can
// open a file.
func Open(file string, o Options) (*Service, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Service{store: store{opt: o.withDefaults()}}
	if s.opt.Transport == nil {
		s.opt.Transport = s.newTransport()
	}
	t := &s.t
	t.opt, t.calls, t.open = &s.opt, map[string]int{}, map[callbackKey]struct{}{}
	t.pages = map[string]func(url.Values) screen{}
	t.Bills.index = func(b *Bill) {
		token := t.opt.token("bill", b.Partner, b.ID)
		t.pages[payPath+token] = func(form url.Values) screen { return s.payPage(b.key(), token, form) }
	}
	t.Mappings.index = func(m *mapping) {
		token := t.opt.token("signup", m.Partner, m.MemberID, m.MerchantID)
		t.pages[signUpPath+token] = func(form url.Values) screen { return s.signUpPage(m.key(), token, form) }
	}
	t.Callbacks.index = func(c *Callback) {
		delete(t.open, c.key())
		if c.State == callbackWaiting {
			t.open[c.key()] = struct{}{}
		}
	}
	var err error
	if file != "" {
		if s.disk, err = openDisk(file, &t.rows, s.opt.Log); err != nil {
			err = fmt.Errorf("data file %s: %w", file, err)
		}
	}
	if err == nil { // partners and merchants that the file does not have
		err = s.update(func(t *tables) error { return t.addPartners(s.opt.Partners...) })
	}
	if err != nil {
		_ = s.disk.close()
		return nil, err
	}
	s.sender = newSender(s)
	s.sendDue()
	return s, nil
}

// Close interrupts running attempts to deliver callbacks and closes the data file. The attempts are made again after
// the next start. The service must not be called afterwards.
func (s *Service) Close() error {
	s.sender.close()
	return s.disk.close()
}

// Now returns the time of the service's clock, in the zone of Korea.
func (s *Service) Now() (now time.Time) {
	s.view(func(t *tables) { now = t.now })
	return now
}

// SetClock sets the service's clock, which continues from there. The zero time resets it to the real time. Callbacks
// that become due are sent.
func (s *Service) SetClock(now time.Time) error {
	err := s.update(func(t *tables) error {
		self := t.serviceState()
		if self.Ahead += now.Sub(t.now); now.IsZero() {
			self.Ahead = 0
		}
		t.State.put(self)
		return nil
	})
	s.sendDue()
	return err
}

// Calls returns the number of calls by operation (bill.create, mapping.list …), in both forms and with any result.
// Requests with another path or method count as "none".
func (s *Service) Calls() (counts map[string]int) {
	s.view(func(t *tables) { counts = maps.Clone(t.calls) })
	return counts
}

// ServeHTTP answers one call of the interface ("Endpoints").
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The path is compared as sent, but for doubled slashes: with escapes it is another path.
	path := strings.ReplaceAll(r.URL.EscapedPath(), "//", "/") // as some clients join the base URL
	if strings.HasPrefix(path, payPath) || strings.HasPrefix(path, signUpPath) {
		s.page(w, r)
		return
	}
	op := operationOf(path)
	known := op.name != opNone
	if known && r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		op = operation{name: opNone}
	}
	body, status := readBody(w, r, bodyLimit)
	c := decode(op, formOf(path), body)
	x := &Exchange{
		Facts: Facts{
			Began: time.Now(), Operation: op.name, Form: string(c.form), Bill: c.ID, Code: codeError,
			ContentType: r.Header.Get("Content-Type"), UserAgent: r.UserAgent(),
		},
		Partner: c.Partner, Method: r.Method, Path: path, Request: body, base: "http://" + r.Host,
	}
	if s.opt.BaseURL != "" {
		x.base = strings.TrimRight(s.opt.BaseURL, "/")
	}
	s.view(func(t *tables) { // faults apply in the order of arrival
		t.calls[x.Operation]++
		x.Clock, x.Before = t.now, t.stateOf(x.Partner, x.Bill)
		x.Fault = t.takeFault(x.Operation, x.Partner, x.Bill)
	})
	defer s.observe(x) // also if deliver aborts the connection
	switch {
	case !known:
		status = http.StatusNotFound
	case op.name == opNone:
		status = http.StatusMethodNotAllowed
	case status != http.StatusOK:
		x.Code = codeInvalid
	case x.ContentType != "" && !hasType(r, "application/json"): // the document has no refusal for a missing type
		x.Code, status = codeInvalid, http.StatusUnsupportedMediaType
	case x.Fault.Code != "":
		x.Code = x.Fault.Code
	case x.Fault.Late > 0:
		late := *x
		time.AfterFunc(x.Fault.Late, func() { s.answer(c, &late) })
	case x.Fault.Skip:
	default:
		s.answer(c, x)
		if x.Fault.Pay && x.Done {
			_ = s.Pay(c.Partner, c.ID) // a fault can decline it
		}
	}
	if status == http.StatusOK && !x.Done && x.Code != codeSuccess {
		status = s.opt.FailureStatus
	}
	if !x.Done {
		x.Reply = s.opt.failure(c.form, x)
	}
	if x.Fault.Body != "" {
		x.Reply = Body(x.Fault.Body)
	}
	deliver(w, r, x, status)
}

// answer runs a call as one transaction and encodes the reply. A refusal changes nothing, and has no reply.
// The effect of a success is in the data file before answer returns.
func (s *Service) answer(c *call, x *Exchange) {
	c.x, c.opt = x, &s.opt
	c.ID = cmp.Or(x.Fault.ShowBill, c.ID)
	err := error(invalid(""))
	if !c.notObject {
		err = s.update(func(t *tables) error {
			x.Clock, x.Before = t.now, t.stateOf(x.Partner, x.Bill)
			c.t = t
			if err := c.check(); err != nil {
				return err
			}
			if !c.onBill() {
				c.checks("merchants")
			}
			return c.op.run(c)
		})
	}
	var refused code
	var field invalid
	switch {
	case errors.As(err, &refused), errors.As(err, &field):
		x.Code, x.Field = cmp.Or(string(refused), codeInvalid), string(field)
		return
	case err != nil:
		s.opt.Log.Error("a call failed", "operation", c.op.name, "err", err)
		return
	case x.Fault.Show == showAbsent:
		x.Code = codeNotFound
		return
	case x.Fault.Show != "":
		c.found.show(x.Fault.Show)
	}
	if s.opt.CallbackCancelDestroy || c.op.name == opMapMerchant {
		s.sendDue()
	}
	x.Reply, x.Code, x.Done = c.success(), codeSuccess, true
}
