package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
)

// A washing is one partner that goes from old to drained while the new backend lies.
type washing struct {
	t        *testing.T
	rng      *rand.Rand
	ahead    atomic.Int64 // of the clock
	client   string
	old      *liar
	fresh    *liar // the new backend
	gateway  *proxy.Gateway
	router   *routing.Router
	operator *operate.Operator
	store    *store.Store
	bills    int
	why      string // the last step was refused
}

func (w *washing) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *washing) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// RoundTrip delivers a callback of a backend to the gateway.
func (w *washing) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	if b := w.fresh; b.also {
		m := fields(w.t, string(body))
		s := &said{b.form, 200, http.Header{}, m, m}
		if state, _ := m[s.name("apprState")].(string); state == b.lie.state { // not of a callback in the other form
			b.lie.tell(s)
			body = []byte(encode(m))
		}
	}
	q := httptest.NewRequest(http.MethodPost, r.URL.Path, bytes.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	w.gateway.AnswerCallback(answer, q)
	return answer.Result(), nil
}

// newWashing has the forms of the backends, and further keys of the section rollout.
func newWashing(t *testing.T, seed uint64, old, fresh, more string) *washing {
	t.Helper()
	w := &washing{t: t, rng: rand.New(rand.NewPCG(seed, 57)), client: forms[seed%2]}
	if fresh == "legacy" { // the words of the table have no pairs
		w.client = fresh
	}
	backend := func(form string) (*liar, string) {
		b := &liar{t: t, form: form, rng: rand.New(rand.NewPCG(seed, 200)), now: w.now, occasions: map[string]int{}, of: map[string]int{}, reads: map[string]int{}}
		b.Service = newService(func(o *sandbox.Options) { o.Clock, o.Transport = w.now, w })
		server := httptest.NewServer(b)
		t.Cleanup(func() { server.Close(); _ = b.Close() })
		return b, server.URL
	}
	var oldURL, freshURL string
	w.old, oldURL = backend(old)
	w.fresh, freshURL = backend(fresh)
	file := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	w.store = proxytest.BeginRollout(t, file, partner.Of(demoKey))
	c := proxytest.Config(t, fmt.Sprintf("upstreams: {old: {form: %s, url: %q}, new: {form: %s, url: %q}}\nroute: {default: old}\n"+
		"rollout: {old: old, new: new%s}\nstore: {url: %q}\n%s", old, oldURL, fresh, freshURL, more, file, callbacksOn)+
		proxytest.Tuned(func(c *config.Config) { c.Limits.Reads = 1_000_000 }))
	_, err := w.store.Tick(bg, w.now())
	must(t, err)
	w.router, err = routing.New(bg, c, routing.Options{Store: w.store, Now: w.now})
	must(t, err)
	r := relay.New(c, relay.Options{Store: w.store, Contradicted: w.router.Contradicted, Shows: routing.ShownByCallback, Now: w.now})
	w.gateway, err = proxy.New(c, proxy.Options{Rollout: w.router, Relay: r, Store: w.store, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	w.operator = operate.New(operate.Options{
		Config: w.gateway.Config, Store: w.store, Rollout: w.router, Relay: r, ReadBill: w.gateway.ReadBill, Knows: w.gateway.Knows, Now: w.now,
	})
	t.Cleanup(func() {
		must(t, w.router.Close(bg))
		w.gateway.Close()
	})
	return w
}

// send makes a call of the partner.
func (w *washing) send(op, bill string, pairs ...string) (succeeded bool) {
	w.pass(time.Second)
	q := newCall(w.client, op).with("billId", bill)
	for i := 0; i < len(pairs); i += 2 {
		q = q.with(pairs[i], pairs[i+1])
	}
	answer := httptest.NewRecorder()
	w.gateway.ServeHTTP(answer, q.request())
	return answer.Code/100 == 2 && codeOf(w.t, w.client, answer.Body.String()) == "0000"
}

// due makes the gateway's own reads.
func (w *washing) due() {
	w.pass(time.Minute)
	must(w.t, w.operator.ReadDue(bg))
}

// bill returns where a bill is.
func (w *washing) at(bill string) *sandbox.Service {
	if _, err := w.fresh.Bill(demoKey, bill); err == nil {
		return w.fresh.Service
	}
	return w.old.Service
}

// traffic is that of some days: bills are created, read, paid, cancelled and destroyed.
func (w *washing) traffic(n int) {
	var ids []string
	chance := func(percent int) bool { return w.rng.IntN(100) < percent }
	last := w.now().In(time.FixedZone("KST", 9*3600)).AddDate(0, 0, 2).Format(time.DateOnly)
	for range n {
		w.bills++
		id := fmt.Sprintf("1234567890W%09d", w.bills)
		if !w.send("create", id, "expireDt", last) {
			continue
		}
		ids = append(ids, id)
		if chance(40) {
			w.send("read", id)
		}
	}
	proxytest.Eventually(w.t, func() bool { // each bill at the new backend is read back
		w.due()
		w.fresh.mu.Lock()
		defer w.fresh.mu.Unlock()
		return !slices.ContainsFunc(ids, func(id string) bool {
			_, err := w.fresh.Bill(demoKey, id)
			return err == nil && w.fresh.reads[id] == 0
		})
	}, nil)
	for _, id := range ids {
		w.pass(time.Minute)
		service := w.at(id)
		if chance(70) {
			if service.Pay(demoKey, id) != nil {
				continue
			}
			proxytest.Eventually(w.t, func() bool {
				return !slices.ContainsFunc(service.Callbacks(), func(c sandbox.Callback) bool { return c.BillID == id && c.State == "waiting" })
			}, nil)
			if chance(90) {
				w.send("read", id)
			}
			if chance(20) && w.send("cancel", id) && chance(70) {
				w.due()
				w.send("read", id)
			}
		} else if chance(40) && w.send("destroy", id) && chance(50) {
			w.due()
			w.send("read", id)
		}
	}
	for range 2 {
		w.day()
		for _, id := range ids {
			if chance(40) {
				w.send("read", id)
			}
		}
	}
	w.day()
}

// day makes the gateway's own reads and lets a day pass.
func (w *washing) day() {
	for range 3 {
		w.due()
	}
	w.pass(24 * time.Hour)
	must(w.t, w.store.ConfirmClock(bg, store.Author{Name: "test"}, w.now()))
	_, err := w.store.Tick(bg, w.now())
	must(w.t, err)
}

// run moves the partner from old as far as it comes, with so many bills in each step. drained is whether it reached the last stage.
func (w *washing) run(bills int) (drained bool) {
	for refused := 0; refused < bills/7; {
		w.traffic(bills)
		change, err := w.operator.Move(bg, operate.Move{
			Switch:     operate.Switch{Decision: operate.Decision{Author: operate.Author{By: "test"}}},
			PartnerRef: operate.PartnerRef{Partner: string(partner.Of(demoKey))}, Do: operate.Next,
		})
		if err != nil {
			refused++
			var e *operate.Error
			if !errors.As(err, &e) {
				w.t.Fatal(err)
			}
			texts := []string{}
			for _, r := range e.Reasons {
				texts = append(texts, string(r.Kind)+": "+r.Text.String())
			}
			w.why = e.Text + " " + strings.Join(texts, "; ")
			if strings.Contains(w.why, "FAIL") {
				return false
			}
			continue
		}
		if change.New() == "drained" {
			return true
		}
	}
	return false
}

// wash runs a partner through a rollout whose new backend, in the last form, lies. The lie is told in every reply that gives
// an occasion, or if of is not 0 in one of 200, and in one for certain: of is how many occasions an honest backend has.
func wash(t *testing.T, name string, seed uint64, pair [2]string, also bool, of, bills int, more string) (w *washing, drained bool) {
	w = newWashing(t, seed, pair[0], pair[1], more)
	l, lies := lies[name]
	tell := map[int]bool{w.rng.IntN(of*6/10 + 1): true}
	if w.fresh.also = also; lies {
		w.fresh.lie = &l
	}
	w.fresh.told = func(nth int) bool {
		if of == 0 {
			return !l.turns || nth%2 == 0
		}
		return tell[nth] || w.fresh.rng.IntN(200) == 0 // one for certain
	}
	drained = w.run(bills)
	return w, drained
}

// A partner whose new backend lies in every reply stops before drained.
func TestLies(t *testing.T) {
	t.Parallel()
	few := ", verdict: {comparisons: 6, mismatch: 0.3}" +
		proxytest.Tuned(func(c *config.Config) { c.Rollout.Verdict.Bills = 4 })
	for _, row := range append([][]string{{"honest", "drained"}}, proxytest.Rows(t, "testdata/lies.txt")...) {
		parallel(t, row[0], func(t *testing.T) {
			w, drained := wash(t, row[0], 1, [2]string{"legacy", "v2"}, false, 0, 8, few)
			equal(t, drained, row[1] == "drained", w.fresh.lies, w.why)
			equal(t, w.fresh.lies > 0, row[0] != "honest")
		})
	}
}

// The same with the default limits, between the forms in both directions, three runs of each; and 20 with a lie in one of 200
// replies. Its output is the table.
func TestRareLies(t *testing.T) {
	proxytest.OnlyLong(t)
	for _, pair := range [][2]string{{"legacy", "v2"}, {"v2", "legacy"}} {
		w, drained := wash(t, "honest", 1, pair, false, 0, 60, "")
		equal(t, drained, true, w.why)
		for _, row := range proxytest.Rows(t, "testdata/lies.txt") {
			parallel(t, pair[1]+"/"+row[0], func(t *testing.T) {
				for column, want := range row[1:4] {
					runs, of, ended, unseen, told := 3, 0, 0, 0, []int{}
					if column == 2 {
						runs, of = 20, w.fresh.occasions[row[0]]
					}
					if want == "" {
						continue
					}
					for seed := range uint64(runs) {
						t.Run("", func(t *testing.T) {
							w, drained := wash(t, row[0], seed+1, pair, column == 1, of, 60, "")
							told = append(told, w.fresh.lies)
							switch {
							case w.fresh.lies == 0 || drained && !w.fresh.seen():
								unseen++
								return
							case drained:
								ended++
							}
							equal(t, drained, want == "drained", "seed", seed+1, w.why)
						})
					}
					t.Logf("| %s | %s | %s | %d of %d drained, and %d in which no lie was told, or nobody looked again | lies told: %v", pair[1], row[0],
						[]string{"each reply", "callbacks too", "1 of 200"}[column], ended, runs-unseen, unseen, told)
				}
			})
		}
	}
}
