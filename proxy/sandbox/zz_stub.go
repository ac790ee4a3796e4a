package sandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

type Exchange struct {
	Began, Ended                         time.Time
	Clock                                time.Time
	Operation                            string
	Form                                 string
	Partner                              string
	Bill                                 string
	Method, Path, ContentType, UserAgent string
	Request                              []byte
	Status                               int
	Reply                                []byte
	Code                                 string
	Fault                                Fault
	Done                                 bool
	Late                                 bool
	Before, After                        string
	HashText, HashWant                   string
}

func findBillID(body []byte) string {
	var m map[string]any
	_ = json.Unmarshal(body, &m)
	for _, in := range []any{m, m["bill"]} {
		if mm, ok := in.(map[string]any); ok {
			for _, k := range []string{"billId", "bill_id"} {
				if v, ok := mm[k].(string); ok {
					return v
				}
			}
		}
	}
	return ""
}

func codeIn(body []byte) string {
	var m struct{ Code string }
	_ = json.Unmarshal(body, &m)
	return m.Code
}

func (s *Service) stateOf(id string) string {
	b, err := s.Bill("", id)
	if err != nil {
		return ""
	}
	return b.State
}

func (s *Service) stubObserve(r *http.Request, op string, f form, fault Fault, body, reply []byte, status int, code string, done bool, before string, began time.Time) {
	if s.opt.Observe == nil {
		return
	}
	if fault.Body != "" {
		reply = []byte(fault.Body)
	}
	if fault.Status != 0 {
		status = fault.Status
	}
	id := findBillID(body)
	s.opt.Observe(Exchange{Began: began, Ended: time.Now(), Clock: s.Now(), Operation: op, Form: string(f), Bill: id, Method: r.Method,
		ContentType: r.Header.Get("Content-Type"), UserAgent: r.Header.Get("User-Agent"), Request: body, Status: status, Reply: reply,
		Code: code, Fault: fault, Done: done, Before: before, After: s.stateOf(id)})
}

// SendCallback sends one extra callback.
func (s *Service) SendCallback(key, bill string, change func([]byte) []byte) error {
	b, err := s.Bill(key, bill)
	if err != nil {
		return err
	}
	f := form(b.Form)
	body := []byte(f.object(s.record(f, &b)...))
	if change != nil {
		body = change(body)
	}
	go s.stubPost(b.CallbackURL, body, Fault{})
	return nil
}

func (n *sender) stubPost(url string, body []byte, f Fault) (int, []byte) {
	began := time.Now()
	req, _ := http.NewRequestWithContext(n.ctx, http.MethodPost, url, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	res, err := n.client.Do(req)
	x := Exchange{Began: began, Clock: began, Operation: lostCallbacks, Bill: findBillID(body), Request: body, Fault: f}
	if err == nil {
		x.Status = res.StatusCode
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		res.Body.Close()
		x.Reply = b.Bytes()
	}
	x.Ended = time.Now()
	if o := n.store.opt.Observe; o != nil {
		o(x)
	}
	return x.Status, x.Reply
}

var _ = strings.TrimSpace
