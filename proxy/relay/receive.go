package relay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// pathMark precedes the id in the path of an address. The part before it comes from public_url and is ignored, so
// that addresses stay valid when public_url changes.
const pathMark = "/callback/"

// storeWithin is how long a callback waits for the store. After that the upstream has to try again.
const storeWithin = 5 * time.Second

// CallbackOperation is the operation of callbacks of payments, in the ledger.
const CallbackOperation = "callback.payment"

// Owns reports whether a path has the form of a callback address.
func Owns(path string) bool { return idOf(path) != "" }

func idOf(address string) string {
	before, id := path.Split(address)
	if !strings.HasSuffix(before, pathMark) || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

// ServeHTTP receives one callback of an upstream. It answers with the documented success only after the callback is
// stored (R30); any other answer makes the upstream try again.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := r.current.Load()
	in := inbound{relay: r, s: s, w: w, form: s.config.Table.Forms()[0]}
	if refusal := in.receive(req); refusal != nil {
		in.refuse(refusal)
		return
	}
	in.write(http.StatusOK, s.rows.Answer(in.form))
}

// inbound is one callback that is being received.
type inbound struct {
	relay   *Relay
	s       *settings
	w       http.ResponseWriter
	form    translate.Form // the upstream's
	address store.Address
}

// A refusal is why a callback is not taken.
type refusal struct {
	status       int
	reason, text string // for metric and log, and for the upstream
}

// anotherPartner is the reason of a callback with a key that is not of the partner of its address.
const anotherPartner = "another_partner"

// receive finds the address of a callback and stores the callback.
func (in *inbound) receive(req *http.Request) *refusal {
	r, s, id := in.relay, in.s, idOf(req.URL.EscapedPath())
	switch {
	case id == "":
		return &refusal{http.StatusNotFound, "path", "there is no such callback address"}
	case req.Method != s.rows.Method:
		in.w.Header().Set("Allow", s.rows.Method)
		return &refusal{http.StatusMethodNotAllowed, "method", "a callback is a " + s.rows.Method}
	}
	ctx, cancel := context.WithTimeout(req.Context(), storeWithin)
	defer cancel()
	lost := ""
	address, err := r.store.Address(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		lost = "/" + lostName(id)
		for _, u := range s.config.Upstreams {
			if r.store.SealedFor(u.Name, id) {
				in.address.Upstream, in.form, lost = u.Name, u.Form, u.Name+"/"+id[:store.SharedDigits]
			}
		}
		address, err = r.store.Address(ctx, lostMark+lost)
		address.ID, address.Upstream = id, cmp.Or(in.address.Upstream, address.Upstream)
	}
	switch {
	case errors.Is(err, store.ErrNotFound) && r.mayLackAddresses(ctx):
		return in.lost(req, lost)
	case errors.Is(err, store.ErrNotFound):
		return &refusal{http.StatusNotFound, "unknown_address", "there is no such callback address"}
	case err != nil:
		return in.fault(err)
	}
	in.address = address
	upstream := s.config.Upstreams.Find(address.Upstream)
	if upstream == nil {
		return in.fault(errors.New("the callback address is of an upstream that is not in the config"))
	}
	in.form = upstream.Form
	body, refused := in.read(req)
	if refused != nil {
		return refused
	}
	return in.accept(req, body)
}

// ErrNoMemory is the error of a request's body for which there is no memory. The upstream has to try again.
var ErrNoMemory = errors.New("there is no memory for the body")

// read reads the body, bounded (R34).
func (in *inbound) read(req *http.Request) ([]byte, *refusal) {
	limit := int64(in.s.config.Limits.Body)
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	over := int64(len(body)) > limit
	if over || err != nil {
		in.w.Header().Set("Connection", "close")
	}
	switch {
	case over:
		return nil, &refusal{
			http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the body is larger than %d bytes", limit),
		}
	case errors.Is(err, ErrNoMemory):
		in.w.Header().Set("Retry-After", "1")
		return nil, &refusal{http.StatusServiceUnavailable, "no_memory", "too many bodies are held now"}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "broken", "the body broke off"}
	}
	coding, ignored := codingOf(req.Header, body)
	if coding != "" {
		return nil, &refusal{http.StatusUnsupportedMediaType, "coding", "the body must come without a content coding"}
	}
	if ignored {
		in.relay.metrics.ignored(in.address.Upstream)
	}
	return body, nil
}

