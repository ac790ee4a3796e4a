package proxy_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
)

var soakTimes = proxytest.Tuned(func(c *config.Config) {
	c.Rollout.ProbeTimeout, c.Callbacks.Jitter = 500*time.Millisecond, 0
})

var soakFor = flag.Duration("soak", time.Second, "how long TestR39_Soak runs")

// A soakBackend is a sandbox of which half of the replies are faults while it is failing.
type soakBackend struct {
	*sandbox.Service
	server  *httptest.Server
	failing atomic.Bool
	faults  atomic.Int64
}

func (b *soakBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.failing.Load() && rand.IntN(2) == 0 {
		b.faults.Add(1)
		b.Fault([]sandbox.Fault{
			{Drop: true},
			{Drop: true, Skip: true},
			{FaultyHTTP: sandbox.FaultyHTTP{Truncate: true}},
			{Delay: time.Second},
			{FaultyHTTP: sandbox.FaultyHTTP{Status: 500}, Skip: true},
			{FaultyHTTP: sandbox.FaultyHTTP{Status: 502}, Body: "<html>502</html>"},
		}[rand.IntN(6)])
	}
	b.Service.ServeHTTP(w, r)
}

// A soak is a gateway with callbacks and a rollout between two sandboxes, its callers and its operator.
type soak struct {
	t        *testing.T
	gateway  *process
	backends []*soakBackend
	notify   *http.Transport // of the sandboxes, for callbacks
	partner  *httptest.Server
	quiet    string // a config that is never used under load: a change to it closes idle connections
	loads    []string

	calls, callbacks atomic.Int64
	mu               sync.Mutex
	made             map[string]string // bills that were made for certain, and the state that they must have, if known
	wrong            []string
}

// soakStages are the stages of the partners; the operator changes that of the last one all the time.
var soakStages = []store.Stage{
	{Stage: "old"},
	{Stage: "canary", Percent: 50},
	{Stage: "new"},
	{Stage: "drained"},
	{Stage: "canary", Percent: 20},
}

func soakKey(n int64) string { return fmt.Sprint("soak-partner-", n%int64(len(soakStages))) }

func newSoak(t *testing.T) *soak {
	s := &soak{t: t, made: map[string]string{}, notify: &http.Transport{}}
	s.partner = httptest.NewServer(http.HandlerFunc(s.takeCallback))
	t.Cleanup(s.partner.Close)
	url := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	opened := proxytest.BeginRollout(t, url)
	var partners []sandbox.Partner
	for n, stage := range soakStages {
		partners = append(partners, sandbox.Partner{Key: soakKey(int64(n)), Name: "soak"})
		stage.Partner, stage.By, stage.At = partner.Of(soakKey(int64(n))), "soak", time.Now()
		must(t, errors.Join(opened.Change(t.Context(), store.Change{Action: store.Staged, Partner: stage.Partner, To: stage.Stage, ToPercent: stage.Percent, By: stage.By, At: stage.At}), opened.Seen(t.Context(), stage.Partner, time.Now().Add(-time.Hour))))
	}
	for range 2 {
		b := &soakBackend{Service: newService(func(o *sandbox.Options) { o.Transport, o.Partners = s.notify, partners })}
		b.server = httptest.NewServer(b)
		t.Cleanup(func() { b.server.Close(); _ = b.Close() })
		s.backends = append(s.backends, b)
	}
	callbacks := newSocket(t)
	text := func(timeout, more string) string {
		return anyPort + fmt.Sprintf(`upstreams:
  old: {form: legacy, url: %q, timeout: %s}
  new: {form: v2, url: %q, timeout: %s}
%s
route: {default: old}
rollout: {old: old, new: new, settle: 1m}
callbacks:
  {public_url: "http://%s", listen: %q, allow: [127.0.0.0/8], ports: [],
  schedule: [0s, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms, 50ms]}
store: {url: %q}
`, s.backends[0].server.URL, timeout, s.backends[1].server.URL, timeout, more, callbacks.Addr(), callbacks.Addr(), url) + soakTimes
	}
	s.quiet = text("600ms", "")
	s.loads = []string{
		text("500ms", ""), text("500ms", `  extra: {form: v2, url: "http://127.0.0.1:1"}`),
		text("550ms", "limits: {body: 64KiB}"),
	}
	s.gateway = newProcessOnSockets(t, s.quiet, map[string]net.Listener{"callbacks.listen": callbacks})
	return s
}

