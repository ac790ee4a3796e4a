package proxy_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
	"billbridge/proxy/store"
)

var soakFor = flag.Duration("soak", time.Second, "how long TestR39_Soak runs")

// A soakCall is a write of a caller and how it was answered: 0000, another code, unknown, or gone if the caller did
// not wait.
type soakCall struct{ op, id, answer string }

// A soak is a gateway with callbacks and a rollout between two backends, its callers and its operator.
type soak struct {
	t         *testing.T
	gateway   *process
	old, next *soakBook
	partner   *soakPartner
	quiet     string // a config that is never used under load: a change to it closes idle connections
	loads     []string

	number atomic.Int64
	mu     sync.Mutex
	calls  []soakCall
	counts map[string]int // by operation and answer
	wrong  []string
	errors map[string]int // lines of the log with level ERROR
}

// soakStages are the stages of the partners; the operator changes that of the last one all the time.
var soakStages = []store.Stage{{Stage: "old"}, {Stage: "shadow"}, {Stage: "canary", Percent: 50}, {Stage: "new"}, {Stage: "drained"}, {Stage: "canary", Percent: 20}}

func newSoak(t *testing.T) *soak {
	s := &soak{t: t, old: newSoakBook(t, "legacy"), next: newSoakBook(t, "v2"), partner: newSoakPartner(t), counts: map[string]int{}, errors: map[string]int{}}
	url := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	opened := proxytest.BeginRollout(t, url)
	for n, stage := range soakStages {
		stage.Partner, stage.By, stage.At = partner.Of(soakKey(fmt.Sprint(n))), "soak", time.Now()
		if err := errors.Join(opened.SetStage(t.Context(), stage), opened.Seen(t.Context(), stage.Partner, time.Now().Add(-time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	callbacks := newSocket(t)
	text := func(timeout, more string) string {
		return anyPort + fmt.Sprintf(`upstreams:
  old: {form: legacy, url: %q, timeout: %s}
  new: {form: v2, url: %q, timeout: %s}
%s
route: {default: old}
failures: {explain: 200ms}
rollout: {old: old, new: new, ask: 500ms, settle: 1m}
callbacks: {public_url: "http://%s", listen: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms], jitter: 0}
store: {url: %q}
`, s.old.server.URL, timeout, s.next.server.URL, timeout, more, callbacks.Addr(), callbacks.Addr(), url)
	}
	s.quiet = text("600ms", "")
	s.loads = []string{
		text("500ms", ""),
		text("500ms", `  extra: {form: v2, url: "http://127.0.0.1:1"}`),
		text("550ms", "limits: {body: 64KiB}"),
	}
	s.gateway = newProcessOnSockets(t, s.quiet, map[string]net.Listener{"callbacks.listen": callbacks})
	return s
}

func (s *soak) reload(text string) {
	s.gateway.text.Store(&text)
	if err := s.gateway.Reload(); err != nil {
		s.note("a reload was refused: %v", err)
	}
}

func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// call makes one call and returns the code of the answer: "" if the outcome is unknown or the read has no answer,
// "gone" if the caller did not wait for it.
func (s *soak) call(client *http.Client, op, id string, within time.Duration) (code string, f soakFields) {
	form := soakForm(id)
	q := newCall(form, op).with("apiKey", soakKey(id)).with("billId", id).with("hash", "h")
	if op != "read" {
		q = q.with("price", fmt.Sprint(soakPrice(id)))
	}
	if op == "create" {
		q = q.with("expireDt", "2030-12-31").with("callbackUrl", s.partner.server.URL+"/paid/"+id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", s.gateway.url+q.path(), strings.NewReader(q.body()))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	var got []byte
	if err == nil {
		got, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	switch {
	case err != nil && within < wireTimeout:
		return "gone", f
	case err != nil:
		s.note("%s of %s was not answered: %v", op, id, err)
		return "", f
	}
	f, ok := soakRead(got)
	if code = f.code; op == "read" && form == "legacy" && f.state != "" {
		code = "0000"
	}
	if !ok || code == "" && (op == "read" || response.StatusCode < 500) || code == "0000" && (f.id != "" && f.id != id || f.key != "" && f.key != soakKey(id)) {
		s.note("%s of %s was answered with HTTP %d %s", op, id, response.StatusCode, got)
	}
	return code, f
}

// write makes a write and records it.
func (s *soak) write(client *http.Client, op, id string) (code string) {
	within := wireTimeout
	if rand.IntN(20) == 0 {
		within = time.Duration(rand.IntN(int(20 * time.Millisecond)))
	}
	code, _ = s.call(client, op, id, within)
	answer := code
	if code == "" {
		answer = "unknown"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, soakCall{op, id, answer})
	s.counts[op+" "+answer]++
	return code
}

// caller makes bills and reads each of them. It destroys a third of them.
func (s *soak) caller(n int, stop <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-stop:
			return
		default:
		}
		number := s.number.Add(1)
		id := soakID(int(number)%len(soakStages), []string{"v2", "legacy"}[n%2], number)
		created := s.write(client, "create", id)
		code, f := s.call(client, "read", id, wireTimeout)
		s.mu.Lock()
		s.counts["read "+code]++
		s.mu.Unlock()
		switch missing := code == "BILL_003" || code == "9980"; {
		case missing && created == "0000":
			s.note("%s was made, and a read says that it does not exist", id)
		case code == "0000" && created != "0000" && created != "" && created != "gone":
			s.note("%s was refused with %s, and a read shows it", id, created)
		case code == "0000" && (f.price != fmt.Sprint(soakPrice(id)) || f.state != "W" && f.state != "F" || f.id != id):
			s.note("a read of %s shows %+v", id, f)
		}
		if soakPrice(id)%3 != 1 {
			continue
		}
		destroyed := s.write(client, "destroy", id)
		if missing := destroyed == "BILL_003" || destroyed == "9980"; destroyed == "BILL_002" || missing && created == "0000" {
			s.note("the create of %s was answered with %s, and its destroy with %s", id, created, destroyed)
		}
	}
}

// enoughReloads have a stage in which each backend fails once.
const enoughReloads = 5

// load calls with eight callers while the operator reloads, moves a partner and uses the kill switch, and the
// backends fail by turns: for a time, and on a busy machine for longer, until it comes to everything.
func (s *soak) load(during, each time.Duration) (reloads int) {
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for n := range 8 {
		calling.Go(func() { s.caller(n, stop) })
	}
	tick := time.NewTicker(each)
	defer tick.Stop()
	for end := time.Now().Add(during); ; {
		if <-tick.C; reloads >= enoughReloads && time.Now().After(end) {
			close(stop)
			calling.Wait()
			s.old.failing.Store(false)
			s.next.failing.Store(false)
			return reloads
		}
		reloads++
		s.reload(s.loads[reloads%len(s.loads)])
		s.old.failing.Store(reloads%5 == 2)
		s.next.failing.Store(reloads%5 == 3)
		last := partner.Of(soakKey(fmt.Sprint(len(soakStages) - 1)))
		s.operator(fmt.Sprintf("/rollout/stage?partner=%s&stage=canary&percent=%d&by=soak&"+forced, last, 20+reloads%2*60))
		switch reloads % 10 {
		case 6:
			s.operator("/rollout/stop?by=soak&" + forced)
		case 7:
			s.operator("/rollout/resume?by=soak")
		}
		s.readLog()
	}
}

func (s *soak) operator(path string) {
	response, err := http.Post("http://"+s.gateway.AdminAddress()+path, "", nil)
	if err != nil {
		s.note("%s: %v", path, err)
		return
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != 200 {
		s.note("%s: %d %s", path, response.StatusCode, text)
	}
}

// readLog counts the errors of the log, by their text, and forgets it.
func (s *soak) readLog() {
	for line := range strings.Lines(s.gateway.logs.Take()) {
		if strings.Contains(line, `"level":"ERROR"`) {
			_, text, _ := strings.Cut(line, `"msg":"`)
			text, _, _ = strings.Cut(text, `"`)
			s.errors[text]++
		}
	}
}

// check compares each answer with what the backends did.
func (s *soak) check() {
	made := map[string]int{}
	for _, b := range []*soakBook{s.old, s.next} {
		for id, bill := range b.bills {
			made[id] += bill.creates
		}
		s.wrong = append(s.wrong, b.wrong...)
	}
	s.wrong = append(s.wrong, s.partner.wrong...)
	state := func(id string) string {
		for _, b := range []*soakBook{s.old, s.next} {
			if b.bills[id] != nil {
				return b.bills[id].state
			}
		}
		return ""
	}
	for _, c := range s.calls {
		switch n, unsure := made[c.id], c.answer == "unknown" || c.answer == "gone"; {
		case c.op == "create" && (n > 1 || c.answer == "0000" && n != 1 || c.answer != "0000" && !unsure && n != 0):
			s.note("the create of %s was answered with %s, and took effect %d times", c.id, c.answer, n)
		case c.op == "destroy" && !unsure && (c.answer == "0000") != (state(c.id) == "D"):
			s.note("the destroy of %s was answered with %s, and its state is %q", c.id, c.answer, state(c.id))
		}
	}
	for id := range s.partner.got {
		if state(id) != "F" {
			s.note("a callback was delivered of %s, whose state is %q", id, state(id))
		}
	}
	if s.errors["panic"] > 0 {
		s.note("%d panics", s.errors["panic"])
	}
	for i, text := range s.wrong {
		if i == 20 {
			s.t.Fatalf("and %d more", len(s.wrong)-i)
		}
		s.t.Error(text)
	}
}

// TestR39_Soak: with -soak 60s it runs for a minute. Not one answer is wrong or lost, and what the process holds
// returns to where it was.
func TestR39_Soak(t *testing.T) {
	s := newSoak(t)
	each := min(time.Second, *soakFor/20)
	s.load(max(*soakFor/10, time.Second/2), each) // all connections, pools and caches are there
	before := s.settle(nil)
	warm := len(s.calls)
	reloads := s.load(*soakFor, each)
	after := s.settle(&before)
	s.readLog()
	s.check()
	bills, faults, callbacks := len(s.old.bills)+len(s.next.bills), s.old.faults+s.next.faults, s.old.callbacks+s.next.callbacks
	t.Logf("%s with %d callers: %d writes (%d of them before the measurement), %d bills, %d faults of backends, %d callbacks taken, %d calls of the partner, %d reloads",
		*soakFor, 8, len(s.calls), warm, bills, faults, callbacks, s.partner.calls, reloads)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		t.Logf("%6d %s", s.counts[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.errors)) {
		t.Logf("%6d errors in the log: %s", s.errors[name], name)
	}
	s.calls, s.old.bills, s.next.bills, s.old.writes, s.next.writes, s.partner.got = nil, nil, nil, nil, nil, nil
	after.heap = s.measure().heap
	t.Logf("before: %s", before)
	t.Logf("after:  %s", after)
	if after.heap > before.heap+8<<20 {
		t.Errorf("%d KiB of heap became %d KiB", before.heap>>10, after.heap>>10)
	}
	if _, most, err := server.Series(t.Context(), proxytest.Config(t, *s.gateway.text.Load()), server.Build{}); err != nil || after.series > most {
		t.Errorf("%d series, at most %d are possible: %v", after.series, most, err)
	}
	if bills == 0 || faults == 0 || callbacks == 0 || reloads < enoughReloads {
		t.Error("it did not come to everything that it is about")
	}
}
