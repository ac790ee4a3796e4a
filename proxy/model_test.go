package proxy_test

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

	"pgregory.net/rapid"
)

// The partners of the model. The guarantees of the rollout hold for what each of them does:
const (
	existingPartner = "existing" // has bills from before the rollout; never gets the stage drained, because it has bills at the old backend
	newPartner      = "new"      // has no bills before the rollout; gets every stage
	directCaller    = "direct"   // was seen only recently: it may still send calls to the old backend directly
)

// modelCounts counts what happened in the runs.
type modelCounts struct {
	runs         int
	mu           sync.Mutex
	of           map[string]int
	firstFailure string // of the first run that failed; rapid may not be able to repeat it
}

func (n *modelCounts) add(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[what]++
}

// A modelCall is one call of a partner and its result.
type modelCall struct {
	id            string
	q             call
	at            billAt
	replica       *replica // nil: a direct call to the old backend
	reads         [2]fault // of reads at either backend, also of probes
	write         fault
	before, after [2]string // state of the bill at either backend
	answer        answer
	err           error
	timeout       time.Duration // of the caller; 0: none
	delay         time.Duration // after which it is sent
	arrived       time.Time     // when a replica has read it, or soon before the replica takes note of that
	calledAt      time.Time     // when a replica first called a backend for it: it had arrived then, by the replica's time, too
	answered      time.Time
	effectAt      time.Time // when it took effect at a backend, if it did
	epoch         int       // of the store: each restore or loss begins a new one
}

// A model is two backends, the partners, the replicas of the gateway between them, and the store.
type model struct {
	run           *modelCounts
	folder        string
	backends      [2]*modelBackend
	operator      *store.Store
	replicas      []*replica
	client        *http.Client
	config        string
	servers       []*httptest.Server
	inFlight      inFlightCount // calls to backends
	stopped       bool
	restored      bool
	lost          bool
	epoch         int
	settlingOver  bool          // after the settling period no direct call can be in progress
	clock         time.Duration // how far the replicas' clocks are ahead
	storeFile     sync.Mutex    // comparisons continue after their calls have ended, and can reach the step of a backup
	backup        bool
	stepsToBackup atomic.Int64 // steps until a backup is made; negative after it
	t             rapid.TB
	all           []*modelCall
	history       []string

	mu                sync.Mutex
	byID              map[string]*modelCall
	received          map[string]int                    // writes at backends, by call
	effects           map[string]int                    // by call
	possibleCreates   map[billAt]map[*modelBackend]int  // creates in progress at a backend
	unresolvedCreates map[billAt]map[*modelBackend]bool // a create has ended with an unknown outcome
	violations        []string
}

func newModel(t rapid.TB, run *modelCounts, folder string) *model {
	w := &model{
		t: t, run: run, folder: folder, inFlight: newInFlightCount(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: testTimeout},
		byID: map[string]*modelCall{}, received: map[string]int{}, effects: map[string]int{},
		possibleCreates: map[billAt]map[*modelBackend]int{}, unresolvedCreates: map[billAt]map[*modelBackend]bool{},
	}
	for i, form := range []string{"legacy", "v2"} {
		var partners []sandbox.Partner
		for _, key := range []string{existingPartner, newPartner, directCaller} {
			partners = append(partners, sandbox.Partner{Key: key, Name: key})
		}
		s := &modelBackend{form: form, model: w, service: newService(func(o *sandbox.Options) { o.Partners = partners })}
		server := httptest.NewServer(s)
		w.servers = append(w.servers, server)
		s.url, w.backends[i] = server.URL, s
	}
	w.config = fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q, timeout: %s}
  new: {form: v2, url: %q, timeout: %s}
