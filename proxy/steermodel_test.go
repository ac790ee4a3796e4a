package proxy_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
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
	"billbridge/proxy"
	"billbridge/proxy/rollout"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"pgregory.net/rapid"
)

// The partners of the model. What each may live through is what the rules promise something of:
const (
	mover    = "mover"    // has bills from before the bridge; is never drained, as its old bills are still there
	newcomer = "newcomer" // has none; goes through every stage
	stranger = "stranger" // was not seen for long enough: it may still be sending to the old side past the bridge
)

// A tally counts what a run lived through.
type tally struct {
	calls, direct, acknowledged, refused, unknown, aborted, faulty, bills, stages, stops, crashes, outages, backups, restores, pays atomic.Int64
}

func (n *tally) String() string {
	return fmt.Sprintf("%d calls (%d acknowledged, %d refused, %d of unknown outcome, %d cut off by a crash), %d past the bridge, %d bills, %d faults, "+
		"%d stage changes, %d stops and resumes, %d crashes, %d store outages, %d backups, %d restores, %d payments",
		n.calls.Load(), n.acknowledged.Load(), n.refused.Load(), n.unknown.Load(), n.aborted.Load(), n.direct.Load(), n.bills.Load(), n.faulty.Load(),
		n.stages.Load(), n.stops.Load(), n.crashes.Load(), n.outages.Load(), n.backups.Load(), n.restores.Load(), n.pays.Load())
}

// A sending is one call of a partner and what came of it.
type sending struct {
	id            string
	q             call
	at            billAt
	replica       *replica // nil: straight to the old side
	reads         [2]fault // of a read at either side, the gateway's own too
	write         fault
	before, after [2]string // the bill's state at either side
	answer        answer
	err           error
}

// A world is two sides, the replicas between them and the partners, and the store.
type world struct {
	run      *tally
	folder   string
	sides    [2]*side
	operator *store.Store
	replicas []*replica
	client   *http.Client
	config   string
	servers  []*httptest.Server
	busy     sync.WaitGroup // calls at the sides
	stopped  bool
	restored bool
	backup   bool
	all      []*sending
	history  []string

	mu      sync.Mutex
	byID    map[string]*sending
	visits  map[string]int            // of writes, by call
	effects map[string]int            // by call
	maybe   map[billAt]map[*side]int  // creates that may have made the bill, or may yet
	unsure  map[billAt]map[*side]bool // one of them ended so that it will never be known
	broken  []string
}

func newWorld(t rapid.TB, run *tally, folder string) *world {
	w := &world{
		run: run, folder: folder, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: patience},
		byID: map[string]*sending{}, visits: map[string]int{}, effects: map[string]int{},
		maybe: map[billAt]map[*side]int{}, unsure: map[billAt]map[*side]bool{},
	}
	for i, form := range []string{"legacy", "v2"} {
		var partners []sandbox.Partner
		for _, key := range []string{mover, newcomer, stranger} {
			partners = append(partners, sandbox.Partner{Key: key, Name: key})
		}
		s := &side{form: form, world: w, service: sandbox.New(sandbox.Options{
			BaseURL: "https://pay.example.com", Clock: func() time.Time { return noon }, Transport: noCallbacks{}, Partners: partners,
		})}
		server := httptest.NewServer(s)
		w.servers = append(w.servers, server)
		s.url, w.sides[i] = server.URL, s
	}
	w.config = fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q, timeout: %s}
  new: {form: v2, url: %q, timeout: %s}
