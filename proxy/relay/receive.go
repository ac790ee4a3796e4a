package relay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/proxy/tracing"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// pathMark precedes the id in the path of an address. The part before it comes from public_url and is ignored, so that addresses stay
// valid when public_url changes.
const pathMark = "/callback/"

// storeWithin is how long a callback waits for the store. After that the upstream has to try again.
const storeWithin = 5 * time.Second

// Owns reports whether a path has the form of a callback address.
func Owns(path string) bool { return idOf(path) != "" }

func idOf(path string) string {
	at := strings.LastIndex(path, pathMark)
	if at < 0 {
		return ""
	}
	id := path[at+len(pathMark):]
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

// ServeHTTP receives one callback of an upstream. It answers with the documented success only after the callback is stored (R30); any
// other answer makes the upstream try again.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := r.current.Load()
	in := inbound{relay: r, s: s, w: w, begun: time.Now(), form: s.config.Table.Forms()[0]}
	id := idOf(req.URL.EscapedPath())
	switch {
	case id == "":
		in.fail(http.StatusNotFound, "path", "there is no such callback address")
		return
	case req.Method != s.rows.Method():
		w.Header().Set("Allow", s.rows.Method())
		in.fail(http.StatusMethodNotAllowed, "method", "a callback is a "+s.rows.Method())
		return
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
		in.lost(req, lost)
		return
	case errors.Is(err, store.ErrNotFound):
		in.fail(http.StatusNotFound, "unknown_address", "there is no such callback address")
		return
	case err != nil:
		in.fault(err)
		return
	}
	in.address = address
	upstream := s.config.Upstreams.Find(address.Upstream)
	if upstream == nil {
		in.fault(errors.New("the callback address is of an upstream that is not in the config"))
		return
	}
	in.form = upstream.Form
	body, ok := in.read(req)
	if !ok {
		return
	}
	in.accept(req, body)
}

// inbound is one callback that is being received.
type inbound struct {
	relay   *Relay
	s       *settings
	w       http.ResponseWriter
	begun   time.Time
	form    translate.Form // the upstream's
	address store.Address
}

// ErrNoMemory is the error of a request's body for which there is no memory. The upstream has to try again.
var ErrNoMemory = errors.New("there is no memory for the body")

