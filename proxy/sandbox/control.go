package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"
)

// Control returns the handler of the control API, which does what customers, card companies and the service's operator
// do. It needs its own listener. Requests and responses are JSON; an error is {"error": "…"}. The partner of a bill
// may be omitted unless several partners have a bill with this id. Requests from web pages of another origin are
// refused. With Options.ControlToken every request needs the token, or that of a partner. Without it only connections
// to a loopback address are answered, under a loopback name. A request with Partner.ControlToken sees and changes only
// what that partner has; calls for the whole service are refused.
//
//	GET    /partners               the partners, their keys, contracts and merchants
//	POST   /partners               a Partner, such as {"api_key","name","control_token"}: adds or changes a partner
//	DELETE /partners/{key}         removes a partner: its calls return PARTNER_005
//	GET    /bills                  all bills; ?partner=KEY for those of one partner
//	GET    /bills/{billId}         one bill; ?partner=KEY if several partners have this id
//	POST   /bills/{billId}/pay     {"partner","method","months","cash_receipt","cash_number"}, all optional: pays
//	POST   /bills/{billId}/expire  {"partner"}: makes yesterday the last day of an unpaid bill
//	POST   /bills/{billId}/cancel  {"partner"}: cancels a paid bill, as the card company does at the wish of a customer
//	POST   /bills/{billId}/notify  {"partner"}: sends the callbacks of the bill again
//	GET    /callbacks              all callbacks with their attempts; ?partner=KEY, ?bill=BILLID
//	GET    /transactions/{txId}    the paid bill of a transaction, in a v2 envelope; BILL_005 if there is none
//	POST   /mappings/complete      {"partner","member","merchant"}: completes a sign-up
//	POST   /points                 {"partner","points"}: sets the points of a prepaid partner
//	GET    /clock                  the time of the service
//	POST   /clock                  {"now":"2026-12-01T09:00:00+09:00"} or {"advance":"1h"}: sets the time
//	DELETE /clock                  resets the time to the real one
//	POST   /faults                 {"operation","partner","bill","count","until","name","delay_ms","status","body",
//	                               "code","truncate","drop","gzip","skip","show","show_bill","pay","amount",
//	                               "copies"}: adds a fault
//	DELETE /faults                 removes unused faults; ?partner=KEY for those of that partner
//	GET    /log                    the last 500 exchanges, each with a curl command; ?partner=KEY, ?operation=bill.read
func (s *Service) Control() http.Handler {
	r := control{mux.NewRouter().SkipClean(true)}
	handle(r, "GET /partners", func(of ofPartner, _ ask) (any, error) { return s.partnerViews(of), nil })
	change(r, "POST /partners", func(in Partner, _ ask) error { return s.AddPartner(in) })
	change(r, "DELETE /partners/{id}", func(_ none, a ask) error { return s.RemovePartner(a.id()) })
	handle(r, "GET /bills", func(of ofPartner, _ ask) (any, error) {
		return slices.DeleteFunc(s.Bills(), func(b Bill) bool { return of.excludes(b.Partner) }), nil
	})
	for call, do := range map[string]func(partnerKey, billID string) (Bill, error){
		"GET /bills/{id}": s.Bill, "POST /bills/{id}/expire": s.Expire, "POST /bills/{id}/cancel": s.Cancel,
	} {
		handle(r, call, func(of ofPartner, a ask) (any, error) { return do(of.Partner, a.id()) })
	}
	handle(r, "POST /bills/{id}/pay", func(in struct {
		ofPartner
		Payment
	}, a ask,
	) (any, error) {
		return s.PayWith(in.Partner, a.id(), in.Payment)
	})
	change(r, "POST /bills/{id}/notify", func(in ofPartner, a ask) error { return s.Notify(in.Partner, a.id()) })
	handle(r, "GET /callbacks", func(of ofPartner, a ask) (any, error) {
		return slices.DeleteFunc(s.Callbacks(), func(c Callback) bool {
			return of.excludes(c.Partner) || cmp.Or(a.query("bill"), c.BillID) != c.BillID
		}), nil
	})
	handle(r, "GET /transactions/{id}", func(_ none, a ask) (any, error) {
		return s.transaction(a.id()), nil
	})
	change(r, "POST /mappings/complete", func(in struct {
		ofPartner
		Member   string `json:"member"`
		Merchant string `json:"merchant"`
	}, _ ask,
	) error {
		return s.CompleteMapping(in.Partner, in.Member, in.Merchant)
	})
	handle(r, "POST /points", func(in struct {
		ofPartner
		Points int `json:"points"`
	}, _ ask,
	) (any, error) {
		return in, s.SetPoints(in.Partner, in.Points)
	})
	handle(r, "GET /clock", func(ofPartner, ask) (any, error) { return s.clock(nil) })
	handle(r, "POST /clock", func(in clockView, _ ask) (any, error) { return s.setClock(in) })
	handle(r, "DELETE /clock", func(none, ask) (any, error) { return s.clock(s.SetClock(time.Time{})) })
	handle(r, "POST /faults", func(in struct {
		Fault
		DelayMS int `json:"delay_ms,omitempty"`
	}, _ ask,
	) (any, error) {
		in.Delay = time.Duration(in.DelayMS) * time.Millisecond
		return in, s.AddFault(in.Fault)
	})
	change(r, "DELETE /faults", func(of ofPartner, _ ask) error {
		s.ClearFaultsOf(of.Partner)
		return nil
	})
	handle(r, "GET /log", func(of ofPartner, a ask) (any, error) {
		return slices.DeleteFunc(s.Exchanges(), func(x Exchange) bool {
			return of.excludes(x.Partner) || cmp.Or(a.query("operation"), x.Operation) != x.Operation
		}), nil
	})
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w, http.StatusNotFound, "no such path")
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w, http.StatusMethodNotAllowed, "method not allowed")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		of, status, text := s.Admit(asked, BearerToken(asked))
		switch status {
		case 0:
			r.ServeHTTP(w, asked.WithContext(context.WithValue(asked.Context(), accessKey{}, of)))
			return
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		Refuse(w, status, text)
	})
}

