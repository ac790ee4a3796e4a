package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// A killedBill is a bill of the test: the state that was last requested, and the state that was acknowledged.
type killedBill struct {
	form, id     string
	acknowledged string // "" before the create
	requested    string // equal to acknowledged if no call is under way
}

// step makes the next call for a bill, in its form.
func (l *killedBill) step(partners, control, callback string) error {
	key, billID, path, envelope := "apiKey", "billId", "/bill", `{"%s":"demo-partner-key","member":"m","merchant":"s","bill":{"%s":"%s","price":"20000","hash":"%s"%s}}`
	address, last := `,"sendType":"URL","callbackUrl":"`+callback+`"`, map[string]string{"": "", "F": "/cancel"}
	if l.form == "legacy" {
		key, billID, path = "apikey", "bill_id", "/if/bill"
		address, last = `,"callbackURL":"`+callback+`"`, map[string]string{"": "/send", "F": "/cancel"}
		if l.acknowledged != "" {
			envelope = `{"%s":"demo-partner-key","member":"m","merchant":"s","%s":"%s","price":"20000","hash":"%s"%s}`
		}
	}
	url, body := partners+path+last[l.acknowledged], ""
	switch l.acknowledged {
	case "":
		l.requested = "W"
		body = fmt.Sprintf(envelope, key, billID, l.id, sandbox.Hash(l.id, "", "20000"), address)
	case "W":
		l.requested, url = "F", control+"/bills/"+l.id+"/pay"
	case "F":
		l.requested = "C"
		body = fmt.Sprintf(envelope, key, billID, l.id, sandbox.Hash(l.id, "", "20000"), "")
	}
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if !strings.Contains(string(answer), `"code":"0000"`) && !strings.Contains(string(answer), `"state":"F"`) {
		return fmt.Errorf("%s of %s: %s", url, l.id, answer)
	}
	l.acknowledged = l.requested
	return nil
}

// The sandbox is killed with kill -9 many times while bills are created, paid and cancelled. No acknowledged call is
// lost, none is done in part, and every payment has a callback.
func TestSandboxLosesNothingUnderKill(t *testing.T) {
	t.Parallel()
	const rounds, billsPerRound = 5, 16
	noticed := make(chan string, 10_000) // more than the number of attempts
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var of struct {
			Legacy string `json:"bill_id"`
			V2     string `json:"billId"`
		}
		if err := json.NewDecoder(r.Body).Decode(&of); err != nil {
			t.Error(err)
		}
		noticed <- of.Legacy + of.V2
		_, _ = io.WriteString(w, `{"code":"0000"}`)
	}))
	defer partner.Close()
	data := filepath.Join(t.TempDir(), "data.db")
	var all []*killedBill
	made := 0
	// verify compares the bills of the sandbox with the acknowledged calls.
	verify := func(control string) {
		t.Helper()
		res, err := http.Get(control + "/bills")
		must(t, err)
		defer res.Body.Close()
		var bills []sandbox.Bill
		must(t, json.NewDecoder(res.Body).Decode(&bills))
		states := map[string]string{}
		for _, b := range bills {
			if (b.Approval != nil) != (b.State == "F" || b.State == "C") || (b.Cancel != nil) != (b.State == "C") {
				t.Errorf("bill %s is inconsistent: %+v", b.ID, b)
			}
			states[b.ID] = b.State
		}
		for _, l := range all {
			if got := states[l.id]; got != l.acknowledged && got != l.requested {
				t.Errorf("bill %s: %q was acknowledged, %q was requested, got %q", l.id, l.acknowledged, l.requested, got)
			}
			l.acknowledged, l.requested = states[l.id], states[l.id]
		}
	}
	for range rounds {
		p, partners, control := launchSandbox(t, "--data", data)
		verify(control)
		acknowledgements := make(chan struct{})
		var workers sync.WaitGroup
		for range billsPerRound {
			made++
			l := &killedBill{form: []string{"legacy", "v2"}[made%2], id: fmt.Sprintf("KILL%d", made)}
			all = append(all, l)
			workers.Go(func() {
				for l.acknowledged != "C" {
					if err := l.step(partners, control, partner.URL); err != nil {
						return
					}
					acknowledgements <- struct{}{}
				}
			})
		}
		over := make(chan struct{})
		go func() { workers.Wait(); close(over) }()
		for left := rand.IntN(billsPerRound * 3); left > 0; left-- {
			select {
			case <-acknowledgements:
			case <-over:
				t.Fatal("the calls end before the sandbox is killed")
			}
		}
		p.kill()
		go func() {
			for range acknowledgements { // those still under way
			}
		}()
		<-over
		close(acknowledgements)
		if _, err := p.end(); err != nil {
			t.Fatal(err)
		}
	}
	_, _, control := launchSandbox(t, "--data", data)
	verify(control)
	late := time.After(patience)
	called, payments := map[string]bool{}, 0
	for _, l := range all {
		if l.acknowledged != "F" && l.acknowledged != "C" {
			continue
		}
		payments++
		for !called[l.id] {
			select {
			case id := <-noticed:
				called[id] = true
			case <-late:
				t.Fatalf("the payment of %s has no callback", l.id)
			}
		}
	}
	t.Logf("%d bills over %d kills, %d payments, all with a callback", len(all), rounds, payments)
}