// read reads the body, bounded (R34).
func (in *inbound) read(req *http.Request) ([]byte, bool) {
	limit := int64(in.s.config.Limits.Body)
	coding := strings.Join(req.Header.Values("Content-Encoding"), ",") // the header may have several lines
	var body bytes.Buffer
	_, err := body.ReadFrom(io.LimitReader(req.Body, limit+1))
	switch {
	case int64(body.Len()) > limit:
		in.w.Header().Set("Connection", "close")
		in.fail(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
	case errors.Is(err, ErrNoMemory):
		in.w.Header().Set("Connection", "close")
		in.w.Header().Set("Retry-After", "1")
		in.fail(http.StatusServiceUnavailable, "no_memory", "too many bodies are held now")
	case err != nil:
		in.w.Header().Set("Connection", "close")
		in.fail(http.StatusBadRequest, "broken", "the body broke off")
	case coding != "" && !strings.EqualFold(coding, "identity"):
		in.fail(http.StatusUnsupportedMediaType, "coding", "the body must come without a content coding")
	default:
		return body.Bytes(), true
	}
	return nil, false
}

// accept translates a callback, checks that it belongs to its address, and stores it.
func (in *inbound) accept(req *http.Request, body []byte) {
	r, a := in.relay, in.address
	notice, translated, contentType, ok := in.translate(req, body)
	if !ok {
		return
	}
	// Whoever knows the address, which cannot be guessed, is taken for the upstream. A key and a bill in the body must be
	// those of the address.
	bill := a.Bill
	for _, key := range notice.Values[billing.Partner] {
		if partner.Of(key) != a.Partner {
			in.fail(http.StatusNotFound, "another_partner", "the callback is not for this address")
			return
		}
	}
	if in.s.callbacks.RequireKey && len(notice.Values[billing.Partner]) == 0 {
		in.fail(http.StatusForbidden, "no_key", "the callback names no partner's key")
		return
	}
	for _, named := range notice.Values[billing.Bill] {
		if bill != "" && named != bill {
			in.fail(http.StatusNotFound, "another_bill", "the callback is not for this address")
			return
		}
		bill = named
	}
	bill = nameOf(bill) // the callback of a registration may name anything
	host := ""
	if u, err := in.s.guard.check(a.URL); err == nil {
		host = hostOf(u)
	}
	c := store.Callback{
		ID: newID(), Address: a.ID, Upstream: a.Upstream, Partner: a.Partner, Bill: bill, Form: a.Form, URL: a.URL, Host: host,
		Order: subject(a, bill), Digest: sha256.Sum256(translate.Canonical(nil, body)), ContentType: contentType, Body: translated,
		Received: r.now(),
	}
	about := in.s.config.Table.Operation(a.Operation)
	if bill != "" {
		about = billing.CreateOperation(in.s.config.Table) // also of a bill that uses the address of a registration
	}
	c.Once = about != nil && !about.StateReturns
	c.Next = c.Received.Add(time.Duration(in.s.callbacks.Schedule[0]))
	ctx, cancel := context.WithTimeout(req.Context(), storeWithin)
	defer cancel()
	fresh, err := r.store.Accept(ctx, c, time.Duration(in.s.callbacks.Window))
	if err != nil {
		in.fault(err)
		return
	}
	if fresh {
		r.metrics.accepted.WithLabelValues(a.Upstream).Inc()
		r.metrics.passage(a.Upstream, notice)
		if len(notice.Values[billing.Partner]) == 0 {
			r.metrics.keyless.WithLabelValues(a.Upstream).Inc()
		}
		in.trace(req, c)
		r.Wake()
	} else {
		r.metrics.repeated.WithLabelValues(a.Upstream).Inc()
	}
	in.write(http.StatusOK, in.s.rows.Answer(in.form))
}

// trace exports the span of a callback that was stored, with a link to the span of the upstream.
func (in *inbound) trace(req *http.Request, c store.Callback) {
	const route = pathMark + "{id}" // the id is a secret of the upstream
	span := in.relay.tracing.Callback(c.ID, req.Header, req.Method+" "+route, in.begun)
	if !span.Sampled() {
		return
	}
	span.String(tracing.Method, req.Method)
	if public := in.s.callbacks.PublicURL; public.URL != nil { // nil if a reload has removed the section callbacks
		span.String(tracing.Scheme, public.Scheme)
	}
	span.String(tracing.Path, route)
	span.String(tracing.Route, route)
	span.Int(tracing.Status, http.StatusOK)
	span.String(tracing.Operation, callbackOperation)
	span.String(tracing.Upstream, c.Upstream)
	span.String(tracing.Partner, c.Partner.Short())
	span.End()
}

// callbackOperation is the attribute billbridge.operation in the spans of a callback.
const callbackOperation = "callback.payment"

// translate returns the body for the partner and its content type. Whether it is JSON is decided by the body, not by its content type:
// clients send JSON as text, or with the form type that their library sets by default.
func (in *inbound) translate(req *http.Request, body []byte) (_ translate.Notice, translated []byte, contentType string, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // some libraries send a byte order mark, which is not part of JSON
	translated, notice, err := in.s.rows.Translate(nil, body, in.form, translate.Form(in.address.Form))
	contentType = "application/json; charset=utf-8"
	if err == nil && notice.Recognised == translate.Unrecognised && !translate.IsJSON(body) {
		given := req.Header.Get("Content-Type")
		contentType = formType(given)
		if given == "" { // it is a form if it names a key or a bill as one
			if unlabelled, wrong := in.s.rows.ReadForm(body); wrong == nil && len(unlabelled.Values) > 0 {
				contentType = formMedia
			}
		}
		if contentType == "" || len(body) == 0 {
			in.fail(http.StatusUnsupportedMediaType, "type", "a callback must be JSON, or a form of the type "+formMedia)
			return notice, nil, "", false
		}
		notice, err = in.s.rows.ReadForm(body)
	}
	if err != nil {
		// Another parser could read it differently: a duplicate field, invalid UTF-8, too many levels (R01).
		in.fail(http.StatusBadRequest, "ambiguous", err.Error())
		return notice, nil, "", false
	}
	return notice, translated, contentType, true
}

// subject is what a callback is about: its bill, else the merchant of the registration, else the address, if that is of one bill whose
// id is not known. Callbacks of one subject keep their order, and repetitions are recognised among them.
func subject(a store.Address, bill string) string {
	switch {
	case bill != "":
		return string(a.Partner) + " " + bill
	case strings.HasPrefix(a.Store, merchantMark):
		return a.Store
	case a.Store != "": // of an earlier version, which stored the names
		return merchant(a.Partner, a.Store)
	}
	return a.ID
}

// merchantMark begins the subject of a merchant. That of a bill never begins with it, nor do the quoted names of earlier versions.
const merchantMark = "merchant "

// merchant is the subject of the merchant of a registration. The names are hashed, as they need not be sent, and because an index of
// PostgreSQL takes no long text.
func merchant(id partner.ID, names string) string {
	sum := sha256.Sum256([]byte(string(id) + " " + names))
	return merchantMark + hex.EncodeToString(sum[:])
}

// fault answers that the gateway cannot take the callback now, so that the upstream tries again.
func (in *inbound) fault(err error) {
	in.relay.storeLog.Error("a callback cannot be taken", "error", err.Error())
	in.w.Header().Set("Retry-After", "60")
	in.fail(http.StatusServiceUnavailable, "store", "the callback cannot be taken just now")
}

// fail refuses a callback, in the upstream's form if the upstream is known.
func (in *inbound) fail(status int, reason, text string) {
	upstream := in.address.Upstream
	if upstream == "" {
		upstream = "none"
	}
	in.relay.metrics.refused.WithLabelValues(upstream, reason).Inc()
	if in.address.ID != "" && reason != "store" { // calls to unknown addresses are counted but not logged: anybody can make them
		in.relay.log.Warn("a callback is refused", "upstream", upstream, "partner", in.address.Partner.Short(), "operation", in.address.Operation, "reason", reason)
	}
	in.write(status, in.s.config.Table.AppendFailure(nil, in.form, "ERROR", text))
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
