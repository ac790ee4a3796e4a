// Package sandbox is the whole billing service of the interface document, in
// one process, for trying and certifying an integration and for testing the
// bridge against. It is NOT FOR PRODUCTION: it moves no money, sends no messages
// and keeps its keys in the open.
//
//	s := sandbox.New(sandbox.Options{})
//	go http.ListenAndServe("127.0.0.1:8081", s)           // what partners and customers call
//	go http.ListenAndServe("127.0.0.1:8082", s.Control()) // what a tester calls
//	err := s.Pay("demo-partner-key", "1234567890ABCDEFGHIJ")
//
// A payment, here, on the control surface or on the page behind a short URL, is
// called back to the partner ("Events"). Open keeps everything in a file.
//
// Both forms, legacy and v2, are thin codecs over one service and one store: a
// bill made in one form is read, destroyed and cancelled in the other. The
// package shares no code with the bridge, so that it can be its oracle.
//
// It is strict where the document states a rule. Where the document is silent
// it does what public partner integrations were seen to rely on, and each such
// choice is a field of Options or a line here:
//
//   - Only what is no call of the interface has an HTTP status of its own: 404, 405,
//     413 and 415, in the envelope of its form.
//   - A call is checked in this order: key, contract, field types, store, field
//     values, hash, amount, bill type, then the bill. A refusal changes nothing.
//   - Field types are those of the document. A price may be a JSON number or a
//     string of digits in either form. null is the same as absent.
//   - Names are compared exactly and a name given twice is refused; a name that the
//     document does not know is ignored.
//   - A bill whose expireDt is over in Korea is refused. One that expires today can
//     be made and paid until midnight.
//   - A missing hash is VALIDATION_001, a wrong one (also in upper case) VALIDATION_002.
//   - An approval is its own original: apprOriginNum and apprOriginDt of a paid bill
//     repeat apprNum and apprDt. After a cancel apprNum and apprDt are the cancel's.
//   - A merchant mapping of a store that is not registered is PARTNER_004, the status
//     of one PARTNER_MAPPING_003. A key whose partner is gone is PARTNER_005.
//   - Card networks fail a cancel with PAYMENT_001, PAYMENT_002 or PAYMENT_004, and
//     that of a keyed-in card with BILL_004: see Networks.
//   - A callback goes to the bill's own address in the form the bill was made in, or
//     to that of its store's registration in v2. What it says is what a read showed
//     when the bill was paid, also when it is sent again later. With an option
//     cancels and destroys are called back too, each on a schedule of its own.
//   - A message sent (a TALK bill, any legacy bill, a resend) costs a Prepaid partner one point.
//
// DefaultPartners lists the seeded partners.
package sandbox

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// bodyLimit bounds a request body; the document shows no limit, and no call of
// it comes near.
const bodyLimit = 1 << 20

// Service is the billing service: an http.Handler of the fifteen documented
// paths and of the pages that its replies point to. It is safe for concurrent
// use.
type Service struct {
	opt      Options
	store    *store
	faults   faultQueue
	networks networkQueue
	sender   *sender
	mu       sync.Mutex // guards calls
	calls    map[string]int
}

// New returns a service with an empty store in memory and the partners of o,
// which Check must accept. Close ends its callbacks; one that has sent none needs
// no Close.
func New(o Options) *Service {
	s, err := Open("", o)
	if err != nil {
		panic(err) // an option that Check refuses: a mistake of the program
	}
	return s
}

// Open is New with a data file, which is made if there is none: whatever the
// service has answered is in it, across restarts and kills. Faults, what the
// networks were told and the count of calls are of the process. Only one
// process can have a file open.
func Open(file string, o Options) (*Service, error) {
	o = o.withDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	st, err := openStore(file, o.Partners, o.Clock)
	if err != nil {
		return nil, err
	}
	s := &Service{opt: o, store: st, calls: map[string]int{}, sender: newSender(o.Transport, o.CallbackTimeout)}
	s.sendDue()
	return s, nil
}

// view reads the tables. It puts nothing.
func (s *Service) view(f func(*tables)) {
	_ = s.store.update(func(t *tables) error { // nothing is written, so nothing fails
		f(t)
		return nil
	})
}

// Now is the time of the service, in Korea.
func (s *Service) Now() (now time.Time) {
	s.view(func(t *tables) { now = t.now })
	return now
}

// SetClock sets the time of the service, which goes on from there. The zero time
// sets it right. Callbacks that have become due are sent.
func (s *Service) SetClock(now time.Time) error {
	err := s.store.update(func(t *tables) error {
		self := t.serviceState()
		real := t.now.Add(-self.Ahead)
		self.Ahead = 0
		if !now.IsZero() {
			self.Ahead = now.Sub(real)
		}
		t.state.put(self)
		return nil
	})
	s.sendDue()
	return err
}

// SetMaintenance turns MAINTAINED_METHOD for every call on or off.
func (s *Service) SetMaintenance(on bool) error {
	return s.store.update(func(t *tables) error {
		self := t.serviceState()
		self.Maintenance = on
		t.state.put(self)
		return nil
	})
}

func (s *Service) inMaintenance() (on bool) {
	s.view(func(t *tables) { on = t.serviceState().Maintenance })
	return on
}

