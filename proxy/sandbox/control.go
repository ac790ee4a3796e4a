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
//	POST   /bills/{billId}/cancel  {"partner"}: cancels a paid bill, as the card company does for a customer
//	POST   /bills/{billId}/notify  {"partner"}: sends the callbacks of the bill again
//	GET    /callbacks              all callbacks with their attempts; ?partner=KEY, ?bill=BILLID
//	GET    /transactions/{txId}    the paid bill of a transaction, in a v2 envelope; BILL_005 if there is none
//	POST   /mappings/complete      {"partner","member","merchant"}: completes a sign-up
//	POST   /mappings/notify        {"partner","member","merchant","status"}: sends the callback of a status
//	POST   /points                 {"partner","points"}: sets the points of a prepaid partner
//	GET    /clock                  the time of the service
//	POST   /clock                  {"now":"2026-12-01T09:00:00+09:00"} or {"advance":"1h"}: sets the time
//	DELETE /clock                  resets the time to the real one
//	POST   /faults                 {"operation","partner","bill","count","until","name","delay_ms","status","body",
//	                               "code","truncate","drop","gzip","skip","show","show_bill","pay","amount",
//	                               "copies"}: adds a fault
//	DELETE /faults                 removes unused faults; ?partner=KEY for those of that partner
//	GET    /log                    the last 500 exchanges, each with a curl command; ?partner=KEY,
//	                               ?operation=bill.read
func (s *Service) Control() http.Handler {
	bill := func(do func(partnerKey, billID string) (Bill, error)) http.HandlerFunc {
		return on(func(of ofPartner, a ask) any { return or(do(of.Partner, a.id())) })
	}
	r := mux.NewRouter().SkipClean(true)
	for call, serve := range map[string]http.HandlerFunc{
		"GET /partners": on(func(of ofPartner, _ ask) any {
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
		}),
		"POST /partners":        on(func(in Partner, _ ask) any { return s.AddPartner(in) }),
		"DELETE /partners/{id}": on(func(_ none, a ask) any { return s.RemovePartner(a.id()) }),
		"GET /bills": on(func(of ofPartner, _ ask) any {
			return slices.DeleteFunc(s.Bills(), func(b Bill) bool { return of.excludes(b.Partner) })
		}),
		"GET /bills/{id}":         bill(s.Bill),
		"POST /bills/{id}/expire": bill(s.Expire),
		"POST /bills/{id}/cancel": bill(s.Cancel),
		"POST /bills/{id}/pay": on(func(in struct {
			ofPartner
			Payment
		}, a ask,
		) any {
			return or(s.PayWith(in.Partner, a.id(), in.Payment))
		}),
		"POST /bills/{id}/notify": on(func(of ofPartner, a ask) any { return s.Notify(of.Partner, a.id()) }),
		"GET /callbacks": on(func(of ofPartner, a ask) any {
			return slices.DeleteFunc(s.Callbacks(), func(c Callback) bool {
				return of.excludes(c.Partner) || cmp.Or(a.query("bill"), c.BillID) != c.BillID
			})
		}),
		"GET /transactions/{id}": on(func(_ none, a ask) any { // see "Events"
			for _, b := range s.Bills() {
				if b.Approval != nil && b.Approval.TxNum == a.id() {
					return reply(codeSuccess, formV2.object(recordFields, s.opt.record(formV2, &b)))
				}
			}
			return reply(codeNoTransaction, nil)
		}),
		"POST /mappings/complete": on(func(in ofMerchant, _ ask) any {
			return s.CompleteMapping(in.Partner, in.Member, in.Merchant)
		}),
		"POST /mappings/notify": on(func(in struct {
			ofMerchant
			Status string `json:"status"`
		}, _ ask,
		) any {
			return s.NotifyMapping(in.Partner, in.Member, in.Merchant, in.Status)
		}),
		"POST /points": on(func(in struct {
			ofPartner
			Points int `json:"points"`
		}, _ ask,
		) any {
			return or(in, s.SetPoints(in.Partner, in.Points))
		}),
		"GET /clock": on(func(ofPartner, ask) any { return s.clock(nil) }),
		"POST /clock": on(func(in clockView, _ ask) any {
			to, err := in.after(s.Now())
			if err == nil {
				err = s.SetClock(to)
			}
			return s.clock(err)
		}),
		"DELETE /clock": on(func(none, ask) any { return s.clock(s.SetClock(time.Time{})) }),
		"POST /faults": on(func(in struct {
			Fault
			DelayMS int `json:"delay_ms,omitempty"`
		}, _ ask,
		) any {
			in.Delay = time.Duration(in.DelayMS) * time.Millisecond
			return or(in, s.AddFault(in.Fault))
		}),
		"DELETE /faults": on(func(of ofPartner, _ ask) any {
			s.ClearFaults(of.Partner)
			return nil
		}),
		"GET /log": on(func(of ofPartner, a ask) any {
			return slices.DeleteFunc(s.Exchanges(), func(x Exchange) bool {
				return of.excludes(x.Partner) || cmp.Or(a.query("operation"), x.Operation) != x.Operation
			})
		}),
	} {
		method, path, _ := strings.Cut(call, " ")
		r.HandleFunc(path, serve).Methods(method)
	}
	refusing := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { Refuse(w, status, text) }
	}
	r.NotFoundHandler = refusing(http.StatusNotFound, "no such path")
	r.MethodNotAllowedHandler = refusing(http.StatusMethodNotAllowed, "method not allowed")
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