route: {default: old}
failures: {explain: %s}
rollout: {old: old, new: new, ask: %s}
store: {url: "sqlite:%s"}
`, w.sides[0].url, steerWithin, w.sides[1].url, steerWithin, steerWithin, steerWithin, w.file())
	w.open(t)
	for _, key := range []string{mover, newcomer} {
		must(t, w.operator.Seen(context.Background(), partnerHash(key), time.Now().Add(-time.Hour)))
	}
	w.replicate(t)
	return w
}

func (w *world) file() string { return filepath.Join(w.folder, "store.db") }

func partnerHash(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) open(t rapid.TB) {
	var err error
	w.operator, err = store.Open(context.Background(), "sqlite:"+w.file())
	must(t, err)
}

// replicate starts one more replica, which knows what was decided by now. Those that run keep what they know: to them a
// change comes late, as it does to replicas that ask once a second. No more than two run.
func (w *world) replicate(t rapid.TB) {
	r := &replica{world: w}
	r.left.Store(1 << 40)
	var err error
	r.store, err = store.Open(context.Background(), "sqlite:"+w.file())
	must(t, err)
	c, err := config.Parse(file(w.config), func(string) (string, bool) { return "", false })
	must(t, err)
	router, err := rollout.New(context.Background(), c, rollout.Options{Store: r.store})
	must(t, err)
	r.gateway, err = proxy.New(c, proxy.Options{Rollout: router, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	for i, name := range []string{"old", "new"} {
		r.gateway.Trip(name, func(next http.RoundTripper) http.RoundTripper { return wiretap{r, w.sides[i], next} })
	}
	r.server = httptest.NewServer(r)
	w.replicas = append(w.replicas, r)
	if len(w.replicas) > 2 {
		w.end(w.replicas[0])
	}
}

// end takes a replica out, dead or not. No call of a partner is under way.
func (w *world) end(r *replica) {
	w.replicas = slices.DeleteFunc(w.replicas, func(other *replica) bool { return other == r })
	w.client.CloseIdleConnections()
	r.server.Close()
	r.kill()
}

// quiet ends every replica and waits until nothing is under way any more.
func (w *world) quiet() {
	for len(w.replicas) > 0 {
		w.end(w.replicas[0])
	}
	w.busy.Wait()
}

func (w *world) shut() {
	w.quiet()
	_ = w.operator.Close()
	w.client.CloseIdleConnections()
	for i, server := range w.servers {
		server.Close()
		w.run.bills.Add(int64(len(w.sides[i].service.Bills())))
		_ = w.sides[i].service.Close()
	}
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) breach(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// faultOf is what goes wrong with a call at a side.
func (w *world) faultOf(id string, s *side, op string) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID[id]
	switch {
	case c == nil || c.replica == nil:
		return sound
	case isWrite(op):
		return c.write
	case s == w.sides[0]:
		return c.reads[0]
	}
	return c.reads[1]
}

func (w *world) other(s *side) *side {
	if s == w.sides[0] {
		return w.sides[1]
	}
	return w.sides[0]
}

// arrive holds a call that reached a side to the rules: no write comes where the bill is not, and no create where the
// other side may have made the bill.
func (w *world) arrive(s *side, id, op string, at billAt) *visit {
	w.busy.Add(1)
	v := &visit{side: s, id: id, op: op, at: at, fault: w.faultOf(id, s, op)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.fault != sound {
		w.run.faulty.Add(1)
	}
	c := w.byID[id]
	if v.direct = c == nil || c.replica == nil; v.direct || !isWrite(op) {
		return v
	}
	w.visits[id]++
	other := w.other(s)
	if n := slices.Index(w.sides[:], other); c.before[n] != "" {
		w.breach("%s: a %s of %v came to the %s side, and the bill is at the %s one", id, op, at, s.form, other.form)
	}
	if op != "create" {
		return v
	}
	if w.maybe[at][other] > 0 || w.unsure[at][other] {
		w.breach("%s: a create of %v came to the %s side after one at the %s side that may have made it", id, at, s.form, other.form)
	}
	if w.maybe[at] == nil {
		w.maybe[at], w.unsure[at] = map[*side]int{}, map[*side]bool{}
	}
	w.maybe[at][s]++
	return v
}

// leave ends a visit, once.
func (w *world) leave(v *visit, certain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.finished {
		return
	}
	v.finished = true
	if v.direct || v.op != "create" {
		return
	}
	w.maybe[v.at][v.side]--
	if !certain {
		w.unsure[v.at][v.side] = true
	}
}

func (w *world) effect(v *visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.effects[v.id]++; w.effects[v.id] > 1 {
		w.breach("%s: it took effect twice", v.id)
	}
}

// TestSteeringModel lets partners, customers, operators and accidents do what they like, and holds every call to what
// the rollout promises.
func TestSteeringModel(t *testing.T) {
	t.Parallel()
	run, folder := &tally{}, t.TempDir()
	defer func() { t.Log(run) }()
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		own := filepath.Join(folder, fmt.Sprint(n.Add(1)))
		must(t, os.Mkdir(own, 0o700))
		w := newWorld(t, run, own)
		defer w.shut()
		defer func() {
			if t.Failed() {
				t.Log(strings.Join(w.history, "\n"))
			}
		}()
		w.before(t)
		t.Repeat(map[string]func(*rapid.T){
			"": w.check, "calls": w.calls, "calls 2": w.calls, "calls 3": w.calls, "calls 4": w.calls, "calls 5": w.calls,
			"calls 6": w.calls, "calls 7": w.calls, "calls 8": w.calls, "stage": w.stage, "stage 2": w.stage,
			"stop": w.stop, "pay": w.pay, "direct": w.direct, "restart": w.restart, "backup": w.copy, "restore": w.restore,
		})
		w.quiet()
		w.judgeAll()
		w.check(t)
	})
}

// The bills of a partner that calls are about: few, so that they meet.
func drawBill(t *rapid.T) (partner string, n int) {
	return rapid.SampledFrom([]string{mover, newcomer, newcomer, mover, stranger}).Draw(t, "partner"), rapid.IntRange(0, 6).Draw(t, "bill")
}

func (w *world) newSending(form, op, partner string, n int) *sending {
	id, merchant := fmt.Sprintf("BILL%d", n), fmt.Sprintf("store%d", n%3)
	c := &sending{id: fmt.Sprintf("r%d", len(w.all)), at: billAt{partner, id}}
	c.q = newCall(form, op).with("apiKey", partner).with("billId", id).with("merchant", merchant)
	w.all = append(w.all, c)
	w.mu.Lock()
	w.byID[c.id] = c
	w.mu.Unlock()
	return c
}

// calls are made at the same time. In their midst a replica may die, or the store be out of reach.
func (w *world) calls(t *rapid.T) {
	var wave []*sending
	out := rapid.IntRange(0, 11).Draw(t, "store out of reach") == 11
	for range rapid.SampledFrom([]int{5, 4, 7, 2, 1, 3, 8}).Draw(t, "calls") {
		partner, n := drawBill(t)
		op := rapid.SampledFrom([]string{"create", "create", "create", "read", "resend", "destroy", "cancel"}).Draw(t, "operation")
		c := w.newSending(rapid.SampledFrom(forms).Draw(t, "form"), op, partner, n)
		if c.q.op == "create" && rapid.IntRange(0, 5).Draw(t, "wrong hash") == 5 {
			c.q = c.q.with("hash", strings.Repeat("0", 64))
		}
		c.reads = [2]fault{drawFault(t, "read at old", 8), drawFault(t, "read at new", 8)}
		c.write = drawFault(t, "write", 4)
		c.replica = rapid.SampledFrom(w.replicas).Draw(t, "replica")
		wave = append(wave, c)
	}
	crash := rapid.IntRange(0, 9).Draw(t, "crash") == 9
	if crash {
		wave[0].replica.left.Store(int64(rapid.IntRange(1, 16).Draw(t, "crash after")))
	}
	if out {
		w.run.outages.Add(1)
		must(t, os.Rename(w.file(), w.file()+".away"))
	}
	w.send(t, wave...)
	if out {
		must(t, os.Rename(w.file()+".away", w.file()))
	}
	for _, r := range slices.Clone(w.replicas) {
		r.left.Store(1 << 40)
		if r.dead.Load() {
			w.end(r)
			w.note("a replica died")
		}
	}
	if len(w.replicas) == 0 {
		w.replicate(t)
	}
	for _, c := range wave {
		w.judge(t, c, out)
	}
}

// send makes calls, all at the same time.
func (w *world) send(t *rapid.T, wave ...*sending) {
	var all sync.WaitGroup
	for _, c := range wave {
		all.Go(func() {
			url := w.sides[0].url
			if c.replica != nil {
				url = c.replica.server.URL
			}
			w.mu.Lock() // a side looks at it
			c.before = [2]string{w.sides[0].state(c.at), w.sides[1].state(c.at)}
			w.mu.Unlock()
			c.answer, c.err = ask(w.client, http.MethodPost, url+c.q.path(), c.q.body(), "X-Request-Id", c.id)
			c.after = [2]string{w.sides[0].state(c.at), w.sides[1].state(c.at)}
		})
	}
	all.Wait()
	for _, c := range wave {
		how := "direct"
		if c.replica != nil {
			how = fmt.Sprintf("replica %d of %d", 1+slices.Index(w.replicas, c.replica), len(w.replicas))
			w.run.calls.Add(1)
		} else {
			w.run.direct.Add(1)
		}
		w.note("%s %s %s %v by %s, read faults %q, write fault %q: before %q, HTTP %d %s %v, after %q",
			c.id, c.q.form, c.q.op, c.at, how, c.reads, c.write, c.before, c.answer.status, strings.TrimSpace(c.answer.body), c.err, c.after)
	}
}

// A state is named in an answer to a read, and where an outcome is explained.
var namedState = regexp.MustCompile(`bill in state ([A-Z])\.|"appr_?[sS]tate": ?"([A-Z])"`)

var rank = map[string]int{"": -1, "W": 0, "F": 1, "D": 1, "C": 2}

// lived tells whether a bill was in a state at a moment between two others. States only go on: W, F, C or W, D.
func lived(before, state, after string) bool {
	if rank[before] > rank[state] || rank[state] > rank[after] {
		return false
	}
	return rank[state] != 1 || (before != "F" && before != "D" || before == state) && (after != "F" && after != "D" || after == state) && (after != "C" || state == "F")
}

// judge holds one answer to what the sides had.
func (w *world) judge(t *rapid.T, c *sending, storeOut bool) {
	if c.err != nil {
		if c.replica == nil || !c.replica.dead.Load() {
			t.Fatalf("%s: %v", c.id, c.err)
		}
		w.run.aborted.Add(1)
		return
	}
	code := codeOf(t, c.q.form, c.answer.body)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch code {
	case "0000":
		w.run.acknowledged.Add(1)
	case "null":
		w.run.unknown.Add(1)
	default:
		w.run.refused.Add(1)
	}
	existed := c.before[0] != "" || c.before[1] != ""
	exists := c.after[0] != "" || c.after[1] != ""
	switch code {
	case "BILL_003":
		if existed {
			w.breach("%s: not found, and the bill is there: %q", c.id, c.before)
		}
	case "BILL_001", "BILL_002", "BILL_006":
		if !exists {
			w.breach("%s: %s of a bill that does not exist", c.id, code)
		}
	}
	for _, m := range namedState.FindAllStringSubmatch(c.answer.body, -1) {
		state := m[1] + m[2]
		if !lived(c.before[0], state, c.after[0]) && !lived(c.before[1], state, c.after[1]) {
			w.breach("%s: it names state %s, and the bill was %q, then %q", c.id, state, c.before, c.after)
		}
	}
	if storeOut && isWrite(c.q.op) && code == "0000" {
		w.breach("%s: a write was sent without the ledger", c.id)
	}
	if strings.Contains(c.answer.body, "nothing was sent") && w.visits[c.id] > 0 {
		w.breach("%s: it says that nothing was sent", c.id)
	}
}

// judgeAll holds all writes to what they did, when nothing is under way any more.
func (w *world) judgeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		if !isWrite(c.q.op) || c.err != nil || c.replica == nil {
			continue
		}
		n, refusal := w.effects[c.id], regexp.MustCompile(`"code": ?"`).MatchString(c.answer.body) && !strings.Contains(c.answer.body, `"0000"`)
		switch {
		case strings.Contains(c.answer.body, `"0000"`) && n != 1:
			w.breach("%s: it was acknowledged and took effect %d times", c.id, n)
		case refusal && c.answer.status < 500 && n != 0:
			w.breach("%s: it was refused and took effect", c.id)
		case refusal && strings.Contains(c.answer.body, "nothing was sent") && w.visits[c.id] > 0:
			w.breach("%s: it says that nothing was sent", c.id)
		}
	}
	for id, n := range w.visits {
		if n > 1 {
			w.breach("%s: it was sent %d times", id, n)
		}
	}
}