// accessKey is the key of the Access in the context of an admitted call.
type accessKey struct{}

// none is the body of a call or a reply that has no fields.
type none struct{}

// ofPartner is the part of a body, or the query of a GET or DELETE, that names a partner.
type ofPartner struct {
	Partner string `json:"partner"`
}

func (of *ofPartner) owner() *string { return &of.Partner }

// excludes reports whether another partner than key is named.
func (of ofPartner) excludes(key string) bool { return cmp.Or(of.Partner, key) != key }

var errNotOwned = &refusedError{
	http.StatusForbidden, "the token is that of a partner: it is only for what the partner has",
}

// limit limits a call to the partner whose token it has, if only is not empty. in is the call's body.
func (a ask) limit(in any, only string) error {
	of, owned := in.(interface{ owner() *string })
	if owned && a.Method != http.MethodPost {
		*of.owner() = a.query("partner")
	}
	switch {
	case only == "":
	case !owned, cmp.Or(*of.owner(), only) != only:
		return errNotOwned
	default:
		*of.owner() = only
	}
	return nil
}

// An ask is a request of the control API.
type ask struct{ *http.Request }

// id returns the bill or the transaction that the path names.
func (a ask) id() string { return mux.Vars(a.Request)["id"] }

func (a ask) query(name string) string { return a.URL.Query().Get(name) }

// control is a router of calls of the control API.
type control struct{ *mux.Router }

// handle adds a call whose body is an In. A POST with an empty body counts as {}. An unknown field is an error.
func handle[In any](c control, call string, f func(In, ask) (any, error)) {
	method, path, _ := strings.Cut(call, " ")
	c.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		var in In
		var out any
		if method == http.MethodPost {
			dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&in); err != nil && !errors.Is(err, io.EOF) {
				writeControl(w, nil, badRequest(err.Error()))
				return
			}
		}
		a := ask{r}
		// Not looked up again: the token may have ended while the body arrived, and the call stays limited.
		of, _ := r.Context().Value(accessKey{}).(Access)
		err := a.limit(&in, of.Partner)
		if err == nil {
			out, err = f(in, a)
		}
		writeControl(w, out, err)
	}).Methods(method)
}

// change adds a call whose reply has no fields.
func change[In any](c control, call string, f func(In, ask) error) {
	handle(c, call, func(in In, a ask) (any, error) { return none{}, f(in, a) })
}

// A partnerView is a partner as the control API shows it.
type partnerView struct {
	Partner
	Points int       `json:"points"` // those that are left
	Stores []mapping `json:"stores"`
}

func (s *Service) partnerViews(of ofPartner) []partnerView {
	list := []partnerView{}
	s.view(func(t *tables) {
		for _, p := range t.Contracts.all() {
			if of.excludes(p.Key) {
				continue
			}
			p.ControlToken, p.Merchants = "", nil
			list = append(list, partnerView{p, t.Accounts.get(p.Key).Points, t.ofPartner(p.Key)})
		}
	})
	return list
}

// transaction looks up a bill by its transaction id ("Events").
func (s *Service) transaction(id string) v2Envelope {
	for _, b := range s.Bills() {
		if b.Approval != nil && b.Approval.TxNum == id {
			data := formV2.object(recordFields, s.opt.record(formV2, &b))
			return v2Envelope{codeSuccess, messageOf(codeSuccess), data}
		}
	}
	return v2Envelope{codeNoTransaction, messageOf(codeNoTransaction), nil}
}

// SetPoints sets the points of a prepaid partner. It fails if there is no such partner.
func (s *Service) SetPoints(partnerKey string, points int) error {
	return s.update(func(t *tables) error {
		before := t.Accounts.get(partnerKey)
		if before == nil {
			return errNoPartner
		}
		a := *before
		a.Points = points
		t.Accounts.put(a)
		return nil
	})
}

type clockView struct {
	Now     time.Time `json:"now"`
	Advance string    `json:"advance,omitempty"`
}

func (s *Service) setClock(in clockView) (any, error) {
	to := in.Now
	if in.Advance != "" {
		by, err := time.ParseDuration(in.Advance)
		if err != nil {
			return nil, badRequest(fmt.Sprintf("advance: expected a duration such as 1h30m but got: %q", in.Advance))
		}
		to = s.Now().Add(by)
	}
	if to.IsZero() || !in.Now.IsZero() && in.Advance != "" {
		return nil, badRequest("expected either now or advance")
	}
	return s.clock(s.SetClock(to))
}

// clock shows the clock, after a change or none.
func (s *Service) clock(err error) (any, error) { return clockView{Now: s.Now()}, err }

// A refusedError is why the control API refuses a call, with its HTTP status. Any other error is one of the data file.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string { return e.text }

func badRequest(text string) error { return &refusedError{status: http.StatusBadRequest, text: text} }

// Refuse answers a request to the control address with an error.
func Refuse(w http.ResponseWriter, status int, text string) {
	writeControl(w, nil, &refusedError{status: status, text: text})
}

func writeControl(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		if refused := new(refusedError); errors.As(err, &refused) {
			status = refused.status
		}
		v = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(marshal(v), '\n'))
}