// ofMerchant is a body that names a registration.
type ofMerchant struct {
	ofPartner
	Member   string `json:"member"`
	Merchant string `json:"merchant"`
}

// excludes reports whether another partner than key is named.
func (of ofPartner) excludes(key string) bool { return cmp.Or(of.Partner, key) != key }

var errNotOwned = &refusedError{
	http.StatusForbidden, "the token is that of a partner: it is only for what the partner has",
}

// An ask is a request of the control API.
type ask struct{ *http.Request }

// id returns the bill or the transaction that the path names.
func (a ask) id() string { return mux.Vars(a.Request)["id"] }

func (a ask) query(name string) string { return a.URL.Query().Get(name) }

// on handles a call whose body is an In; a POST with an empty body counts as {}, and an unknown field is an error. A
// call with the token of a partner is limited to that one. f returns the reply or an error; nil is a reply without
// fields.
func on[In any](f func(In, ask) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		var err error
		a := ask{r}
		of, owned := any(&in).(interface{ owner() *string })
		if r.Method == http.MethodPost {
			dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit))
			dec.DisallowUnknownFields()
			err = dec.Decode(&in)
		} else if owned {
			*of.owner() = a.query("partner")
		}
		// Not looked up again: the token may have ended while the body arrived, and the call stays limited.
		access, _ := r.Context().Value(accessKey{}).(Access)
		switch only := access.Partner; {
		case err != nil && !errors.Is(err, io.EOF):
			writeControl(w, badRequest(err.Error()))
			return
		case only == "":
		case !owned, cmp.Or(*of.owner(), only) != only:
			writeControl(w, errNotOwned)
			return
		default:
			*of.owner() = only
		}
		writeControl(w, f(in, a))
	}
}

// or returns an error, or a value if there is none.
func or[V any](v V, err error) any {
	if err != nil {
		return err
	}
	return v
}

// A partnerView is a partner as the control API shows it.
type partnerView struct {
	Partner
	Points int       `json:"points"` // those that are left
	Stores []mapping `json:"stores"`
}

// SetPoints sets the points of a prepaid partner. It fails if there is no such partner.
func (s *Service) SetPoints(partnerKey string, points int) error {
	return s.update(func(t *tables) error {
		before := t.Accounts.get(partnerKey)
		if before == nil {
			return errNoPartner
		}
		t.Accounts.put(account{partnerKey, points, before.Mapped})
		return nil
	})
}

type clockView struct {
	Now     time.Time `json:"now"`
	Advance string    `json:"advance,omitempty"`
}

// after returns the time that the clock is set to, which shows now.
func (in clockView) after(now time.Time) (to time.Time, err error) {
	to = in.Now
	if in.Advance != "" {
		by, err := time.ParseDuration(in.Advance)
		if err != nil {
			return to, badRequest(fmt.Sprintf("advance: expected a duration such as 1h30m but got: %q", in.Advance))
		}
		to = now.Add(by)
	}
	if to.IsZero() || !in.Now.IsZero() && in.Advance != "" {
		return to, badRequest("expected either now or advance")
	}
	return to, nil
}

// clock shows the clock, after a change or none.
func (s *Service) clock(err error) any { return or(clockView{Now: s.Now()}, err) }

// A refusedError is why the control API refuses a call, with its HTTP status. Any other error is one of the data file.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string { return e.text }

func badRequest(text string) error { return &refusedError{status: http.StatusBadRequest, text: text} }

// Refuse answers a request to the control address with an error.
func Refuse(w http.ResponseWriter, status int, text string) {
	writeControl(w, &refusedError{status: status, text: text})
}

// writeControl writes a reply, or an error with its status.
func writeControl(w http.ResponseWriter, v any) {
	status := http.StatusOK
	switch err := v.(type) {
	case nil:
		v = none{}
	case error:
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