func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// takeCallback is the server of all partners. It refuses some callbacks, which must come again.
func (s *soak) takeCallback(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if id := strings.TrimPrefix(r.URL.Path, "/paid/"); !strings.Contains(string(body), `"`+id+`"`) {
		s.note("a callback of %s says %s", id, body)
	}
	if s.callbacks.Add(1)%10 == 0 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, `{"code":"0000"}`)
}

// call makes one call and returns the code of its answer: "" if the outcome is unknown or the caller did not wait.
func (s *soak) call(client *http.Client, q call) string {
	s.calls.Add(1)
	waiting := &http.Client{Transport: client.Transport, Timeout: wireTimeout}
	if rand.IntN(20) == 0 {
		waiting.Timeout = 1 + time.Duration(rand.IntN(int(20*time.Millisecond)))
	}
	got, err := doRequest(waiting, http.MethodPost, s.gateway.url+q.path(), q.body())
	var answer struct {
		Code  string
		State string `json:"appr_state"` // a legacy read that succeeds has no code
	}
	switch wrong := json.Unmarshal([]byte(got.body), &answer); {
	case err != nil && waiting.Timeout < wireTimeout:
		return ""
	case err != nil:
		s.note("%s of %s was not answered: %v", q.op, q.bill["billId"], err)
	case wrong != nil && got.header.Get("Content-Type") == "text/plain; charset=utf-8" && q.op != "read":
		return ""
	case wrong != nil:
		s.note("%s of %s was answered with %s", q.op, q.bill["billId"], got.body)
	case answer.State != "":
		answer.Code = "0000"
	}
	if answer.Code == "0000" && !strings.Contains(got.body, fmt.Sprintf("%q", q.bill["billId"])) {
		s.note("%s of %s was answered with another bill: %s", q.op, q.bill["billId"], got.body)
	}
	return answer.Code
}

// caller makes bills and reads each of them. It destroys a third of them, and its customer pays another third.
func (s *soak) caller(form string, stop <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-stop:
			return
		default:
		}
		n := s.calls.Add(1)
		id := fmt.Sprintf("SOAK%016d", n)
		of := func(op string) call { return newCall(form, op).with("apiKey", soakKey(n)).with("billId", id) }
		created := s.call(client, of("create").with("callbackUrl", s.partner.URL+"/paid/"+id))
		if read := s.call(client, of("read")); created == "0000" && (read == "BILL_003" || read == "9980") {
			s.note("%s was made, and a read says that it does not exist", id)
		}
		state := ""
		switch n % 3 {
		case 0:
			for _, b := range s.backends {
				_ = b.Pay(soakKey(n), id) // the other one does not have it
			}
		case 1:
			if s.call(client, of("destroy")) == "0000" {
				state = "D"
			}
		}
		if created == "0000" {
			s.mu.Lock()
			s.made[id] = state
			s.mu.Unlock()
		}
	}
}

// enoughReloads have a stage in which each backend fails once.
const enoughReloads = 5

// load calls with eight callers while the operator reloads, moves a partner and uses the kill switch, and the
// backends fail by turns: for a time, and on a busy machine for longer, until it comes to everything.
func (s *soak) load(during, each time.Duration) {
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for n := range 8 {
		calling.Go(func() { s.caller(forms[n%2], stop) })
	}
	tick := time.NewTicker(each)
	defer tick.Stop()
	end := time.Now().Add(during)
	for reloads := 1; reloads <= enoughReloads || time.Now().Before(end); reloads++ {
		<-tick.C
		s.reload(s.loads[reloads%len(s.loads)])
		s.backends[0].failing.Store(reloads%5 == 2)
		s.backends[1].failing.Store(reloads%5 == 3)
		last := partner.Of(soakKey(int64(len(soakStages) - 1)))
		s.gateway.mustPost(fmt.Sprintf(
			"/rollout/stage?partner=%s&stage=canary&percent=%d&by=soak&"+forced, last, 20+reloads%2*60,
		))
		switch reloads % 10 {
		case 6:
			s.gateway.mustPost("/rollout/stop?by=soak&" + forced)
		case 7:
			s.gateway.mustPost("/rollout/resume?by=soak")
		}
		if strings.Contains(s.gateway.logs.Take(), `"msg":"panic"`) {
			s.note("a panic")
		}
	}
	close(stop)
	calling.Wait()
	for _, b := range s.backends {
		b.failing.Store(false)
		b.ClearFaults("")
	}
}

