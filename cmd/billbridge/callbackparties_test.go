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

// The upstream and the partner of gateways that relay callbacks.

// callbackBody returns the callback of a payment in a form.
func callbackBody(form, bill string) string {
	if form == "legacy" {
		return `{"apikey":"` + keyOf(bill) + `","bill_id":"` + bill + `","appr_pay_type":"0","appr_dt":"20261121093000","appr_num":"N` + bill + `","appr_state":"F"}`
	}
	return `{"apiKey":"` + keyOf(bill) + `","billId":"` + bill + `","apprPayType":0,"apprDt":20261121093000,"apprNum":"N` + bill + `","apprState":"F"}`
}

// callbackAnswer returns the success of a form.
func callbackAnswer(form string) string {
	if form == "legacy" {
		return `{"code":"0000","msg":"성공하였습니다."}`
	}
	return `{"code":"0000"}`
}

// formOf returns the form in which a bill is created: every other one is legacy.
func formOf(bill string) string {
	if strings.ContainsAny(bill[len(bill)-1:], "13579") {
		return "legacy"
	}
	return "v2"
}

// keyOf returns the key of the partner of a bill. The short hashes of TWIN and TWIX are equal.
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

// A callbackUpstream accepts bills in its form, and records the callback address of each.
type callbackUpstream struct {
	form, url string

	mu        sync.Mutex
	addresses map[string]string // by bill
}

func newCallbackUpstream(t *testing.T, form string) *callbackUpstream {
	t.Helper()
	u := &callbackUpstream{form: form, addresses: map[string]string{}}
	path, id, address, made := "/bill", "bill.billId", "bill.callbackUrl", `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"%s","member":"m","merchant":"s","billId":"%s","hash":"h","shortUrl":"http://short.example.com/1"}}`
	if form == "legacy" {
		path, id, address, made = "/if/bill/send", "bill.bill_id", "bill.callbackURL", `{"code":"0000","msg":"성공하였습니다.","apikey":"%s","member":"m","merchant":"s","bill_id":"%s","hash":"h"}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		bill := gjson.GetBytes(body, id).String()
		if err != nil || r.URL.Path != path || bill == "" {
			t.Errorf("the %s upstream gets %s %s: %v", form, r.URL.Path, body, err)
		}
		u.mu.Lock()
		u.addresses[bill] = gjson.GetBytes(body, address).String()
		u.mu.Unlock()
		_, _ = fmt.Fprintf(w, made, gjson.GetBytes(body, map[string]string{"v2": "apiKey", "legacy": "apikey"}[form]), bill)
	}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// notify sends the callback of a bill until it is acknowledged in the upstream's form.
func (u *callbackUpstream) notify(ctx context.Context, client *http.Client, bill string) (err error) {
	u.mu.Lock()
	address := u.addresses[bill]
	u.mu.Unlock()
	for ctx.Err() == nil {
		var status int
		var answer string
		if status, answer, err = post(ctx, client, address, callbackBody(u.form, bill)); err != nil {
			continue // its gateway was killed
		}
		if status == http.StatusOK && answer == callbackAnswer(u.form) {
			return nil
		}
		err = fmt.Errorf("callback of %s: %d %s", bill, status, answer)
	}
	return errors.Join(err, ctx.Err())
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

// A reaction is how a partner answers an attempt.
type reaction int

const (
	accept reaction = iota // returns the success
	refuse                 // returns HTTP 500
	hang                   // does not answer until released is closed or the gateway gives up
)

// partnerSecret is the query of every callback address. It must not be printed.
const partnerSecret = "secret=canary-query"

// A partnerServer receives callbacks. It checks the bill, the form and the webhook-id of every attempt.
type partnerServer struct {
	url string

	mu       sync.Mutex
	react    func(bill string, attempt int) reaction // attempt counts from setReaction; the function may read p
	released chan struct{}                           // closed to answer the attempts that hang
	changed  chan struct{}                           // closed and replaced at every change
	ids      map[string]string                       // webhook-ids by bill
	bills    map[string]string                       // bills by webhook-id
	attempts map[string]int                          // by bill, from setReaction
	accepted map[string]int                          // by bill
}

func newPartner(t *testing.T) *partnerServer {
	t.Helper()
	p := &partnerServer{
		released: make(chan struct{}), changed: make(chan struct{}),
		ids: map[string]string{}, bills: map[string]string{}, accepted: map[string]int{},
	}
	p.setReaction(func(string, int) reaction { return accept })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway was killed during the request
		}
		bill := strings.TrimPrefix(r.URL.Path, "/paid/")
		form, id := formOf(bill), r.Header.Get("webhook-id")
		if string(body) != callbackBody(form, bill) || r.URL.RawQuery != partnerSecret || r.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("bill %s is called back at %s with %s: %s", bill, r.URL, r.Header, body)
		}
		does := p.begin(bill, id)
		if does == hang {
			select {
			case <-r.Context().Done():
			case <-p.released:
				does = accept
			}
		}
		switch does {
		case refuse:
			w.WriteHeader(http.StatusInternalServerError)
		case accept:
			_, _ = io.WriteString(w, callbackAnswer(form))
		case hang:
		}
		p.end(bill, does)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ids[bill] != id || p.bills[id] != bill || id == "" {
			t.Errorf("bill %s comes under the id %s, before under %s; under this id came %s", bill, id, p.ids[bill], p.bills[id])
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // before Close, which waits for attempts that hang
	p.url = server.URL
	return p
}

// setReaction sets the reaction, and resets the counts of attempts.
func (p *partnerServer) setReaction(react func(bill string, attempt int) reaction) {
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
	p.notifyChange()
	return p.react(bill, p.attempts[bill])
}

func (p *partnerServer) end(bill string, did reaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if did == accept {
		p.accepted[bill]++
	}
	p.notifyChange()
}

func (p *partnerServer) notifyChange() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until a condition is true. The condition may read p.
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
			t.Fatalf("not within %s: %s; attempts for %d bills, %d of them delivered", patience, what, len(p.ids), len(p.accepted))
		}
	}
}

// deliveries returns the number of deliveries of bills, and how many bills have none.
func (p *partnerServer) deliveries(bills []string) (all, missing int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, bill := range bills {
		n := p.accepted[bill]
		all += n
		if n == 0 {
			missing++
		}
	}
	return all, missing
}
