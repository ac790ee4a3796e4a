package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/mux"
)

// Control returns the handler of the control API, which does what customers, card networks and the service's operator do. It
// needs its own listener. Requests and responses are JSON; an error is {"error": "…"}. The partner of a bill may be omitted
// unless several partners have a bill with this id. Requests from web pages of another origin are refused. With Options.ControlToken
// every request needs the token. Without it only connections to a loopback address are answered, under a loopback name.
//
//	GET    /partners               the partners, their keys, contracts and merchants
//	GET    /bills                  all bills; ?partner=KEY for those of one partner
//	GET    /bills/{billId}         one bill; ?partner=KEY if several partners have this id
//	POST   /bills/{billId}/pay     {"partner","method","months","cash_receipt","cash_number"}, all optional: pays
//	POST   /bills/{billId}/fail    {"partner","code"}: makes a payment that fails, with PAYMENT_001 if code is omitted
//	POST   /bills/{billId}/notify  {"partner"}: sends the callbacks of the bill again
//	GET    /callbacks              all callbacks with their attempts; ?partner=KEY, ?bill=BILLID
//	GET    /transactions/{txId}    the paid bill of a transaction, in a v2 envelope; BILL_005 if there is none
//	POST   /networks               {"code","count"}: sets the next answers of card networks to payments and cancels
//	POST   /mappings/complete      {"partner","member","merchant"}: completes a sign-up
//	POST   /points                 {"partner","points"}: sets the points of a prepaid partner
//	POST   /maintenance            {"on":true}: starts or ends the maintenance
//	GET    /clock                  the time of the service
//	POST   /clock                  {"now":"2026-12-01T09:00:00+09:00"} or {"advance":"1h"}: sets the time
//	DELETE /clock                  resets the time to the real one
//	POST   /faults                 {"operation","count","delay_ms","status","body","code","truncate","drop","gzip","skip"}: adds a fault
//	DELETE /faults                 removes unused faults and network answers
//	GET    /calls                  the number of calls by operation
func (s *Service) Control() http.Handler {
	r := mux.NewRouter().SkipClean(true)
	r.HandleFunc("/partners", s.showPartners).Methods(http.MethodGet)
	r.HandleFunc("/bills", s.showBills).Methods(http.MethodGet)
	r.HandleFunc("/bills/{billId}", s.showBill).Methods(http.MethodGet)
	r.HandleFunc("/bills/{billId}/pay", s.controlPay).Methods(http.MethodPost)
	r.HandleFunc("/bills/{billId}/fail", s.controlFail).Methods(http.MethodPost)
	r.HandleFunc("/bills/{billId}/notify", s.controlNotify).Methods(http.MethodPost)
	r.HandleFunc("/callbacks", s.showCallbacks).Methods(http.MethodGet)
	r.HandleFunc("/transactions/{txId}", s.showTransaction).Methods(http.MethodGet)
	r.HandleFunc("/networks", s.controlNetworks).Methods(http.MethodPost)
	r.HandleFunc("/mappings/complete", s.controlComplete).Methods(http.MethodPost)
	r.HandleFunc("/points", s.controlPoints).Methods(http.MethodPost)
	r.HandleFunc("/maintenance", s.controlMaintenance).Methods(http.MethodPost)
	r.HandleFunc("/clock", s.showClock).Methods(http.MethodGet)
	r.HandleFunc("/clock", s.controlClock).Methods(http.MethodPost)
	r.HandleFunc("/clock", s.controlResetClock).Methods(http.MethodDelete)
	r.HandleFunc("/faults", s.controlFault).Methods(http.MethodPost)
	r.HandleFunc("/faults", s.controlClear).Methods(http.MethodDelete)
	r.HandleFunc("/calls", s.showCalls).Methods(http.MethodGet)
	r.NotFoundHandler = controlErrorHandler(http.StatusNotFound, "no such path")
	r.MethodNotAllowedHandler = controlErrorHandler(http.StatusMethodNotAllowed, "method not allowed")
	return guard{token: s.opt.ControlToken, bearer: true, refuse: func(w http.ResponseWriter, status int, text localized) {
		writeControlError(w, status, text.EN)
	}}.protect(r)
}

