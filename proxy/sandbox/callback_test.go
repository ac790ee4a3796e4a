package sandbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
)

// A partner is the server of a partner. It records callbacks and answers them.
type partner struct {
	url string

	mu     sync.Mutex
	answer http.HandlerFunc
	got    []receivedCallback
}

type receivedCallback struct {
	method, contentType, body string
	at                        time.Time
}

const successAnswer = `{"code":"0000","msg":"성공하였습니다."}`

func answerWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func newPartner(t *testing.T, answer http.HandlerFunc) *partner {
	p := &partner{answer: answer}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL + "/notice"
	return p
}

func (p *partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.got = append(p.got, receivedCallback{r.Method, r.Header.Get("Content-Type"), string(body), time.Now()})
	answer := p.answer
	p.mu.Unlock()
	answer(w, r)
}

// RoundTrip delivers callbacks without a socket, for tests with a fake clock.
func (p *partner) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}

func (p *partner) received() []receivedCallback {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]receivedCallback{}, p.got...)
}

func (p *partner) setAnswer(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// The first attempt is made at once, then one every hour for 24 hours.
func TestCallbackSchedule(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		retries, works int // the attempt that succeeds; 0 for none
		attempts       int
		state          string
	}{
		"never":       {0, 0, 25, "given_up"},
		"at once":     {0, 1, 1, "delivered"},
		"third":       {0, 3, 3, "delivered"},
		"last":        {0, 25, 25, "delivered"},
		"two retries": {2, 0, 3, "given_up"},
		"no retries":  {-1, 0, 1, "given_up"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &partner{}
				p.answer = func(w http.ResponseWriter, r *http.Request) {
					if len(p.received()) == row.works {
						answerWith(200, successAnswer)(w, r)
						return
					}
					answerWith(500, "")(w, r)
				}
				s := sandbox.New(sandbox.Options{Transport: p, CallbackRetries: row.retries})
				newCall("legacy", "create").at(s)
				paid := time.Now()
				must(t, s.Pay(demoKey, billID))
				time.Sleep(48 * time.Hour)
				synctest.Wait()
				got := p.received()
				if len(got) != row.attempts {
					t.Fatalf("%d attempts, want %d", len(got), row.attempts)
				}
				c := s.Callbacks()[0]
				for i, n := range got {
					if want := paid.Add(time.Duration(i) * time.Hour); !n.at.Equal(want) || !c.Attempts[i].At.Equal(want) {
						t.Errorf("attempt %d at %v and %v, want %v", i, n.at, c.Attempts[i].At, want)
					}
					equal(t, n.body, got[0].body, i)
				}
				if c.State != row.state || len(c.Attempts) != row.attempts || !c.Next.IsZero() {
					t.Errorf("%+v", c)
				}
				must(t, s.Close())
			})
		})
	}
}

// Only HTTP 200 with the code 0000 is a success.
func TestOnlyCode0000EndsTheAttempts(t *testing.T) {
	t.Parallel()
	elsewhere := newPartner(t, answerWith(200, successAnswer))
	type answer struct {
		name   string
		answer http.HandlerFunc
		wrong  string // a part of the reason; empty for a success
	}
	rows := []answer{
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.url, http.StatusTemporaryRedirect)
		}, "307"},
		{"broken off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"broken off in the middle", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, successAnswer)
			panic(http.ErrAbortHandler)
		}, "EOF"},
		{"long", answerWith(200, successAnswer+strings.Repeat(" ", 1<<20)), ""},
		{"broken letters", answerWith(200, "{\"code\":\"0000\",\"msg\":\"\xff\"}"), "JSON object"},
	}
	for _, cells := range proxytest.Rows(t, "testdata/rows/answers.txt") {
		status, _ := strconv.Atoi(cells[0])
		rows = append(rows, answer{strings.Join(cells, " "), answerWith(status, cells[1]), cells[2]})
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, row.answer)
			r := start(t)
			r.must(newCall("v2", "create").with("callbackUrl", p.url))
			must(t, r.Pay(demoKey, billID))
			state := "delivered"
			if row.wrong != "" {
				state = "waiting"
			}
			c := r.awaitCallbackOf(billID, "F", state, 1)
			if got := c.Attempts[0].Wrong; (got == "") != (row.wrong == "") || !strings.Contains(got, row.wrong) {
				t.Errorf("got %q, want %q", got, row.wrong)
			}
			equal(t, len(elsewhere.received()), 0, "a redirect was followed")
		})
	}
}