// Calls returns how many calls of each operation (bill.create, mapping.list …)
// arrived, in both forms together and whatever became of them. Requests for
// other paths or with other methods count under "none".
func (s *Service) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

func (s *Service) count(op operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[string(op)]++
}

// ServeHTTP answers one call of the interface ("Endpoints").
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The path as it was sent: an escaped spelling of a documented path is another path.
	path := r.URL.EscapedPath()
	f := formOf(path)
	op := operationOf(path)
	if strings.HasPrefix(path, payPath) || strings.HasPrefix(path, signUpPath) {
		s.page(w, r)
		return
	}
	if op == opNone {
		s.count(op)
		deliver(w, r, Fault{}, http.StatusNotFound, s.failure(f, codeError, ""))
		return
	}
	if r.Method != http.MethodPost {
		s.count(opNone)
		w.Header().Set("Allow", http.MethodPost)
		deliver(w, r, Fault{}, http.StatusMethodNotAllowed, s.failure(f, codeError, ""))
		return
	}
	s.count(op)
	// A fault is taken when the call arrives, so that the order of calls decides
	// and not how long each takes.
	fault := s.faults.take(op)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			deliver(w, r, fault, http.StatusRequestEntityTooLarge, s.failure(f, codeInvalid, ""))
			return
		}
		deliver(w, r, fault, http.StatusBadRequest, s.failure(f, codeInvalid, ""))
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		deliver(w, r, fault, http.StatusUnsupportedMediaType, s.failure(f, codeInvalid, ""))
		return
	}
	code, reply := codeSuccess, []byte(nil)
	switch {
	case fault.Code != "":
		code = fault.Code
	case fault.Skip:
		code = codeError
	case s.inMaintenance():
		code = codeMaintained
	default:
		code, reply = s.answer(op, f, body, s.baseURL(r))
	}
	if reply == nil {
		reply = s.failure(f, code, "")
	}
	status := http.StatusOK
	if code != codeSuccess {
		status = s.opt.FailureStatus
	}
	deliver(w, r, fault, status, reply)
}

// answer decodes a call, runs it and encodes what came of it.
func (s *Service) answer(op operation, f form, body []byte, base string) (code string, reply []byte) {
	root, ok := parseObject(body)
	if !ok {
		return codeInvalid, nil
	}
	c := decode(op, f, root)
	if c.wrongType == "" && s.wrongPriceType(&c) {
		c.wrongType = c.fieldPath(c.names.price)
	}
	c.base = base
	res := s.run(&c)
	switch {
	case res.code != codeSuccess:
		return res.code, s.failure(f, res.code, res.field)
	case f == formLegacy:
		return res.code, s.encodeLegacy(&c, res)
	}
	return res.code, s.encodeV2(&c, res)
}

// wrongPriceType tells whether a price is of the type that an option refuses
// in the form of the call.
func (s *Service) wrongPriceType(c *call) bool {
	if c.form == formLegacy {
		return s.opt.StringPriceOnly && c.price != "" && !c.textPrice
	}
	return s.opt.NumericPriceOnly && c.textPrice
}

// failure is a refusal in the caller's form. field is a name of the document
// or empty; no value of a request ever goes into the text.
func (s *Service) failure(f form, code, field string) []byte {
	text := messageOf(code)
	if field != "" {
		text += " (" + field + ")"
	}
	if f == formLegacy {
		return marshal(legacyHead{Code: s.legacyCode(code), Msg: text})
	}
	return marshal(v2Envelope{Code: code, Message: text, Data: rawJSON(s.opt.FailureData)})
}

// run carries a decoded call out, as one transaction: a refusal changes nothing,
// and a success is on the disk, if there is one, before it is told.
func (s *Service) run(c *call) (res result) {
	err := s.store.update(func(t *tables) error {
		if res = s.dispatch(t, c); res.code != codeSuccess {
			return errRefused
		}
		return nil
	})
	if err != nil && !errors.Is(err, errRefused) {
		s.opt.Log.Error("a call is not carried out", "operation", string(c.op), "err", err)
		return refuse(codeError)
	}
	if s.opt.CallbackCancelDestroy && (c.op == opCancel || c.op == opDestroy) {
		s.sendDue()
	}
	return res
}

// errRefused ends the transaction of a call that is refused.
var errRefused = errors.New("refused")

func (s *Service) dispatch(t *tables, c *call) result {
	switch c.op {
	case opCreate:
		return s.create(t, c)
	case opResend:
		return s.resend(t, c)
	case opRead:
		return s.read(t, c)
	case opDestroy:
		return s.destroy(t, c)
	case opCancel:
		return s.cancel(t, c)
	case opRegister:
		return s.register(t, c)
	case opMappings:
		return s.listMappings(t, c)
	case opStatus:
		return s.status(t, c)
	case opMapMerchant:
		return s.mapMerchant(t, c)
	case opMerchants:
		return s.listMerchants(t, c)
	case opNone:
	}
	return refuse(codeError)
}

func (s *Service) baseURL(r *http.Request) string {
	if s.opt.BaseURL != "" {
		return strings.TrimRight(s.opt.BaseURL, "/")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// isJSON takes a missing content type too: the document names one, but shows
// no refusal for its absence.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "application/json"
}