// accept translates a callback, checks that it belongs to its address, and stores it.
func (in *inbound) accept(req *http.Request, body []byte) *refusal {
	r, a := in.relay, in.address
	ctx, cancel := context.WithTimeout(req.Context(), storeWithin)
	defer cancel()
	given := req.Header.Get("Content-Type")
	c, notice, refused := in.callback(given, body)
	if refused != nil && refused.reason == anotherPartner { // its key may have become one of the partner a moment ago
		if _, unread := r.store.Rollout(ctx); unread != nil {
			return in.fault(unread)
		}
		c, notice, refused = in.callback(given, body)
	}
	if refused != nil {
		return refused
	}
	var shows []ledger.Event
	if r.contradicted != nil && c.Bill != "" && c.Says != "" {
		shows = append(shows, ledger.Event{
			Call: ledger.Call{
				At: c.Received, Operation: CallbackOperation, Request: c.ID, Upstream: c.Upstream, Merchant: c.Merchant,
			},
			What: ledger.Told{Shows: r.shows(in.s.config.Table, c.Says, notice.Facts(body))},
		})
	}
	got, err := r.store.Accept(ctx, c, in.s.callbacks.Window, shows...)
	if errors.Is(err, store.ErrFurtherKey) { // since the address was read
		if _, unread := r.store.Rollout(ctx); unread != nil {
			return in.fault(unread)
		}
		if id := r.store.Identity(a.Partner); id != a.Partner {
			in.address.Partner = id
			return in.accept(req, body)
		}
	}
	switch {
	case err != nil:
		return in.fault(err)
	case !got.Fresh:
		r.metrics.repeated.WithLabelValues(a.Upstream).Inc()
	default:
		r.superseded(got.Ended)
		r.metrics.accepted.WithLabelValues(a.Upstream).Inc()
		r.metrics.passage(a.Upstream, notice)
		r.Wake()
	}
	if len(got.Found) > 0 {
		r.contradicted(got.Bill, got.Found)
	}
	if got.Unrecorded != nil {
		r.storeLog.Error("the ledger cannot record what a callback shows of a bill", "error", got.Unrecorded.Error())
	}
	return nil
}

// callback translates a callback, and checks that it belongs to its address.
func (in *inbound) callback(given string, body []byte) (c store.Callback, _ translate.Notice, _ *refusal) {
	r, a := in.relay, in.address
	notice, translated, contentType, refused := in.translate(given, body)
	if refused != nil {
		return c, notice, refused
	}
	// Whoever knows the address, which cannot be guessed, is taken for the upstream. A key and a bill in the body
	// must be those of the address.
	bill, keys := a.Bill, notice.Values[billing.Partner]
	for _, key := range keys {
		if r.store.Identity(partner.Of(key)) != r.store.Identity(a.Partner) {
			return c, notice, &refusal{http.StatusNotFound, anotherPartner, "the callback is not for this address"}
		}
	}
	if in.s.callbacks.RequireKey && len(keys) == 0 {
		return c, notice, &refusal{http.StatusForbidden, "no_key", "the callback names no partner's key"}
	}
	for _, named := range notice.Values[billing.Bill] {
		if bill != "" && named != bill {
			return c, notice, &refusal{http.StatusNotFound, "another_bill", "the callback is not for this address"}
		}
		bill = named
	}
	bill = nameOf(bill) // the callback of a registration may name anything
	host := ""
	if u, err := in.s.guard.check(a.URL); err == nil {
		host = hostOf(u)
	}
	c.Notice = store.Notice{
		ID: newID(), Address: a.ID, Upstream: a.Upstream, Partner: a.Partner, Bill: bill, Form: a.Form, URL: a.URL,
		Host: host, Order: subject(a, bill), Digest: sha256.Sum256(translate.Canonical(nil, body)),
		ContentType: contentType, Body: translated, Received: r.now(), Merchant: a.Merchant,
	}
	about := in.s.config.Table.Operation(a.Operation)
	if bill != "" {
		about = billing.CreateOperation(in.s.config.Table) // also of a bill that uses the address of a registration
	}
	c.Once = about != nil && !about.StateReturns
	c.Next = c.Received.Add(time.Duration(in.s.callbacks.Schedule[0]))
	if bill == "" {
		return c, notice, nil
	}
	// Also without callbacks.reconcile, which may have made a callback before it was switched off.
	state := r.StateIn(c)
	c.Says = state.Means
	// A state that the table does not know is always news, and so is what may not report a state at all.
	if !state.Unknown && notice.Recognised != translate.Unrecognised {
		c.Later = in.s.later(c.Says)
		if c.Says != "" && a.Bill != "" {
			later := slices.DeleteFunc(strings.Fields(c.Later), func(m string) bool { return m == c.Says })
			c.Outdone = strings.Join(later, " ")
		}
	}
	if in.s.callbacks.Reconcile != nil && a.Bill != "" { // that of a registration cannot be read
		// Of an old bill once more: it is missing no more.
		c.Look = cmp.Or(in.s.nextLook(a.Created, c.Received), c.Received)
	}
	return c, notice, nil
}

