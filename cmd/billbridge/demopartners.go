package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"billbridge/proxy/rollout"
)

// A demoPartner is an invented partner.
type demoPartner struct {
	key, name string
	form      string // that it uses: legacy or v2
	weight    int    // how often it calls, compared with the others
	stage     rollout.Stage
	receives  reception
	quirk     quirk
}

// A reception is how a partner answers callbacks.
type reception int

const (
	takes       reception = iota // with success
	takesSecond                  // each callback at the second attempt
	takesReplay                  // no attempt of the schedule: each callback fails, and a replay delivers it
	gone                         // with 410, which ends the attempts
)

// A quirk makes a partner different from the others. Failures come to few partners, so that the verdicts of the others
// become PASS.
type quirk int

const (
	noQuirk   quirk = iota
	unlucky         // some of its calls time out, and it sends some bills twice
	forgetful       // some of its creates time out, and it does not read these bills
	taxed           // sends tax, which a legacy backend cannot carry, in some bills
	differs         // the new backend does not know its key, so that there is a partner whose verdict is FAIL
)

// demoPartners returns so many partners of the demo, and 12 at least. All names are invented.
func demoPartners(number int) []demoPartner {
	list := []demoPartner{
		{name: "Paper Lantern Piano School", form: "legacy", weight: 8},
		{name: "Nine Herons Clinic", form: "v2", weight: 6, stage: rollout.StageCanary},
		{name: "Quiet Otter Swim Club", form: "legacy", weight: 4, quirk: differs, stage: rollout.StageShadow},
		{name: "Copper Kettle Tea House", form: "v2", weight: 3, stage: rollout.StageNew},
		{name: "Dandelion Daycare", form: "legacy", weight: 3, receives: takesReplay},
		{name: "Left Moon Bookshop", form: "v2", weight: 3, receives: takesSecond, stage: rollout.StageCanary},
		{name: "Three Foxes Florist", form: "legacy", weight: 2},
		{name: "Salt and Cedar Spa", form: "v2", weight: 2, quirk: taxed},
		{name: "Pebble Academy", form: "legacy", weight: 2, stage: rollout.StageShadow},
		{name: "Windmill Archery Hall", form: "v2", weight: 2, quirk: forgetful},
		{name: "Green Anvil Repairs", form: "legacy", weight: 1, receives: gone},
		{name: "Tall Reed Calligraphy", form: "v2", weight: 2, quirk: unlucky},
	}
	for n := len(list); n < number; n++ {
		first, second := demoWords[n%len(demoWords)], demoWords[n/len(demoWords)%len(demoWords)]
		name := fmt.Sprintf("%s %s %s", first, strings.ToLower(second), demoTrades[n%len(demoTrades)])
		if all := len(demoWords) * len(demoWords); n >= all {
			name += fmt.Sprintf(" %d", n/all+1)
		}
		list = append(list, demoPartner{name: name, form: []string{"legacy", "v2"}[n%2], weight: 1})
	}
	for i := range list {
		list[i].key = fmt.Sprintf("demo-key-%02d", i+1)
	}
	return list
}

// The words of the names of further partners.
var (
	demoWords = strings.Fields("Amber Birch Cobalt Drift Ember Fern Granite Hazel Iris Juniper Kestrel Lark Maple " +
		"Nettle Opal Pine Quartz Raven Sage Thistle Umber Violet Willow Yarrow Zephyr")
	demoTrades = strings.Fields("Clinic Academy Bookshop Dentist Daycare Studio Florist")
)

// A demoReceiver answers callbacks for the partners. The path is /N for the partner with this index.
type demoReceiver struct {
	partners []demoPartner

	mu       sync.Mutex
	attempts map[string]int // by webhook-id, of callbacks that were not taken
}

func newDemoReceiver(partners []demoPartner) *demoReceiver {
	return &demoReceiver{partners: partners, attempts: map[string]int{}}
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
	switch failures := map[reception]int{takesSecond: 1, takesReplay: len(demoSchedule)}[p.receives]; {
	case p.receives == gone:
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
