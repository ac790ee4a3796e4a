package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/mux"
)

// Control returns the tester's side of the service: what a customer, the card
// networks and the operator of the service do. It belongs on a listener of its
// own. JSON in and out; a refusal is {"error": "…"}.
//
//	GET    /partners              the partners, their keys and contracts
//	GET    /bills                 every bill; ?partner=KEY for one partner's
//	GET    /bills/{billId}        one bill; ?partner=KEY where several have the identifier
//	POST   /bills/{billId}/pay    {"partner","method","months","cash_receipt","cash_number"}, all optional
//	POST   /mappings/complete     {"partner","member","merchant"}: finishes a sign-up
//	POST   /points                {"partner","points"}: what a prepaid partner has left
//	POST   /maintenance           {"on":true}
//	POST   /faults                {"operation","count","delay_ms","status","body","code","truncate","drop","gzip","skip"}
//	DELETE /faults                forgets faults that are not used up
//	GET    /calls                 calls seen, by operation
func (s *Service) Control() http.Handler {
	r := mux.NewRouter().SkipClean(true)
	r.HandleFunc("/partners", s.showPartners).Methods(http.MethodGet)
	r.HandleFunc("/bills", s.showBills).Methods(http.MethodGet)
	r.HandleFunc("/bills/{billId}", s.showBill).Methods(http.MethodGet)
	r.HandleFunc("/bills/{billId}/pay", s.controlPay).Methods(http.MethodPost)
	r.HandleFunc("/mappings/complete", s.controlComplete).Methods(http.MethodPost)
	r.HandleFunc("/points", s.controlPoints).Methods(http.MethodPost)
	r.HandleFunc("/maintenance", s.controlMaintenance).Methods(http.MethodPost)
	r.HandleFunc("/faults", s.controlFault).Methods(http.MethodPost)
	r.HandleFunc("/faults", s.controlClear).Methods(http.MethodDelete)
	r.HandleFunc("/calls", s.showCalls).Methods(http.MethodGet)
	r.NotFoundHandler = controlRefusal(http.StatusNotFound, "no such path")
	r.MethodNotAllowedHandler = controlRefusal(http.StatusMethodNotAllowed, "not with this method")
	return r
}

type partnerView struct {
	Key        string      `json:"api_key"`
	Name       string      `json:"name"`
	Stores     []storeView `json:"stores"`
	Strict     bool        `json:"strict"`
	Temporary  []string    `json:"temporary"`
	NotLinked  bool        `json:"not_linked"`
	NoContract bool        `json:"no_contract"`
	NoBilling  bool        `json:"no_billing"`
	NoTalk     bool        `json:"no_talk"`
	NoURL      bool        `json:"no_url"`
	Prepaid    bool        `json:"prepaid"`
	Points     int         `json:"points"`
}

type storeView struct {
	Member   string `json:"member"`
	Merchant string `json:"merchant"`
	Status   string `json:"status"`
}

func (s *Service) showPartners(w http.ResponseWriter, _ *http.Request) {
	list := []partnerView{}
	s.store.do(func(t *tables) {
		for _, a := range t.order {
			v := partnerView{
				Key: a.Key, Name: a.Name, Stores: []storeView{}, Strict: a.Strict, Temporary: []string{},
				NotLinked: a.NotLinked, NoContract: a.NoContract, NoBilling: a.NoBilling,
				NoTalk: a.NoTalk, NoURL: a.NoURL, Prepaid: a.Prepaid, Points: a.Points,
			}
			for _, m := range a.mappings {
				v.Stores = append(v.Stores, storeView{m.Member, m.Merchant, m.status})
			}
			for _, l := range a.Partner.Temporary {
				v.Temporary = append(v.Temporary, l.Code)
			}
			list = append(list, v)
		}
	})
	show(w, list)
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
	show(w, bills)
}

func (s *Service) showBill(w http.ResponseWriter, r *http.Request) {
	b, err := s.Bill(r.URL.Query().Get("partner"), mux.Vars(r)["billId"])
	if err != nil {
		refuseControl(w, err)
		return
	}
	show(w, b)
}

func (s *Service) controlPay(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner string `json:"partner"`
		Payment
	}
	if !take(w, r, &in) {
		return
	}
	b, err := s.pay(in.Partner, mux.Vars(r)["billId"], in.Payment)
	if err != nil {
		refuseControl(w, err)
		return
	}
	show(w, b)
}

func (s *Service) controlComplete(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner  string `json:"partner"`
		Member   string `json:"member"`
		Merchant string `json:"merchant"`
	}
	if !take(w, r, &in) {
		return
	}
	if err := s.CompleteMapping(in.Partner, in.Member, in.Merchant); err != nil {
		refuseControlWith(w, http.StatusNotFound, err.Error())
		return
	}
	show(w, struct{}{})
}

// SetPoints sets what a prepaid partner has left, false for an unknown partner.
func (s *Service) SetPoints(partnerKey string, points int) (known bool) {
	s.store.do(func(t *tables) {
		a := t.accounts[partnerKey]
		if known = a != nil; known {
			a.Points = points
		}
	})
	return known
}

func (s *Service) controlPoints(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Partner string `json:"partner"`
		Points  int    `json:"points"`
	}
	if !take(w, r, &in) {
		return
	}
	if !s.SetPoints(in.Partner, in.Points) {
		refuseControlWith(w, http.StatusNotFound, "no such partner")
		return
	}
	show(w, struct{}{})
}

func (s *Service) controlMaintenance(w http.ResponseWriter, r *http.Request) {
	var in struct {
		On bool `json:"on"`
	}
	if !take(w, r, &in) {
		return
	}
	s.SetMaintenance(in.On)
	show(w, in)
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
	if !take(w, r, &in) {
		return
	}
	if in.Status != 0 && (in.Status < 200 || in.Status > 599) {
		// Lower ones are no final status, and net/http panics on others.
		refuseControlWith(w, http.StatusBadRequest, "status: expected 200 to 599")
		return
	}
	s.Fault(Fault{
		Operation: in.Operation, Count: in.Count, Delay: time.Duration(in.DelayMS) * time.Millisecond,
		Status: in.Status, Body: in.Body, Code: in.Code,
		Truncate: in.Truncate, Drop: in.Drop, Gzip: in.Gzip, Skip: in.Skip,
	})
	show(w, in)
}

func (s *Service) controlClear(w http.ResponseWriter, _ *http.Request) {
	s.ClearFaults()
	show(w, struct{}{})
}

func (s *Service) showCalls(w http.ResponseWriter, _ *http.Request) { show(w, s.Calls()) }

// take decodes a request of the control surface; an empty body is {}. A name
// that it does not know is a mistake of the tester, and said.
func take(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		refuseControlWith(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func show(w http.ResponseWriter, v any) { writeControl(w, http.StatusOK, v) }

func refuseControl(w http.ResponseWriter, err error) {
	status := http.StatusConflict
	switch {
	case errors.Is(err, ErrNoBill):
		status = http.StatusNotFound
	case errors.Is(err, ErrPayment):
		status = http.StatusBadRequest
	}
	refuseControlWith(w, status, err.Error())
}

func refuseControlWith(w http.ResponseWriter, status int, text string) {
	writeControl(w, status, map[string]string{"error": text})
}

func controlRefusal(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuseControlWith(w, status, text) })
}

func writeControl(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(marshal(v), '\n'))
}