route: {default: old}
rollout: {old: old, new: new}
store: {url: "sqlite:%s"}
`, w.backends[0].url, modelTimeout, w.backends[1].url, modelTimeout, w.file()) + proxytest.Tuned(func(c *config.Config) {
		c.Rollout.ProbeTimeout, c.Rollout.SendWithin = modelTimeout, 110*time.Millisecond
	})
	w.open(t)
	_, err := w.operator.Reconcile(bg, w.upstreams(), true, time.Now())
	must(t, err)
	must(t, w.operator.Change(bg, store.Change{Action: store.Begun, By: "test", At: time.Now()}))
	for _, key := range []string{existingPartner, newPartner} {
		must(t, w.operator.Seen(bg, partner.Of(key), time.Now().Add(-time.Hour)))
	}
	w.replicate(t)
	return w
}

func (w *model) file() string { return filepath.Join(w.folder, "store.db") }

func (w *model) open(t rapid.TB) {
	var err error
	w.operator, err = store.Open(bg, "sqlite:"+w.file())
	must(t, err)
}

func (w *model) close() {
	w.stopReplicas()
	w.storeFile.Lock()
	defer w.storeFile.Unlock()
	_ = w.operator.Close()
	w.client.CloseIdleConnections()
	for i, server := range w.servers {
		server.Close()
		for range w.backends[i].service.Bills() {
			w.run.add("bills")
		}
		_ = w.backends[i].service.Close()
	}
}

func (w *model) violation(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// faultOf returns the fault of a call at a backend.
func (w *model) faultOf(id string, s *modelBackend, op string) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID[id]
	switch {
	case c == nil || c.replica == nil:
		return noFault
	case isWrite(op):
		return c.write
	}
	return c.reads[slices.Index(w.backends[:], s)]
}

func (w *model) other(s *modelBackend) *modelBackend {
	return w.backends[1-slices.Index(w.backends[:], s)]
}

// checkArrival checks a call that reached a backend: no write goes to a backend that does not have the bill, and no
// create to one while the other may have created it.
func (w *model) checkArrival(s *modelBackend, id, op string, at billAt) *backendCall {
	w.inFlight.add(1)
	v := &backendCall{backend: s, id: id, op: op, at: at, fault: w.faultOf(id, s, op)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.fault != noFault {
		w.run.add("faults")
	}
	c := w.byID[id]
	if v.direct = c == nil || c.replica == nil; v.direct || !isWrite(op) {
		return v
	}
	w.received[id]++
	other := w.other(s)
	if n := slices.Index(w.backends[:], other); c.before[n] != "" {
		w.violation("%s: a %s of %v was sent to the %s backend, but the bill is at the %s one", id, op, at, s.form, other.form)
	}
	if op != "create" {
		return v
	}
	if w.possibleCreates[at][other] > 0 || w.unresolvedCreates[at][other] {
		w.violation("%s: a create of %v was sent to the %s backend after a create at the %s backend that may have taken effect", id, at, s.form, other.form)
	}
	if w.possibleCreates[at] == nil {
		w.possibleCreates[at], w.unresolvedCreates[at] = map[*modelBackend]int{}, map[*modelBackend]bool{}
	}
	w.possibleCreates[at][s]++
	return v
}

// finishCall ends a call at a backend, once.
func (w *model) finishCall(v *backendCall, certain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.finished {
		return
	}
	v.finished = true
	if v.direct || v.op != "create" {
		return
	}
	w.possibleCreates[v.at][v.backend]--
	if !certain {
		w.unresolvedCreates[v.at][v.backend] = true
	}
}

func (w *model) recordEffect(v *backendCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.byID[v.id]; c != nil {
		c.effectAt = time.Now()
	}
	if w.effects[v.id]++; w.effects[v.id] > 1 {
		w.violation("%s: took effect twice", v.id)
	}
}

// sameTime is the interval within which the order of two calls is unknown.
const sameTime = 20 * time.Millisecond

// runsByDefault limits the model to a few seconds. -rapid.checks changes it: 60 in .ci/run, 1,000 in .ci/long.
const runsByDefault = 4

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// Partners, customers, operators and faults act at random. Every call is checked against the guarantees of the
// rollout.
func TestRolloutModel(t *testing.T) {
	t.Parallel()
	run, folder := &modelCounts{of: map[string]int{}}, t.TempDir()
	defer func() {
		t.Log(run.runs, "runs:", run.of)
		if run.firstFailure != "" {
			t.Log("the first run that failed:\n" + run.firstFailure)
		}
	}()
	var n atomic.Int64
	failed := false
	rapid.Check(t, func(t *rapid.T) {
		if !failed && run.runs == runsByDefault && !isSet("rapid.checks") {
			return
		}
		own := filepath.Join(folder, fmt.Sprint(n.Add(1)))
		must(t, os.Mkdir(own, 0o700))
		w := newModel(t, run, own)
		defer w.close()
		defer func() {
			if t.Failed() {
				if !failed {
					run.firstFailure = strings.Join(append(w.history, w.violations...), "\n")
				}
				failed = true // the following runs make the failed one smaller
				t.Log(strings.Join(w.history, "\n"))
			}
		}()
		run.runs++
		w.createBeforeRollout(t)
		w.stage(t)
		w.stage(t)
		events := slices.Concat(slices.Repeat([]func(*rapid.T){w.calls}, 12),
			[]func(*rapid.T){w.stage, w.stage, w.stage, w.stage, w.stop, w.pay, w.pay, w.callDirectly, w.restart, w.backUp, w.restore, w.loseLastWrites, w.loseLastWrites, w.loseStore, w.swapAddresses, w.wrongClock, w.sweep, w.passSettlingPeriod})
		t.Repeat(map[string]func(*rapid.T){"": w.checkOneBackend, "event": func(t *rapid.T) { pick(t, "event", events...)(t) }})
		w.stopReplicas()
		w.readAll(t)
		w.stopReplicas()
		w.checkWrites()
		w.checkOneBackend(t)
	})
}

// namedState finds the state in the answer to a read and in the explanation of an unknown outcome.
var namedState = regexp.MustCompile(`Bill(?: is in|:) state ([A-Z])[.,]|"appr_?[sS]tate": ?"([A-Z])"`)

// stateRank orders the states of a bill.
var stateRank = map[string]int{"": -1, "W": 0, "F": 1, "D": 1, "C": 2}

// possibleBetween reports whether a bill can have had a state between two others. States change only from W to F to C,
// or from W to D.
func possibleBetween(before, state, after string) bool {
	if stateRank[before] > stateRank[state] || stateRank[state] > stateRank[after] {
		return false
	}
	return stateRank[state] != 1 || (before != "F" && before != "D" || before == state) && (after != "F" && after != "D" || after == state) && (after != "C" || state == "F")
}

// checkAnswer compares one answer with the bills of the backends.
func (w *model) checkAnswer(t *rapid.T, c *modelCall, storeOut bool) {
	switch {
	case c.err != nil && c.timeout > 0:
		w.run.add("callers that gave up")
		return
	case c.err != nil && c.replica != nil && c.replica.dead.Load():
		w.run.add("cut off by a crash")
		return
	case c.err != nil:
		t.Fatalf("%s: %v", c.id, c.err)
	}
	code, body := codeOf(t, c.q.form, c.answer.body), c.answer.body
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run.add(cmp.Or(map[string]string{"0000": "acknowledged", noCode: "unknown outcomes"}[code], "refused"))
	if strings.Contains(body, "could not be sent within") {
		w.run.add("writes not sent, since they came too late")
	}
	switch code {
	case "BILL_003":
		if c.before != [2]string{} {
			w.violation("%s: answered with no such bill, but the bill exists: %q", c.id, c.before)
		}
	case "BILL_001", "BILL_002", "BILL_006":
		if c.after == [2]string{} {
			w.violation("%s: answered with %s, but the bill does not exist", c.id, code)
		}
	}
	for _, m := range namedState.FindAllStringSubmatch(body, -1) {
		state := m[1] + m[2]
		if !possibleBetween(c.before[0], state, c.after[0]) && !possibleBetween(c.before[1], state, c.after[1]) {
			w.violation("%s: the answer has state %s, but the bill was in %q before and in %q after it", c.id, state, c.before, c.after)
		}
	}
	if storeOut && isWrite(c.q.op) && code == "0000" {
		w.violation("%s: a write succeeded while the store was down", c.id)
	}
	if strings.Contains(body, "Nothing was sent") && w.received[c.id] > 0 {
		w.violation("%s: the answer says that nothing was sent, but a backend got it", c.id)
	}
}

// readAll reads every bill when there are no more faults: each bill must be found, and no other. "No such bill"
// counts only after the settling period of a restore, and after the time that a create without an answer may be
// under way.
func (w *model) readAll(t *rapid.T) {
	if w.isWrong() {
		w.wrongClock(t)
	}
	w.passSettlingPeriod(t)
	for _, partner := range []string{existingPartner, newPartner, directCaller} {
		for n := range billsPerPartner {
			var c *modelCall
			code := ""
			for try := 0; try < 20 && code != "0000" && code != "BILL_003"; try++ { // a busy machine can cause timeouts
				c = w.newCall(forms[n%2], "read", partner, n)
				c.replica = w.replicas[0]
				w.send(t, c)
				w.checkAnswer(t, c, false)
				code = codeOf(t, c.q.form, c.answer.body)
			}
			if exists := c.after[0]+c.after[1] != ""; exists != (code == "0000") || !exists != (code == "BILL_003") {
				t.Errorf("%s: a bill in the states %q is answered with %s", c.id, c.after, c.answer.body)
			}
		}
	}
}

// checkWrites compares the answers of all writes with their effects, when no call is in progress any more.
func (w *model) checkWrites() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		if !isWrite(c.q.op) || c.err != nil || c.replica == nil {
			continue
		}
		n, refusal := w.effects[c.id], regexp.MustCompile(`"code": ?"`).MatchString(c.answer.body) && !strings.Contains(c.answer.body, `"0000"`)
		switch {
		case strings.Contains(c.answer.body, `"0000"`) && n != 1:
			w.violation("%s: succeeded, but took effect %d times", c.id, n)
		case refusal && c.answer.status < 500 && n != 0:
			w.violation("%s: refused, but took effect", c.id)
		case refusal && strings.Contains(c.answer.body, "Nothing was sent") && w.received[c.id] > 0:
			w.violation("%s: the answer says that nothing was sent, but a backend got it", c.id)
		}
	}
	for _, denied := range w.all {
		if denied.q.op == "create" || denied.replica == nil || denied.err != nil || !strings.Contains(denied.answer.body, `"BILL_003"`) {
			continue
		}
		w.run.add("answers with no such bill")
		for _, c := range w.all {
			if c.q.op == "create" && c.at == denied.at && c.replica != nil && c.epoch == denied.epoch && denied.arrived.Sub(c.calledAt) > sameTime && c.effectAt.After(denied.answered) {
				w.violation("%s: the create took effect after %s, which arrived later, was answered with no such bill", c.id, denied.id)
			}
		}
	}
	for id, n := range w.received {
		if n > 1 {
			w.violation("%s: sent %d times", id, n)
		}
	}
}

// checkOneBackend fails if a bill is at both backends, and for every violation so far.
func (w *model) checkOneBackend(t *rapid.T) {
	for _, b := range w.backends[0].service.Bills() {
		equal(t, w.backends[1].state(billAt{b.Partner, b.ID}), "", b.ID, b.Partner)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.violations {
		t.Error(text)
	}
	if t.Failed() {
		t.FailNow()
	}
}