// translate returns the body for the partner and its content type. Whether it is JSON is decided by the body, not by
// its content type: clients send JSON as text, or with the form type that their library sets by default.
func (in *inbound) translate(given string, body []byte) (
	_ translate.Notice, translated []byte, contentType string, refused *refusal,
) {
	translated, notice, err := in.s.rows.Translate(nil, body, in.form, translate.Form(in.address.Form))
	contentType = "application/json; charset=utf-8"
	if err != nil {
		// Another parser could read it differently: a duplicate field, invalid UTF-8, too many levels (R01).
		refused = &refusal{http.StatusBadRequest, "ambiguous", err.Error()}
	} else if notice.Recognised == translate.Unrecognised && !translate.IsJSON(body) {
		if contentType = formType(given); contentType == "" || len(body) == 0 {
			text := "a callback must be JSON, or a form of the type " + formMedia
			refused = &refusal{http.StatusUnsupportedMediaType, "type", text}
		}
	}
	return notice, translated, contentType, refused
}

// subject is what a callback is about: its bill, else the merchant of the registration, else the address, if that is
// of one bill whose id is not known. Callbacks of one subject keep their order, and repetitions are recognised among
// them.
func subject(a store.Address, bill string) string {
	switch {
	case bill != "":
		return string(a.Partner) + " " + bill
	case a.Store != "":
		return a.Store
	}
	return a.ID
}

// merchant is the subject of the merchant of a registration. That of a bill never begins so. The names are hashed, as
// they need not be sent, and because an index of PostgreSQL takes no long text.
func merchant(id partner.ID, names string) string {
	return fmt.Sprintf("merchant %x", sha256.Sum256([]byte(string(id)+" "+names)))
}

// fault answers that the callback cannot be stored now, so that the upstream sends it again.
func (in *inbound) fault(err error) *refusal {
	in.relay.storeLog.Error("a callback cannot be stored", "error", err.Error())
	in.w.Header().Set("Retry-After", "60")
	return &refusal{http.StatusServiceUnavailable, "store", "the callback cannot be stored now. Send it again later"}
}

// refuse answers with a refusal, in the upstream's form if the upstream is known.
func (in *inbound) refuse(f *refusal) {
	upstream := cmp.Or(in.address.Upstream, "none")
	in.relay.metrics.refused.WithLabelValues(upstream, f.reason).Inc()
	// Calls to unknown addresses are counted but not logged: anybody can make them.
	if in.address.ID != "" && f.reason != "store" {
		in.relay.log.Warn("a callback is refused", "upstream", upstream, "partner", in.address.Partner.Short(),
			"operation", in.address.Operation, "reason", f.reason)
	}
	table := in.s.config.Table
	in.write(f.status, table.Envelope(in.form).AppendFailure(nil, table.OwnCode(translate.OwnFailed), f.text))
}

func (in *inbound) write(status int, body []byte) {
	in.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	in.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	in.w.WriteHeader(status)
	_, _ = in.w.Write(body) // an upstream that has gone tries again, and the repetition is recognised
}

const formMedia = "application/x-www-form-urlencoded"

// formType is the content type of a form, rewritten for a header of ours (R22); "" if it is another type.
func formType(given string) string {
	kind, parameters, err := mime.ParseMediaType(given)
	if kind != formMedia {
		return ""
	}
	if err != nil {
		parameters = nil
	}
	return cmp.Or(mime.FormatMediaType(kind, parameters), kind) // some that can be read cannot be written
}

// newID returns a new webhook-id.
func newID() string { return "cb_" + random() }