type partnerView struct {
	Key        string         `json:"api_key"`
	Name       string         `json:"name"`
	Stores     []merchantView `json:"stores"`
	Strict     bool           `json:"strict"`
	Temporary  []string       `json:"temporary"`
	NotLinked  bool           `json:"not_linked"`
	Removed    bool           `json:"removed"`
	NoContract bool           `json:"no_contract"`
	NoBilling  bool           `json:"no_billing"`
	NoTalk     bool           `json:"no_talk"`
	NoURL      bool           `json:"no_url"`
	Prepaid    bool           `json:"prepaid"`
	Points     int            `json:"points"`
}

type merchantView struct {
	Member      string `json:"member"`
	Merchant    string `json:"merchant"`
	Status      string `json:"status"`
	CallbackURL string `json:"callback_url"`
}

func (s *Service) showPartners(w http.ResponseWriter, _ *http.Request) {
	list := []partnerView{}
	s.view(func(t *tables) {
		for _, p := range t.contracts {
			v := partnerView{
				Key: p.Key, Name: p.Name, Stores: []merchantView{}, Strict: p.Strict, Temporary: []string{},
				NotLinked: p.NotLinked, Removed: p.Removed, NoContract: p.NoContract, NoBilling: p.NoBilling,
				NoTalk: p.NoTalk, NoURL: p.NoURL, Prepaid: p.Prepaid, Points: t.Accounts.get(p.Key).Points,
			}
			for _, m := range t.ofPartner(p.Key) {
				v.Stores = append(v.Stores, merchantView{m.MemberID, m.MerchantID, m.Status, m.CallbackURL})
			}
			for _, l := range p.Temporary {
				v.Temporary = append(v.Temporary, l.Code)
			}
			list = append(list, v)
		}
	})
	writeOK(w, list)
}

func (s *Service) showBills(w http.ResponseWriter, r *http.Request) {
	bills := s.Bills()
	if partner := r.URL.Query().Get("partner"); partner != "" {
		kept := []Bill{}
		for _, b := range bills {
			if b.Partner == partner {
				kept = append(kept, b)
			}
		}
		bills = kept
	}
	writeOK(w, bills)
}

func (s *Service) showBill(w http.ResponseWriter, r *http.Request) {
	b, err := s.Bill(r.URL.Query().Get("partner"), mux.Vars(r)["billId"])
	if err != nil {
		writeError(w, err)
		return
	}
	writeOK(w, b)
}

func (s *Service) controlPay(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner string `json:"partner"`
		Payment
	}
	if !decodeControl(w, r, &in) {
		return
	}
	answerControl(w)(s.pay(in.Partner, mux.Vars(r)["billId"], in.Payment))
}

func (s *Service) controlFail(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Partner string `json:"partner"`
		Code    string `json:"code"`
	}{Code: codeNoNetwork}
	if !decodeControl(w, r, &in) {
		return
	}
	b, err := s.fail(in.Partner, mux.Vars(r)["billId"], in.Code)
	if declined := new(declinedError); errors.As(err, &declined) {
		err = nil // the failed payment was requested
	}
	answerControl(w)(b, err)
}

func (s *Service) controlNotify(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner string `json:"partner"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	answerControl(w)(struct{}{}, s.Notify(in.Partner, mux.Vars(r)["billId"]))
}

func (s *Service) showCallbacks(w http.ResponseWriter, r *http.Request) {
	partner, bill := r.URL.Query().Get("partner"), r.URL.Query().Get("bill")
	list := []Callback{}
	for _, c := range s.Callbacks() {
		if (partner == "" || c.Partner == partner) && (bill == "" || c.BillID == bill) {
			list = append(list, c)
		}
	}
	writeOK(w, list)
}

// showTransaction looks up a bill by its transaction id ("Events").
func (s *Service) showTransaction(w http.ResponseWriter, r *http.Request) {
	for _, b := range s.Bills() {
		if b.Approval != nil && b.Approval.TxNum == mux.Vars(r)["txId"] {
			writeOK(w, v2Envelope{codeSuccess, messageOf(codeSuccess), s.v2Record(&b)})
			return
		}
	}
	writeOK(w, v2Envelope{codeNoTransaction, messageOf(codeNoTransaction), nil})
}

func (s *Service) controlNetworks(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Code  string `json:"code"`
		Count int    `json:"count"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	answerControl(w)(in, s.Networks(in.Code, in.Count))
}

