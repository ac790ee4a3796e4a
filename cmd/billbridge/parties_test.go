package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// The parties around gateways that relay callbacks: the billing service upstream, and the partner.

// paid is the notice of a bill's payment: a read's approval fields, flat. Both are the same notice.
func paid(form, bill string) string {
	if form == "legacy" {
		return `{"apikey":"` + keyOf(bill) + `","bill_id":"` + bill + `","appr_pay_type":"0","appr_dt":"20261121093000","appr_num":"N` + bill + `","appr_state":"F"}`
	}
	return `{"apiKey":"` + keyOf(bill) + `","billId":"` + bill + `","apprPayType":0,"apprDt":20261121093000,"apprNum":"N` + bill + `","apprState":"F"}`
}

// received is what a form answers when it has a notice.
func received(form string) string {
	if form == "legacy" {
		return `{"code":"0000","msg":"성공하였습니다."}`
	}
	return `{"code":"0000"}`
}

// formOf has every other bill made by a legacy client.
func formOf(bill string) string {
	if strings.ContainsAny(bill[len(bill)-1:], "13579") {
		return "legacy"
	}
	return "v2"
}

// keyOf has partners other than the usual one make bills that begin with their name. TWIN and TWIX are known by the same
// 12 digits.
func keyOf(bill string) string {
	switch bill[:4] {
	case "TWIN":
		return "k-7fe6e9866c8e"
	case "TWIX":
		return "k-0bf68181adac"
	case "ELSE":
		return "k-2"
	}
	return "k-1"
}

func billIDs(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return all
}

// A biller is an upstream: it takes bills in its form, and remembers the callback address of each.
type biller struct {
	form, url string

	mu    sync.Mutex
	given map[string]string // callback addresses by bill
}

func newBiller(t *testing.T, form string) *biller {
	t.Helper()
	u := &biller{form: form, given: map[string]string{}}
	path, id, address, made := "/bill", "bill.billId", "bill.callbackUrl", `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"k-1","member":"m","merchant":"s","billId":"%s","hash":"h","shortUrl":"http://short.example.com/1"}}`
	if form == "legacy" {
		path, id, address, made = "/if/bill/send", "bill.bill_id", "bill.callbackURL", `{"code":"0000","msg":"성공하였습니다.","apikey":"k-1","member":"m","merchant":"s","bill_id":"%s","hash":"h"}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		bill := gjson.GetBytes(body, id).String()
		if err != nil || r.URL.Path != path || bill == "" {
			t.Errorf("the %s upstream gets %s %s: %v", form, r.URL.Path, body, err)
		}
		u.mu.Lock()
		u.given[bill] = gjson.GetBytes(body, address).String()
		u.mu.Unlock()
		_, _ = fmt.Fprintf(w, made, bill)
	}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// notify calls a bill's address as an upstream does: again, until it is acknowledged in the upstream's form. It
// returns how often it called.
func (u *biller) notify(ctx context.Context, client *http.Client, bill string) (calls int, err error) {
	u.mu.Lock()
	address := u.given[bill]
	u.mu.Unlock()
	for ctx.Err() == nil {
		calls++
		var status int
		var answer string
		if status, answer, err = post(ctx, client, address, paid(u.form, bill)); err != nil {
			continue // its gateway was killed
		}
		if status == http.StatusOK && answer == received(u.form) {
			return calls, nil
		}
		err = fmt.Errorf("callback of %s: %d %s", bill, status, answer)
	}
	return calls, errors.Join(err, ctx.Err())
}

func post(ctx context.Context, client *http.Client, url, body string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = reply.Body.Close() }()
	answer, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(answer), err
}

// What a partner does with an attempt.
type reaction int

const (
	takes   reaction = iota // answers with the documented success
	refuses                 // answers 500
	holds                   // answers nothing while the gateway waits, unless it is released
)

// partnerSecret is the query of every address that the partner gives. Nobody but the partner is shown it.
const partnerSecret = "secret=canary-query"

// A partnerServer is a partner that is called back. It holds every attempt to the bill, the form and the webhook-id that it must have.
type partnerServer struct {
	url string

	mu       sync.Mutex
	react    func(bill string, attempt int) reaction // attempt counts since react was set; it may read p
	released chan struct{}                           // when closed, what is held is taken
	changed  chan struct{}                           // closed at whatever happens, and then another
	ids      map[string]string                       // webhook-ids by bill
	bills    map[string]string                       // the other way round
	attempts map[string]int                          // by bill, since react was set
	taken    map[string]int                          // by bill
	calls    int
	now      int // attempts under way
	most     int // that were under way at one time
	refused  int
}

func newPartner(t *testing.T) *partnerServer {
	t.Helper()
	p := &partnerServer{
		released: make(chan struct{}), changed: make(chan struct{}),
		ids: map[string]string{}, bills: map[string]string{}, taken: map[string]int{},
	}
	p.reacts(func(string, int) reaction { return takes })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway was killed while it sent
		}
		bill := strings.TrimPrefix(r.URL.Path, "/paid/")
		form, id := formOf(bill), r.Header.Get("webhook-id")
		if string(body) != paid(form, bill) || r.URL.RawQuery != partnerSecret || r.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("bill %s is called back at %s with %s: %s", bill, r.URL, r.Header, body)
		}
		does := p.begin(bill, id)
		if does == holds {
			select {
			case <-r.Context().Done():
			case <-p.released:
				does = takes
			}
		}
		switch does {
		case refuses:
			w.WriteHeader(http.StatusInternalServerError)
		case takes:
			_, _ = io.WriteString(w, received(form))
		case holds:
		}
		p.end(bill, does)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ids[bill] != id || p.bills[id] != bill || id == "" {
			t.Errorf("bill %s comes under the id %s, before under %s; under this id came %s", bill, id, p.ids[bill], p.bills[id])
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // before Close, which waits for what is held
	p.url = server.URL
	return p
}

// reacts sets what is done with attempts from now on, and counts them anew.
func (p *partnerServer) reacts(react func(bill string, attempt int) reaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.react, p.attempts = react, map[string]int{}
}

func (p *partnerServer) begin(bill, id string) reaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids[bill] == "" && p.bills[id] == "" {
		p.ids[bill], p.bills[id] = id, bill
	}
	p.attempts[bill]++
	p.calls++
	p.now++
	p.most = max(p.most, p.now)
	p.happened()
	return p.react(bill, p.attempts[bill])
}

func (p *partnerServer) end(bill string, did reaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
	switch did {
	case takes:
		p.taken[bill]++
	case refuses:
		p.refused++
	case holds:
	}
	p.happened()
}

func (p *partnerServer) happened() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await goes on when so is true; so may read p.
func (p *partnerServer) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.After(patience); ; {
		p.mu.Lock()
		yes, changed := so(), p.changed
		p.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-changed:
		case <-late:
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Fatalf("not within %s: %s; %d bills were called back, %d of them taken", patience, what, len(p.ids), len(p.taken))
		}
	}
}

// deliveries are how many callbacks of bills were taken, in all and more often than once, and how many never.
func (p *partnerServer) deliveries(bills []string) (all, repeated, missing int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, bill := range bills {
		n := p.taken[bill]
		all += n
		repeated += max(n-1, 0)
		if n == 0 {
			missing++
		}
	}
	return all, repeated, missing
}
