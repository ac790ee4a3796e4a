package sandbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/sandbox"
)

// partner is a partner's server: it keeps what it was sent, and answers as it is told.
type partner struct {
	url string

	mu     sync.Mutex
	answer http.HandlerFunc
	got    []notice
}

type notice struct {
	method, contentType, body string
	at                        time.Time
}

const thanks = `{"code":"0000","msg":"성공하였습니다."}`

func says(status int, body string) http.HandlerFunc {
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
	p.got = append(p.got, notice{r.Method, r.Header.Get("Content-Type"), string(body), time.Now()})
	answer := p.answer
	p.mu.Unlock()
	answer(w, r)
}

// RoundTrip lets a service reach the partner without a socket, where time is not real.
func (p *partner) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}

func (p *partner) notices() []notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]notice{}, p.got...)
}

func (p *partner) says(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// settled asks the control surface until no attempt of the bill's callback is
// still to be made now, and returns it.
func (r *rig) settled(billID, state string, attempts int) sandbox.Callback {
	r.t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		_, body := r.ctl(http.MethodGet, "/callbacks?bill="+billID, "")
		var list []sandbox.Callback
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			r.t.Fatal(err)
		}
		if len(list) == 1 && list[0].State == state && len(list[0].Attempts) == attempts {
			return list[0]
		}
		if time.Now().After(late) {
			r.t.Fatalf("no %s callback of %s with %d attempts: %s", state, billID, attempts, body)
		}
	}
}

// TestCallback: the notice of a payment is what a read shows, flat, in the form
// the bill was made in; at the address of the registration it is v2.
func TestCallback(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for _, address := range []string{"of the bill", "of the registration", "of both"} {
			t.Run(form+"/"+address, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				own, registered := newPartner(t, says(200, thanks)), newPartner(t, says(200, `{"code":"0000"}`))
				create, want, told := newAsk(form, "create").with("callbackUrl", gone{}), form, own
				if address != "of the registration" {
					create = create.with("callbackUrl", own.url)
				} else {
					want, told = "v2", registered
				}
				if address != "of the bill" {
					r.post("/auth/mapping", encode(map[string]any{
						"apiKey": demoKey, "memberId": "demo-member", "merchantId": "demo-store", "callbackUrl": registered.url,
					}))
				}
				r.must(create)
				_, control := r.ctl(http.MethodPost, "/bills/"+billID+"/pay", `{"method":"OFFLINE_CASH","cash_receipt":"self"}`)
				if !strings.Contains(control, `"state":"F"`) {
					t.Fatal(control)
				}
				c := r.settled(billID, "delivered", 1)
				if a := c.Attempts[0]; a.Status != 200 || a.Wrong != "" || !strings.Contains(a.Answer, `"0000"`) || c.URL != told.url || c.Form != want {
					t.Errorf("%+v", c)
				}
				read := r.must(newAsk(want, "read"))
				if want == "v2" {
					var envelope struct{ Data json.RawMessage }
					if err := json.Unmarshal([]byte(read), &envelope); err != nil {
						t.Fatal(err)
					}
					read = string(envelope.Data)
				}
				got := append(own.notices(), registered.notices()...)
				if len(got) != 1 || got[0].method != http.MethodPost || got[0].contentType != "application/json; charset=utf-8" || got[0].body != read {
					t.Errorf("got  %+v\nwant %s", got, read)
				}
				if len(told.notices()) != 1 {
					t.Error("it went to the wrong address")
				}
			})
		}
	}
}

// TestNoCallback: without an address, and without a payment, nothing is sent.
func TestNoCallback(t *testing.T) {
	t.Parallel()
	p := newPartner(t, says(200, thanks))
	r := start(t, sandbox.Options{})
	r.must(newAsk("legacy", "create").with("callbackUrl", gone{}))
	if err := r.Pay(demoKey, billID); err != nil {
		t.Fatal(err)
	}
	r.must(newAsk("legacy", "cancel"))
	r.must(newAsk("v2", "create").with("billId", "FAILED").with("callbackUrl", p.url))
	if err := r.Fail(demoKey, "FAILED", "PAYMENT_001"); err != nil {
		t.Fatal(err)
	}
	r.must(newAsk("v2", "create").with("billId", "DESTROYED").with("callbackUrl", p.url))
	r.must(newAsk("v2", "destroy").with("billId", "DESTROYED"))
	if _, body := r.ctl(http.MethodGet, "/callbacks", ""); strings.TrimSpace(body) != "[]" || len(p.notices()) != 0 {
		t.Errorf("%s %+v", body, p.notices())
	}
}