// check holds the sides to one rule: a bill is in one place. Whatever else was broken is told here.
func (w *world) check(t *rapid.T) {
	for _, b := range w.sides[0].service.Bills() {
		if w.sides[1].state(billAt{b.Partner, b.ID}) != "" {
			t.Errorf("%s of %s is at both sides", b.ID, b.Partner)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.broken {
		t.Error(text)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// stage moves a partner, or all that have no stage of their own, and one more replica knows of it.
func (w *world) stage(t *rapid.T) {
	partner, stages := rapid.SampledFrom([]string{"", mover, newcomer, newcomer, stranger}).Draw(t, "whose stage"), rollout.Stages
	if partner != newcomer {
		stages = stages[:4]
	}
	s := store.Stage{Stage: string(rapid.SampledFrom(stages).Draw(t, "stage")), By: "test", At: time.Now()}
	if partner != "" {
		s.Partner = partnerHash(partner)
	}
	if s.Stage == "canary" {
		s.Percent = rapid.SampledFrom([]int{0, 30, 60, 100}).Draw(t, "percent")
	}
	must(t, w.operator.SetStage(context.Background(), s))
	w.note("stage of %q: %s %d", partner, s.Stage, s.Percent)
	w.run.stages.Add(1)
	w.replicate(t)
}

// stop throws the kill switch or takes it back. After a restore it is not thrown: it asks nobody, which is a rule.
func (w *world) stop(t *rapid.T) {
	if w.restored {
		t.Skip()
	}
	do := w.operator.Stop
	if w.stopped {
		do = w.operator.Resume
	}
	must(t, do(context.Background(), "test", time.Now()))
	w.stopped = !w.stopped
	w.note("stopped: %v", w.stopped)
	w.run.stops.Add(1)
	w.replicate(t)
}

// pay is a customer.
func (w *world) pay(t *rapid.T) {
	partner, n := drawBill(t)
	id := fmt.Sprintf("BILL%d", n)
	for _, s := range w.sides {
		if s.service.Pay(partner, id) == nil {
			w.note("%s of %s is paid at the %s side", id, partner, s.form)
			w.run.pays.Add(1)
		}
	}
}

// before is what was made at the old side before the bridge was there.
func (w *world) before(t *rapid.T) {
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 6), 0, 4, rapid.ID[int]).Draw(t, "bills from before the bridge") {
		w.send(t, w.newSending("legacy", "create", mover, n))
	}
}

// direct is what a stranger still does past the bridge.
func (w *world) direct(t *rapid.T) {
	_, n := drawBill(t)
	w.send(t, w.newSending("legacy", rapid.SampledFrom([]string{"create", "create", "destroy"}).Draw(t, "operation"), stranger, n))
}

// restart kills every replica while nothing is under way but what nobody waits for any more.
func (w *world) restart(t *rapid.T) {
	for _, r := range slices.Clone(w.replicas) {
		w.end(r)
	}
	w.note("restart")
	w.replicate(t)
}

var storeFiles = []string{"", "-wal"}

// copy makes a backup.
func (w *world) copy(t *rapid.T) {
	for _, end := range storeFiles {
		data, err := os.ReadFile(w.file() + end)
		must(t, err)
		must(t, os.WriteFile(w.file()+".backup"+end, data, 0o600))
	}
	w.backup = true
	w.note("backup")
	w.run.backups.Add(1)
}

// restore puts the backup in the place of the store, and says so. Nothing is under way then.
func (w *world) restore(t *rapid.T) {
	if !w.backup || w.restored {
		t.Skip()
	}
	w.quiet()
	must(t, w.operator.Close())
	_ = os.Remove(w.file() + "-shm")
	for _, end := range storeFiles {
		must(t, os.Rename(w.file()+".backup"+end, w.file()+end))
	}
	w.open(t)
	must(t, w.operator.Restored(context.Background(), "test", time.Now()))
	must(t, w.operator.Resume(context.Background(), "test", time.Now()))
	w.restored, w.stopped = true, false
	w.run.restores.Add(1)
	w.note("restored")
	w.mu.Lock()
	// The ledger does not know of them any more. Nothing of them is on its way: whoever asks finds what they made.
	maps.DeleteFunc(w.unsure, func(billAt, map[*side]bool) bool { return true })
	for at := range w.maybe {
		w.unsure[at] = map[*side]bool{}
	}
	w.mu.Unlock()
	w.replicate(t)
}
