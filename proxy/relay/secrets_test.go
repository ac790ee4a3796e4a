package relay_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/partner"
)

// In a full run with all failures, neither the log nor the metrics nor an answer shows the key, the phone, digits of a card, an
// approval number, a part of a body, or the query of an address.
func TestR35_NoSecretIsShown(t *testing.T) {
	t.Parallel()
	const (
		secretKey = "canary-key-7f3a"
		body      = `,"phone":"01098765432","apprIssuerNum":"9410-12**-****-7654","apprNum":"30007777","apprIssuer":"canary-issuer","canary-name":"canary-value"`
	)
	// The parts of the card are sought with a neighbour that no time and no id has beside such digits.
	secrets := []string{"canary", "01098765432", "9410-", "*-7654", "30007777", secretKey, hash(secretKey), "token", "partner.example.com"}
	clock := newClock()
	s := newTestRelay(t, setup{form: "v2", callbacks: ", schedule: [0s, 1s, 1s, 1s, 1s]", top: "limits: {body: 1KiB}", now: clock.now})
	var answers strings.Builder
	post := func(path, body string, headers ...string) {
		w := s.post(path, body, headers...)
		_ = w.Result().Header.Write(&answers)
		answers.WriteString(w.Body.String())
	}
	var tried atomic.Int64
	s.Carry(carrier(func(r *http.Request) (*http.Response, error) {
		switch tried.Add(1) % 7 {
		case 0:
			return reply(302, "canary", "Location", "https://canary.example.com/"), nil
		case 1:
			return nil, errors.New(r.URL.String()) // as errors of connections show it
		case 2:
			return reply(500, r.URL.RawQuery+"canary", "X-Canary", "canary"), nil
		case 3:
			return reply(200, `{"code":"`+secretKey+`"}`), nil // other words may be shown as codes
		case 4:
			return reply(410, "canary"), nil
		case 5:
			return reply(200, documented["v2"]), nil
		}
		return reply(429, "", "Retry-After", "canary"), nil
	}))
	for _, form := range forms {
		for _, id := range []string{"A", "B", "C"} {
			a := asked(form, "https://partner.example.com/canary?token=canary")
			a.Partner, a.Bill, a.Member, a.Merchant = partner.Of(secretKey), id, "canary-member", "canary-merchant"
			path := s.bind(a)
			right := notice("v2", secretKey, id, body)
			post(path, right)
			post(path, right)
			post(path, notice("legacy", secretKey, id, body))
			post(path, notice("v2", "canary-other-key", id, body))
			post(path, notice("v2", secretKey, "canary-bill", body))
			post(path, right[:len(right)-5])
			post(path, strings.Replace(right, "}", `,"phone":"canary"}`, 1))
			post(path, strings.Repeat("canary", 1000))
			post(path, right, "Content-Encoding", "canary")
			post(path+"canary", right)
			post("/callback/"+strings.Repeat("0", 32)+"?canary=1", right)
			s.send(httptest.NewRequest("CANARY", path, strings.NewReader(right)))
			s.send(httptest.NewRequest("POST", path, io.MultiReader(strings.NewReader(right), breaks{})))
			a.URL = "https://canary:canary@127.0.0.1/canary"
			if _, err := s.Bind(t.Context(), a); err != nil {
				answers.WriteString(err.Error())
			}
		}
	}
	for range 20 {
		s.round()
		clock.add(10 * time.Second)
	}
	// An attempt whose result is not stored, and a callback that is not stored.
	a := asked("v2", "https://partner.example.com/canary?token=canary")
	a.Partner = partner.Of(secretKey)
	path := s.bind(a)
	post(path, notice("v2", secretKey, bill, body))
	s.ask("POST", "/callbacks/replay")
	s.Carry(carrier(func(*http.Request) (*http.Response, error) {
		_ = s.store.Close()
		return reply(500, "canary"), nil
	}))
	before := s.everything()
	s.round()
	post(path, notice("v2", secretKey, bill, body))
	log := s.logs.String()
	for _, line := range []string{
		"a callback is refused", "a callback failed", "the result of an attempt could not be stored", "a callback cannot be stored", "callbacks replayed",
	} {
		if !strings.Contains(log, line) {
			t.Errorf("it does not come to that: %s", line) // or the test would not see what that tells
		}
	}
	for _, secret := range secrets {
		for where, text := range map[string]string{"log": log, "metrics": before + s.everything(), "answers": answers.String()} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("the %s show %s: %s", where, secret, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}

// breaks is an incomplete body.
type breaks struct{}

func (breaks) Read([]byte) (int, error) { return 0, errors.New("canary") }

// A value in an operator's call is one value of one line of the log.
func TestR36_LogValuesAreEscaped(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	s.progress("/callbacks/drop?bill=a%0a%7b%22level%22:%22ERROR%22%7d&upstream=%1b%5b2J")
	if got := s.logs.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") || !strings.Contains(got, `"bill":"a\n{\"level\":\"ERROR\"}"`) {
		t.Errorf("%q", got)
	}
}