// TestCallbackSchedule sees all of the default schedule, in time that is not real:
// the first attempt at once, then one each hour for 24 hours.
func TestCallbackSchedule(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		retries, works int // the attempt that the partner takes; 0 for none
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
					if len(p.notices()) == row.works {
						says(200, thanks)(w, r)
						return
					}
					says(500, "")(w, r)
				}
				s := sandbox.New(sandbox.Options{Transport: p, CallbackRetries: row.retries})
				path, body := newAsk("legacy", "create").with("expireDt", gone{}).encode()
				s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
				paid := time.Now()
				if err := s.Pay(demoKey, billID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(48 * time.Hour)
				synctest.Wait()
				got := p.notices()
				if len(got) != row.attempts {
					t.Fatalf("%d attempts, want %d", len(got), row.attempts)
				}
				c := s.Callbacks()[0]
				for i, n := range got {
					if want := paid.Add(time.Duration(i) * time.Hour); !n.at.Equal(want) || !c.Attempts[i].At.Equal(want) {
						t.Errorf("attempt %d at %v and %v, want %v", i, n.at, c.Attempts[i].At, want)
					}
					if n.body != got[0].body {
						t.Errorf("attempt %d is of another body", i)
					}
				}
				if c.State != row.state || len(c.Attempts) != row.attempts || !c.Next.IsZero() {
					t.Errorf("%+v", c)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCallbackAnswers: a success is HTTP 200 with the code 0000, and nothing else.
func TestCallbackAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := newPartner(t, says(200, thanks))
	rows := []struct {
		name   string
		answer http.HandlerFunc
		wrong  string // a part of why it does not count; empty for a success
	}{
		{"as documented", says(200, thanks), ""},
		{"code alone", says(200, `{"code":"0000"}`), ""},
		{"more than documented", says(200, ` {"code": "0000", "data": null} `), ""},
		{"created", says(201, thanks), "201"},
		{"no content", says(204, ""), "204"},
		{"server error", says(500, thanks), "500"},
		{"empty", says(200, ""), "JSON object"},
		{"OK", says(200, "OK"), "JSON object"},
		{"code twice", says(200, `{"code":"0000","code":"0000"}`), "JSON object"},
		{"another code", says(200, `{"code":"9999","msg":"0000"}`), `"9999"`},
		{"code of a number", says(200, `{"code":0}`), `got: 0`},
		{"no code", says(200, `{"msg":"0000"}`), `"0000"`},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.url, http.StatusTemporaryRedirect)
		}, "307"},
		{"broken off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"broken off in the middle", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, thanks)
			panic(http.ErrAbortHandler)
		}, "EOF"},
		{"long", says(200, thanks+strings.Repeat(" ", 1<<20)), ""},
		{"broken letters", says(200, "{\"code\":\"0000\",\"msg\":\"\xff\"}"), "JSON object"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, row.answer)
			r := start(t, sandbox.Options{})
			r.must(newAsk("v2", "create").with("callbackUrl", p.url))
			if err := r.Pay(demoKey, billID); err != nil {
				t.Fatal(err)
			}
			state := "delivered"
			if row.wrong != "" {
				state = "waiting"
			}
			c := r.settled(billID, state, 1)
			if got := c.Attempts[0].Wrong; (got == "") != (row.wrong == "") || !strings.Contains(got, row.wrong) {
				t.Errorf("got %q, want %q", got, row.wrong)
			}
			if len(elsewhere.notices()) != 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

// TestCallbackAddresses: where any address is taken, one that cannot be called is
// an attempt that fails, and says why.
func TestCallbackAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"u": "unsupported protocol scheme", "http://": "no Host", "http://[::1": "missing ']'",
		"ftp://127.0.0.1/": "unsupported protocol scheme", "http://127.0.0.1:1/": "refused", "http://a b/": "invalid character",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{AnyCallbackURL: true, Transport: http.DefaultTransport})
			r.must(newAsk("v2", "create").with("callbackUrl", address))
			if err := r.Pay(demoKey, billID); err != nil {
				t.Fatal(err)
			}
			if a := r.settled(billID, "waiting", 1).Attempts[0]; !strings.Contains(a.Wrong, want) || a.Status != 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestCallbackFollowsTheClock: setting the clock makes attempts due, and one that
// was taken is sent again when it is asked for.
func TestCallbackFollowsTheClock(t *testing.T) {
	t.Parallel()
	p := newPartner(t, says(200, "{}"))
	r := start(t, sandbox.Options{})
	r.must(newAsk("legacy", "create").with("callbackUrl", p.url))
	if err := r.Pay(demoKey, billID); err != nil {
		t.Fatal(err)
	}
	c := r.settled(billID, "waiting", 1)
	if !c.Next.Equal(noon.Add(time.Hour)) {
		t.Errorf("the next attempt is due at %v", c.Next)
	}
	r.ctl(http.MethodPost, "/clock", `{"advance":"59m59s"}`)
	r.settled(billID, "waiting", 1)
	r.ctl(http.MethodPost, "/clock", `{"advance":"1s"}`)
	r.settled(billID, "waiting", 2)
	p.says(says(200, thanks))
	r.ctl(http.MethodPost, "/clock", `{"advance":"2h"}`)
	if c := r.settled(billID, "delivered", 3); !c.Attempts[2].At.Equal(noon.Add(3 * time.Hour)) {
		t.Errorf("%+v", c)
	}
	if status, body := r.ctl(http.MethodPost, "/bills/"+billID+"/notify", ""); status != 200 {
		t.Fatal(body)
	}
	r.settled(billID, "delivered", 1)
	if got := p.notices(); len(got) != 4 || got[3].body != got[0].body {
		t.Errorf("%d notices", len(got))
	}
	if status, _ := r.ctl(http.MethodPost, "/bills/NONE/notify", ""); status != 404 {
		t.Error(status)
	}
}

// TestCallbackTimeout: a partner that does not answer in time has not answered.
func TestCallbackTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := sandbox.New(sandbox.Options{Transport: hangs, CallbackTimeout: 3 * time.Second, CallbackRetries: 1, CallbackInterval: time.Minute})
		path, body := newAsk("v2", "create").with("expireDt", gone{}).encode()
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		paid := time.Now()
		if err := s.Pay(demoKey, billID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Second + time.Minute + time.Second)
		// Ended in the middle of its second attempt, which then is none.
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		c := s.Callbacks()[0]
		if len(c.Attempts) != 1 || c.State != "waiting" || !strings.Contains(c.Attempts[0].Wrong, "exceeded") || !c.Next.Equal(paid.Add(3*time.Second+time.Minute)) {
			t.Errorf("%+v", c)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
