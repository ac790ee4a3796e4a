package relay_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/translate"

	"github.com/tidwall/gjson"
)

// A receiver is how a partner's program takes the attempt of a number (from 1) to tell it a state. Without a response there is no answer.
type receiver struct {
	name, about string
	answers     func(attempt int, state string, since time.Duration) (handles bool, r *http.Response)
	because     string // why it learns something else through the gateway; it must be there if it does
}

func answering(status int, body string) func(int, string, time.Duration) (bool, *http.Response) {
	return func(int, string, time.Duration) (bool, *http.Response) { return true, reply(status, body) }
}

const (
	inOrder = "directly, each state comes at once, and an unconfirmed payment comes again each hour, also after the cancel: the program goes back " +
		"to an older state. Through the gateway no older state comes after a newer one, so the newer one waits for three answers."
	oneByOne = "the service tries each hour, and the gateway by `callbacks.schedule`. A newer state waits until the older one was delivered."
)

// The receivers were seen in public programs (field notes, "Fifteen clients run unchanged").
var receivers = []receiver{
	{"documented", "HTTP 200 with code 0000", answering(200, `{"code":"0000"}`), ""},
	{
		"201", "HTTP 201 with code 0000", answering(201, `{"code":"0000"}`),
		"directly, only HTTP 200 counts, and the payment comes again each hour, also after the cancel. The gateway takes each 2xx with 0000 as delivered.",
	},
	{"201 without a code", "HTTP 201 with a body of its own", answering(201, `{"id":7}`), inOrder},
	{"own body", "HTTP 200 with `{\"result\":\"OK\"}`", answering(200, `{"result":"OK"}`), inOrder},
	{"code as a number", "HTTP 200 with `{\"code\":0}`", answering(200, `{"code":0}`), inOrder},
	{"no body", "HTTP 200 without a body", answering(200, ""), inOrder},
	{"once only", "the first callback of a bill is handled and confirmed; HTTP 500 to all later ones", func(attempt int, state string, _ time.Duration) (bool, *http.Response) {
		if state == "F" && attempt == 1 {
			return true, reply(200, `{"code":"0000"}`)
		}
		return false, reply(500, "")
	}, ""},
	{"down for 30 min", "no answer for 30 minutes, then as *documented*", func(_ int, _ string, since time.Duration) (bool, *http.Response) {
		if since < 30*time.Minute {
			return false, nil
		}
		return true, reply(200, `{"code":"0000"}`)
	}, oneByOne},
}

// learns returns which states of a bill a partner of a form learns, and when: it is paid at once, and cancelled after a minute.
func learns(t *testing.T, of receiver, form translate.Form, through bool) (learned string) {
	synctest.Test(t, func(t *testing.T) {
		backend := form
		if through {
			backend = map[translate.Form]translate.Form{"v2": "legacy", "legacy": "v2"}[form]
		}
		began, attempts, last, again := time.Now(), map[string]int{}, "", 0
		var mu sync.Mutex
		partner := carrier(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			state := gjson.GetBytes(body, "apprState").Str + gjson.GetBytes(body, "appr_state").Str
			attempts[state]++
			handles, answer := of.answers(attempts[state], state, time.Since(began))
			switch {
			case handles && state == "F" && last == "C":
				again++
			case handles && state != last && again == 0:
				learned += fmt.Sprintf(", %s after %s", state, config.Duration(time.Since(began).Round(10*time.Second)))
			}
			if handles {
				last = state
			}
			if answer == nil {
				return nil, errors.New("connection refused")
			}
			return answer, nil
		})
		address, sends := "https://partner.example.com/", http.RoundTripper(partner)
		if through {
			s := newTestRelay(t, setup{form: backend})
			s.Carry(partner)
			path := s.bind(asked(form, address))
			address = "https://bridge.example.com" + path
			sends = carrier(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				return s.post(path, string(body)).Result(), err
			})
			stop := s.start()
			defer stop()
		}
		service := sandbox.New(sandbox.Options{Partners: []sandbox.Partner{{Key: key}}, Transport: sends, CallbackCancelDestroy: true})
		defer func() { _ = service.Close() }()
		hash := sandbox.Hash(bill, "01000000000", "20000")
		calls := map[translate.Form][2][2]string{
			"v2":     {{"/bill", `{"apiKey":%q,"member":"m","merchant":"s","bill":{"billId":%q,"sendType":"TALK","productName":"p","memberName":"n","phone":"01000000000","price":20000,"expireDt":"2099-12-31","hash":%q,"callbackUrl":%q}}`}, {"/bill/cancel", `{"apiKey":%q,"member":"m","merchant":"s","bill":{"billId":%q,"price":20000,"hash":%q}}`}},
			"legacy": {{"/if/bill/send", `{"apikey":%q,"member":"m","merchant":"s","bill":{"bill_id":%q,"product_nm":"p","member_nm":"n","phone":"01000000000","price":"20000","expire_dt":"2099-12-31","hash":%q,"callbackURL":%q}}`}, {"/if/bill/cancel", `{"apikey":%q,"member":"m","merchant":"s","bill_id":%q,"price":"20000","hash":%q}`}},
		}[backend]
		does := func(path, body string) {
			w := httptest.NewRecorder()
			service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if !strings.Contains(w.Body.String(), `"0000"`) {
				t.Fatalf("%s: %s", path, w.Body)
			}
		}
		does(calls[0][0], fmt.Sprintf(calls[0][1], key, bill, hash, address))
		must(t, service.Pay(key, bill))
		time.Sleep(time.Minute)
		does(calls[1][0], fmt.Sprintf(calls[1][1], key, bill, sandbox.Hash(bill, "", "20000")))
		time.Sleep(time.Hour + 30*time.Second)
		mu.Lock()
		defer mu.Unlock()
		if again > 0 {
			learned += ", then F again"
		}
	})
	return strings.TrimPrefix(learned, ", ")
}

// A partner's program learns the newest state through the gateway, and no older one after it, however it answers.
func TestPartnersLearnTheNewestState(t *testing.T) {
	t.Parallel()
	page, why := string(proxytest.ReadFile(t, "testdata/conclusions.md")), "\n## Why these differ\n\n"
	for _, of := range receivers {
		page += fmt.Sprintf("- *%s*: %s\n", of.name, of.about)
	}
	differ := map[string]bool{}
	for _, form := range []translate.Form{"legacy", "v2"} {
		page += fmt.Sprintf("\n## Programs in %s\n\n| program | directly | through the gateway |\n|---|---|---|\n", form)
		for _, of := range receivers {
			directly, bridged := learns(t, of, form, false), learns(t, of, form, true)
			lacks(t, bridged, "again", form, of.name)
			if differ[of.name] = differ[of.name] || directly != bridged; directly == bridged {
				bridged = "the same"
			}
			page += fmt.Sprintf("| %s | %s | %s |\n", of.name, directly, bridged)
		}
	}
	for _, of := range receivers {
		equal(t, differ[of.name], of.because != "", of.name, of.because)
		if of.because != "" {
			why += fmt.Sprintf("- **%s**: %s\n", of.name, of.because)
		}
	}
	const file = "../../translate/CONCLUSIONS-CALLBACKS.md"
	if *update {
		proxytest.WriteFile(t, file, page+why)
	}
	equal(t, page+why, string(proxytest.ReadFile(t, file)), file)
}

var update = flag.Bool("update", false, "write translate/CONCLUSIONS-CALLBACKS.md; review every line of the diff")