// An attempt at an invalid address fails with a reason.
func TestCallbackToAnInvalidAddressFails(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/addresses.txt") {
		address, want := row[0], row[1]
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{Transport: http.DefaultTransport})
			r.must(newCall("v2", "create").with("callbackUrl", address))
			must(t, r.Pay(demoKey, billID))
			if a := r.awaitCallbackOf(billID, "F", "waiting", 1).Attempts[0]; !strings.Contains(a.Wrong, want) || a.Status != 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// An attempt whose answer takes longer than the timeout fails.
func TestCallbackTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := sandbox.New(sandbox.Options{Transport: hangs, CallbackTimeout: 3 * time.Second, CallbackRetries: 1, CallbackInterval: time.Minute})
		newCall("v2", "create").at(s)
		paid := time.Now()
		must(t, s.Pay(demoKey, billID))
		time.Sleep(3*time.Second + time.Minute + time.Second)
		// Interrupted during the second attempt, which does not count.
		must(t, s.Close())
		c := s.Callbacks()[0]
		if len(c.Attempts) != 1 || c.State != "waiting" || !strings.Contains(c.Attempts[0].Wrong, "exceeded") || !c.Next.Equal(paid.Add(3*time.Second+time.Minute)) {
			t.Errorf("%+v", c)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Notify gives a callback as many attempts as the first time, and keeps the earlier ones.
func TestNotifyKeepsEarlierAttempts(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(500, ""))
	r := start(t, sandbox.Options{CallbackRetries: 1})
	r.must(newCall("v2", "create").with("callbackUrl", p.url))
	must(t, r.Pay(demoKey, billID))
	for round := range 3 {
		r.awaitCallbackOf(billID, "F", "waiting", 2*round+1)
		r.runControl(`POST /clock {"advance":"1h"} > 200`)
		c := r.awaitCallbackOf(billID, "F", "given_up", 2*round+2)
		if c.Earlier != 2*round || !c.Made.Equal(noon) {
			t.Errorf("%+v", c)
		}
		r.runControl(`POST /bills/{bill}/notify > 200`)
	}
}

// A callback of a payment and, with the option, of a cancel and a destroy has the fields of a read at the top level, in
// the form of the bill. At the address of a registration it is in v2. The bill's own address comes first.
func TestCallbackShowsWhatAReadShows(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for _, callForm := range forms {
			for op, want := range map[string]string{"pay": "F", "cancel": "FC", "destroy": "D"} {
				for _, address := range []string{"of the bill", "of the registration", "of both"} {
					t.Run(strings.Join([]string{form, callForm, op, address}, "/"), func(t *testing.T) {
						t.Parallel()
						r := start(t, sandbox.Options{CallbackCancelDestroy: true})
						own, registered := newPartner(t, answerWith(200, successAnswer)), newPartner(t, answerWith(200, `{"code":"0000"}`))
						create, wantForm, notified := newCall(form, "create").with("callbackUrl", own.url), form, own
						if address == "of the registration" {
							create, wantForm, notified = create.with("callbackUrl", omitted{}), "v2", registered
						}
						if address != "of the bill" {
							r.post("/auth/mapping", encode(map[string]any{
								"apiKey": demoKey, "memberId": "demo-member", "merchantId": "demo-store", "callbackUrl": registered.url,
							}))
						}
						r.must(create)
						if op != "destroy" {
							works(t)(r.PayWith(demoKey, billID, sandbox.Payment{Method: "OFFLINE_CASH", CashReceipt: "self"}))
						}
						if op != "pay" {
							r.must(newCall(callForm, op))
						}
						c := r.awaitCallbackOf(billID, want[len(want)-1:], "delivered", 1)
						if a := c.Attempts[0]; a.Status != 200 || a.Wrong != "" || !strings.Contains(a.Answer, `"0000"`) || c.URL != notified.url || c.Form != wantForm {
							t.Errorf("%+v", c)
						}
						read := r.must(newCall(wantForm, "read"))
						if wantForm == "v2" {
							read = string(dataOf(t, json.RawMessage(read)))
						}
						got := notified.received()
						last := got[len(got)-1]
						equal(t, []string{last.method, last.contentType, last.body}, []string{http.MethodPost, "application/json; charset=utf-8", read})
						equal(t, notified.receivedStates(), want, "callbacks report")
						equal(t, len(own.received())+len(registered.received()), len(want), "callbacks in all")
					})
				}
			}
		}
	}
}