func (s *soak) reload(text string) {
	s.gateway.text.Store(&text)
	s.gateway.mustPost("/-/reload")
}

// check compares the answers with the bills of the backends.
func (s *soak) check() {
	at := map[string][]string{} // the states of a bill
	for _, b := range s.backends {
		for _, bill := range b.Bills() {
			at[bill.ID] = append(at[bill.ID], bill.State)
		}
	}
	for id, states := range at {
		if len(states) > 1 {
			s.note("%s was made %d times", id, len(states))
		}
	}
	for id, state := range s.made {
		if len(at[id]) != 1 || state != "" && at[id][0] != state {
			s.note("%s was made, and must have the state %q: %q", id, state, at[id])
		}
	}
	for _, text := range s.wrong[:min(20, len(s.wrong))] {
		s.t.Error(text)
	}
	faults := min(s.backends[0].faults.Load(), s.backends[1].faults.Load())
	if len(at) == 0 || faults == 0 || s.callbacks.Load() == 0 {
		s.t.Error("it did not come to everything that it is about")
	}
	s.t.Logf("%s: %d calls, %d bills, %d callbacks", *soakFor, s.calls.Load(), len(at), s.callbacks.Load())
}

// A soakFigure is what a process holds.
type soakFigure struct {
	goroutines, files, series int
	heap                      uint64
}

// soakStoreFiles is how many descriptors more the store may have: it opens connections for reading when many read at
// the same time, and keeps them.
const soakStoreFiles = 16

// measure closes what is idle and reads the figures.
func (s *soak) measure() (f soakFigure) {
	s.reload(s.loads[0])
	s.reload(s.quiet)
	s.notify.CloseIdleConnections()
	s.partner.CloseClientConnections()
	if *soakFor < 30*time.Second {
		// A call that ends after a reload leaves its connection idle for 30 s. A short run does not wait for that.
		for _, b := range s.backends {
			b.server.CloseClientConnections()
		}
	}
	for line := range strings.Lines(s.gateway.metrics()) {
		if strings.HasPrefix(line, "billbridge_") {
			f.series++
		}
		_, _ = fmt.Sscanf(line, "process_open_fds %d", &f.files)
		// The series of callbacks stay: some of a removed upstream may wait to be delivered.
		if strings.Contains(line, `upstream="extra"`) && !strings.HasPrefix(line, "billbridge_callbacks_") {
			s.t.Errorf("a series of an upstream that is gone: %s", line)
		}
	}
	s.gateway.client.CloseIdleConnections()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.goroutines, f.heap = runtime.NumGoroutine(), m.HeapAlloc
	return f
}

// settle waits until no callback waits and nothing of the load runs any more, and measures.
func (s *soak) settle(before *soakFigure) (f soakFigure) {
	s.t.Helper()
	waiting := ""
	proxytest.Eventually(s.t, func() bool {
		waiting = s.gateway.admin("GET", "/callbacks?state=waiting&limit=1").body
		return !strings.Contains(waiting, `"waiting"`)
	}, func() string { return waiting })
	if f = s.measure(); before == nil {
		return f
	}
	proxytest.Eventually(s.t, func() bool {
		f = s.measure()
		return f.goroutines <= before.goroutines && f.files <= before.files+soakStoreFiles
	}, func() string {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return fmt.Sprintf("before: %+v\nafter:  %+v\n%s", *before, f, stacks.String())
	})
	return f
}

// TestR39_Soak: with -soak 60s it runs for a minute. No answer is wrong or lost, and what the process holds returns to
// where it was.
func TestR39_Soak(t *testing.T) {
	s := newSoak(t)
	each := min(time.Second, *soakFor/20)
	s.load(max(*soakFor/10, time.Second/2), each) // all connections, pools and caches are there
	before := s.settle(nil)
	s.load(*soakFor, each)
	after := s.settle(&before)
	s.check()
	s.made = nil
	for _, b := range s.backends {
		_ = b.Close()
		b.Service = sandbox.New(sandbox.Options{})
	}
	after.heap = s.measure().heap
	t.Logf("before: %+v", before)
	t.Logf("after:  %+v", after)
	if after.heap > before.heap+8<<20 {
		t.Errorf("%d KiB of heap became %d KiB", before.heap>>10, after.heap>>10)
	}
}
