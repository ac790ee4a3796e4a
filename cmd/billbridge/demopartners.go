package main

import (
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"billbridge/proxy/routing"
	"go.yaml.in/yaml/v4"
)

// demoFile says what the demo does.
//
//go:embed demo.yaml
var demoFile []byte

// A demo is what demoFile has.
type demo struct {
	Config   string
	Partners []demoPartner
	Plans    [][]string
	Request  string
}

// A demoPartner is an invented partner.
type demoPartner struct {
	Key, Name, Form string
	Weight          int           // how often it calls, compared with the others
	Stage           routing.Stage // from the start

	// Receives is how it answers callbacks, if not with success:
	//
	//	second   each callback at the second attempt
	//	replay   at no attempt of the schedule: each callback fails, and a replay delivers it
	//	gone     with 410, which ends the attempts
	Receives string

	// Quirk makes it different from the others:
	//
	//	unlucky     some of its calls time out, and it sends some bills twice
	//	forgetful   some of its creates time out, and it does not read these bills
	//	taxed       it sends tax, which a legacy backend cannot carry, in some bills
	//	differs     the new backend does not know its key, so that there is a partner whose verdict is FAIL
	Quirk string
}

// newDemo returns the demo, with a key for each partner.
func newDemo() (*demo, error) {
	d := &demo{}
	if err := yaml.Unmarshal(demoFile, d); err != nil {
		return nil, err
	}
	for i := range d.Partners {
		d.Partners[i].Key = fmt.Sprintf("demo-key-%02d", i+1)
	}
	return d, nil
}

// A demoReceiver answers callbacks for the partners. The path is /N for the partner with this index.
type demoReceiver struct {
	partners []demoPartner

	mu       sync.Mutex
	attempts map[string]int // by webhook-id, of callbacks that were not taken
}

// ServeHTTP takes a callback, or fails as its partner does.
func (d *demoReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || n < 0 || n >= len(d.partners) {
		http.NotFound(w, r)
		return
	}
	p := d.partners[n]
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch failures := map[string]int{"second": 1, "replay": len(demoSchedule)}[p.Receives]; {
	case p.Receives == "gone":
		w.WriteHeader(http.StatusGone)
	case d.attempt(r.Header.Get("webhook-id"), failures) <= failures:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"ERROR"}`)
	default:
		_, _ = io.WriteString(w, `{"code":"0000"}`)
	}
}

// attempt counts the attempts of a callback until it is taken, which is after a number of failures.
func (d *demoReceiver) attempt(id string, failures int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts[id]++
	n := d.attempts[id]
	if n > failures {
		delete(d.attempts, id)
	}
	return n
}