func (s *Service) controlComplete(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner  string `json:"partner"`
		Member   string `json:"member"`
		Merchant string `json:"merchant"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	answerControl(w)(struct{}{}, s.CompleteMapping(in.Partner, in.Member, in.Merchant))
}

// SetPoints sets the points of a prepaid partner. It fails if there is no such partner.
func (s *Service) SetPoints(partnerKey string, points int) error {
	return s.store.update(func(t *tables) error {
		if t.byKey[partnerKey] == nil {
			return errNoPartner
		}
		a := *t.Accounts.get(partnerKey)
		a.Points = points
		t.Accounts.put(a)
		return nil
	})
}

func (s *Service) controlPoints(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner string `json:"partner"`
		Points  int    `json:"points"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	answerControl(w)(in, s.SetPoints(in.Partner, in.Points))
}

func (s *Service) controlMaintenance(w http.ResponseWriter, r *http.Request) {
	var in struct {
		On bool `json:"on"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	answerControl(w)(in, s.SetMaintenance(in.On))
}

type clockView struct {
	Now time.Time `json:"now"`
}

func (s *Service) showClock(w http.ResponseWriter, _ *http.Request) { writeOK(w, clockView{s.Now()}) }

func (s *Service) controlClock(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Now     time.Time `json:"now"`
		Advance string    `json:"advance"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	to := in.Now
	if in.Advance != "" {
		by, err := time.ParseDuration(in.Advance)
		if err != nil {
			writeControlError(w, http.StatusBadRequest, fmt.Sprintf("advance: expected a duration such as 1h30m but got: %q", in.Advance))
			return
		}
		to = s.Now().Add(by)
	}
	if to.IsZero() || !in.Now.IsZero() && in.Advance != "" {
		writeControlError(w, http.StatusBadRequest, "expected either now or advance")
		return
	}
	err := s.SetClock(to)
	answerControl(w)(clockView{s.Now()}, err)
}

func (s *Service) controlResetClock(w http.ResponseWriter, _ *http.Request) {
	err := s.SetClock(time.Time{})
	answerControl(w)(clockView{s.Now()}, err)
}

func (s *Service) controlFault(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Operation string `json:"operation"`
		Count     int    `json:"count"`
		DelayMS   int    `json:"delay_ms"`
		Status    int    `json:"status"`
		Body      string `json:"body"`
		Code      string `json:"code"`
		Truncate  bool   `json:"truncate"`
		Drop      bool   `json:"drop"`
		Gzip      bool   `json:"gzip"`
		Skip      bool   `json:"skip"`
	}
	if !decodeControl(w, r, &in) {
		return
	}
	if in.Status != 0 && (in.Status < 200 || in.Status > 599) {
		// A 1xx is not a final status, and net/http panics on invalid ones.
		writeControlError(w, http.StatusBadRequest, "status: expected 200 to 599")
		return
	}
	f := Fault{
		Operation: in.Operation, Count: in.Count, Delay: time.Duration(in.DelayMS) * time.Millisecond,
		Status: in.Status, Body: in.Body, Code: in.Code,
		Truncate: in.Truncate, Drop: in.Drop, Gzip: in.Gzip, Skip: in.Skip,
	}
	if err := f.check(); err != nil {
		writeControlError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.Fault(f)
	writeOK(w, in)
}

func (s *Service) controlClear(w http.ResponseWriter, _ *http.Request) {
	s.ClearFaults()
	answerControl(w)(struct{}{}, s.Networks(codeSuccess, 0))
}

func (s *Service) showCalls(w http.ResponseWriter, _ *http.Request) { writeOK(w, s.Calls()) }

// decodeControl decodes a request of the control API. An empty body counts as {}. An unknown field is an error.
func decodeControl(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		writeControlError(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func writeOK(w http.ResponseWriter, v any) { writeControl(w, http.StatusOK, v) }

// answerControl returns a function that writes a result or an error.
func answerControl(w http.ResponseWriter) func(v any, err error) {
	return func(v any, err error) {
		if err != nil {
			writeError(w, err)
			return
		}
		writeOK(w, v)
	}
}

func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError // the data file
	declined := new(declinedError)
	switch {
	case errors.Is(err, errNoBill), errors.Is(err, errNoMapping), errors.Is(err, errNoPartner):
		status = http.StatusNotFound
	case errors.Is(err, errAmbiguous), errors.Is(err, errNotPayable), errors.As(err, &declined):
		status = http.StatusConflict
	case errors.Is(err, errInvalidPayment):
		status = http.StatusBadRequest
	}
	writeControlError(w, status, err.Error())
}

func writeControlError(w http.ResponseWriter, status int, text string) {
	writeControl(w, status, map[string]string{"error": text})
}

func controlErrorHandler(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeControlError(w, status, text) })
}

func writeControl(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(marshal(v), '\n'))
}
