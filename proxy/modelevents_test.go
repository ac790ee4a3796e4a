package proxy_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"modernc.org/sqlite"
	"pgregory.net/rapid"
)

// drawInt returns a number below n, each with the same probability. The generators of rapid prefer small numbers, and
// most events would be rare.
func drawInt(t *rapid.T, label string, n int) int {
	return rapid.Custom(func(t *rapid.T) (bits int) {
		for range 10 {
			bits *= 2
			if rapid.Bool().Draw(t, "bit") {
				bits++
			}
		}
		return bits % n
	}).Draw(t, label)
}

func pick[T any](t *rapid.T, label string, from ...T) T { return from[drawInt(t, label, len(from))] }

// billsPerPartner is how many ids a partner uses.
const billsPerPartner = 7

// drawBill picks a bill. There are few, so that calls meet.
func drawBill(t *rapid.T) (partner string, n int) {
	return pick(t, "partner", existingPartner, newPartner, newPartner, existingPartner, directCaller), drawInt(t, "bill", billsPerPartner)
}

func (w *model) newCall(form, op, partner string, n int) *modelCall {
	id, merchant := fmt.Sprintf("BILL%d", n), fmt.Sprintf("store%d", n%3)
	c := &modelCall{id: fmt.Sprintf("r%d", len(w.all)), at: billAt{partner, id}}
	c.q, c.epoch = newCall(form, op).with("apiKey", partner).with("billId", id).with("merchant", merchant), w.epoch
	w.all = append(w.all, c)
	w.mu.Lock()
	w.byID[c.id] = c
	w.mu.Unlock()
	return c
}

// calls makes calls at the same time. During them a replica can die, or the store be unreachable.
func (w *model) calls(t *rapid.T) {
	var batch []*modelCall
	out := drawInt(t, "store down", 20) == 1
	partner, n := drawBill(t)
	one := drawInt(t, "about one bill", 4) == 1
	for range 1 + drawInt(t, "calls", 7) {
		if !one {
			partner, n = drawBill(t)
		}
		op := pick(t, "operation", "create", "create", "create", "read", "resend", "destroy", "cancel")
		c := w.newCall(pick(t, "form", forms...), op, partner, n)
		if op == "create" && drawInt(t, "wrong hash", 4) == 1 {
			c.q = c.q.with("hash", strings.Repeat("0", 64))
		}
		c.reads = [2]fault{drawFault(t, "read at old", 8), drawFault(t, "read at new", 8)}
		c.write = drawFault(t, "write", 4)
		if drawInt(t, "gives up", 6) == 1 {
			c.timeout = time.Duration(1+drawInt(t, "after", 100)) * time.Millisecond
		}
		c.replica = w.replicas[drawInt(t, "replica", len(w.replicas))]
		c.delay = time.Duration(max(0, drawInt(t, "sent later", 6)-3)) * 2 * sameTime
		batch = append(batch, c)
	}
	if drawInt(t, "crash", 12) == 1 {
		batch[0].replica.stepsLeft.Store(int64(1 + drawInt(t, "crash after", 16)))
	}
	if !out && drawInt(t, "backup under way", 6) == 1 {
		w.stepsToBackup.Store(int64(1 + drawInt(t, "backup after", 16)))
	}
	if out {
		w.run.add("store outages")
		w.storeFile.Lock()
		defer w.storeFile.Unlock()
		must(t, os.Rename(w.file(), w.file()+".away"))
	}
	w.send(t, batch...)
	if w.stepsToBackup.Swap(0) < 0 {
		w.event("backups under way", "backup during these calls")
	}
	if out {
		must(t, os.Rename(w.file()+".away", w.file()))
	}
	for _, r := range slices.Clone(w.replicas) {
		r.stepsLeft.Store(1 << 40)
		if r.dead.Load() {
			w.removeReplica(r)
			w.event("deaths", "a replica died")
		}
	}
	if len(w.replicas) == 0 {
		w.replicate(t)
	}
	for _, c := range batch {
		w.checkAnswer(t, c, out)
	}
}

// send makes all calls at the same time.
func (w *model) send(t *rapid.T, batch ...*modelCall) {
	states := func(c *modelCall) [2]string { return [2]string{w.backends[0].state(c.at), w.backends[1].state(c.at)} }
	var all sync.WaitGroup
	for _, c := range batch {
		all.Go(func() {
			time.Sleep(c.delay)
			url, client := w.backends[0].url, w.client
			if c.replica != nil {
				url = c.replica.server.URL
			}
			w.mu.Lock() // the backends read it
			c.before = states(c)
			w.mu.Unlock()
			if c.timeout > 0 {
				client = &http.Client{Transport: w.client.Transport, Timeout: c.timeout}
			}
			answer, err := doRequest(client, http.MethodPost, url+c.q.path(), c.q.body(), "X-Request-Id", c.id)
			w.mu.Lock()
			c.answer, c.err, c.answered = answer, err, time.Now()
			w.mu.Unlock()
			c.after = states(c)
		})
	}
	all.Wait()
	for _, c := range batch {
		what, how := "direct calls", "direct"
		if c.replica != nil {
			what, how = "calls", fmt.Sprintf("replica %d of %d", 1+slices.Index(w.replicas, c.replica), len(w.replicas))
		}
		w.event(what, "%s %s %s %v by %s, read faults %q, write fault %q: before %q, HTTP %d %s %v, after %q",
			c.id, c.q.form, c.q.op, c.at, how, c.reads, c.write, c.before, c.answer.status, strings.TrimSpace(c.answer.body), c.err, c.after)
	}
}

// stage changes the stage of a partner, or the default one.
func (w *model) stage(t *rapid.T) {
	key, stages := pick(t, "whose stage", existingPartner, newPartner, "", newPartner, directCaller), routing.StagesWith(config.Separate)
	if key != newPartner || w.lost { // the ledger does not have its bills at the old backend
		stages = stages[:len(stages)-1]
	}
	s := store.Stage{Stage: string(pick(t, "stage", stages...))}
	if s.Stage == "canary" {
		s.Percent = pick(t, "percent", 0, 30, 60, 100)
	}
	w.setStage(t, key, s)
}

// setStage starts a replica that knows the new stage.
func (w *model) setStage(t *rapid.T, key string, s store.Stage) {
	s.By, s.At = "test", time.Now()
	if key != "" {
		s.Partner = partner.Of(key)
	}
	must(t, w.operator.Change(bg, store.Change{Action: store.Staged, Partner: s.Partner, To: s.Stage, ToPercent: s.Percent, By: s.By, At: s.At}))
	w.event("stage changes", "stage of %q: %s %d", key, s.Stage, s.Percent)
	w.replicate(t)
}

// mayStop reports whether the kill switch may be on after a restore: later than the settling period, a create is sent although the
// new backend did not answer its probe.
func (w *model) mayStop() bool { return !w.restored || !w.settlingOver && !w.isWrong() }

func (w *model) skipIfStoppedAndRestored(t *rapid.T) {
	if w.restored && w.stopped {
		t.Skip()
	}
}

// stop stops or resumes the rollout.
func (w *model) stop(t *rapid.T) {
	if !w.mayStop() {
		t.Skip()
	}
	if w.stopped {
		must(t, w.operator.Change(bg, store.Change{Action: store.Resumed, By: "test", At: time.Now()}))
	} else {
		must(t, w.operator.Change(bg, store.Change{Action: store.Stopped, By: "test", At: time.Now()}))
	}
	w.stopped = !w.stopped
	w.event("stops and resumes", "stopped: %v", w.stopped)
	w.replicate(t)
}

// pay pays a bill.
func (w *model) pay(t *rapid.T) {
	partner, n := drawBill(t)
	for _, s := range w.backends {
		if id := fmt.Sprintf("BILL%d", n); s.service.Pay(partner, id) == nil {
			w.event("payments", "%s of %s is paid at the %s backend", id, partner, s.form)
		}
	}
}

// createBeforeRollout creates bills at the old backend before the gateway is used.
func (w *model) createBeforeRollout(t *rapid.T) {
	for n := range billsPerPartner {
		if drawInt(t, "from before the rollout", 2) == 1 {
			w.send(t, w.newCall("legacy", "create", existingPartner, n))
		}
	}
}

// callDirectly makes a call to the old backend that does not go through the gateway.
func (w *model) callDirectly(t *rapid.T) {
	if w.settlingOver {
		t.Skip()
	}
	_, n := drawBill(t)
	w.send(t, w.newCall("legacy", pick(t, "operation", "create", "create", "destroy"), directCaller, n))
}

// restart ends every replica. Only calls whose callers have given up are in progress.
func (w *model) restart(t *rapid.T) {
	for _, r := range slices.Clone(w.replicas) {
		w.removeReplica(r)
	}
	w.event("restarts", "restart")
	w.replicate(t)
}

// makeBackup makes a backup, also during calls.
func (w *model) makeBackup(t rapid.TB) {
	w.storeFile.Lock()
	defer w.storeFile.Unlock()
	_ = os.Remove(w.file() + ".backup")
	db, err := sql.Open("sqlite", "file:"+w.file())
	must(t, err)
	defer func() { must(t, db.Close()) }()
	_, err = db.Exec("VACUUM INTO ?", w.file()+".backup")
	must(t, err)
	w.backup = true
	w.run.add("backups")
}

func (w *model) backUp(t *rapid.T) {
	w.makeBackup(t)
	w.event("backups by an operator", "backup")
}

// restore replaces the store by the backup, as an operator does. No call is in progress.
func (w *model) restore(t *rapid.T) {
	w.storeFile.Lock()
	none := !w.backup
	w.storeFile.Unlock()
	if none || w.restored {
		t.Skip()
	}
	w.stopReplicas() // before the lock: a call in progress may be making a backup
	w.storeFile.Lock()
	defer w.storeFile.Unlock()
	w.closeStore(t)
	must(t, os.Rename(w.file()+".backup", w.file()))
	w.open(t)
	must(t, w.operator.Change(bg, store.Change{Action: store.Restored, By: "test", At: time.Now()}))
	w.resume(t)
	w.restored = true
	w.event("restores", "restored")
	w.forgetLedger()
	w.replicate(t)
}

// loseLastWrites replaces the file of the store by the backup under the running replicas, and nobody declares
// anything: each replica must notice by itself. The calls after it go to a replica that has seen the writes: a
// process that starts later cannot know of them.
func (w *model) loseLastWrites(t *rapid.T) {
	if w.restored || w.stopped && (w.settlingOver || w.isWrong()) {
		t.Skip()
	}
	stages := []store.Stage{{Stage: "old"}, {Stage: "canary"}, {Stage: "new"}, {Stage: "canary", Percent: 100}}
	w.setStage(t, newPartner, pick(t, "stage before", stages...))
	w.makeBackup(t)
	w.setStage(t, newPartner, pick(t, "stage after", stages...))
	create := func(oneIn int) {
		var batch []*modelCall
		for n := range billsPerPartner {
			if drawInt(t, "again", oneIn) > 0 {
				continue
			}
			c := w.newCall(pick(t, "form", forms...), pick(t, "operation", "create", "create", "create", "read", "destroy"), newPartner, n)
			c.replica = w.replicas[len(w.replicas)-1] // it knows the last stage
			batch = append(batch, c)
		}
		w.send(t, batch...)
		for _, c := range batch {
			w.checkAnswer(t, c, false)
		}
	}
	create(1)
	w.inFlight.waitForZero()
	w.storeFile.Lock()
	must(t, w.operator.Close())
	db, err := sql.Open("sqlite", "file:"+w.file()+"?_pragma=busy_timeout(20000)")
	must(t, err)
	c, err := db.Conn(bg)
	must(t, err)
	must(t, c.Raw(func(driver any) error {
		restore, err := driver.(interface {
			NewRestore(string) (*sqlite.Backup, error)
		}).NewRestore(w.file() + ".backup")
		if err == nil {
			_, err = restore.Step(-1)
		}
		return errors.Join(err, restore.Finish())
	}))
	must(t, errors.Join(c.Close(), db.Close()))
	w.storeFile.Unlock()
	w.restored = true
	w.event("losses of the last writes", "the last writes are lost")
	w.forgetLedger()
	create(3)
	for _, r := range w.replicas { // a replica whose calls wrote nothing has not noticed yet
		_, _ = r.store.Tick(bg, w.now())
		_ = r.store.SetConfigDefault(bg, "old", w.now())
	}
	w.open(t)
	w.resume(t)
	status, err := w.operator.Rollout(bg)
	must(t, err)
	if status.Restored.By == store.ByFailOver { // otherwise nothing was written since the backup
		w.run.add("noticed losses")
	}
	w.replicate(t)
	create(1) // by a gateway that has read the decision of before
}

func (w *model) forgetLedger() {
	w.epoch++
	w.mu.Lock()
	defer w.mu.Unlock()
	// The ledger has no rows of these creates. None is in progress, so a probe finds the bills that they created.
	clear(w.unresolvedCreates)
	for at := range w.possibleCreates {
		w.unresolvedCreates[at] = map[*modelBackend]bool{}
	}
}

// loseStore removes the store. The next start creates an empty one, without stages.
func (w *model) loseStore(t *rapid.T) {
	if w.isWrong() {
		w.wrongClock(t) // a correct clock: a new store takes the first time that it gets as its own
	}
	w.stopReplicas()
	w.storeFile.Lock()
	defer w.storeFile.Unlock()
	w.closeStore(t)
	must(t, os.Remove(w.file()))
	w.open(t)
	w.stopped, w.backup, w.lost = false, false, true
	w.event("lost stores", "the store is lost")
	w.forgetLedger()
	w.replicate(t)
	_, err := w.operator.Reconcile(bg, w.upstreams(), true, w.now())
	must(t, err)
	if drawInt(t, "begun", 3) == 1 && len(w.backends[1].service.Bills()) == 0 {
		must(t, w.operator.Change(bg, store.Change{Action: store.Begun, By: "test", At: w.now()})) // correct: the new backend has no bills
		w.event("begins", "begun")
	}
}

// passSettlingPeriod moves the clocks to the end of the settling periods of partners and of a restore.
func (w *model) passSettlingPeriod(t *rapid.T) {
	w.skipIfStoppedAndRestored(t)
	w.stopReplicas()
	w.clock += 20 * time.Minute
	w.settlingOver = true
	w.event("settling periods", "20 minutes later")
	w.replicate(t)
}

// wrongClock moves the clock of the replicas by years, or back.
func (w *model) wrongClock(t *rapid.T) {
	w.skipIfStoppedAndRestored(t)
	w.stopReplicas()
	off := pick(t, "years off", yearsOff, -yearsOff)
	if w.isWrong() {
		off = -w.clock.Round(yearsOff)
	}
	w.clock += off
	w.event("wrong clocks", "the clocks are off by %s", w.clock)
	w.replicate(t)
}

const yearsOff = 4 * 365 * 24 * time.Hour

func (w *model) isWrong() bool { return w.clock > yearsOff/2 || w.clock < -yearsOff/2 }

func (w *model) now() time.Time { return time.Now().Add(w.clock) }

// sweep runs the removal of old rows. No bill is old enough to lose its row.
func (w *model) sweep(t *rapid.T) {
	w.stopReplicas() // no call in progress may release a bill
	w.replicate(t)
	before := w.rows(t)
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	w.replicas[0].router.Run(ctx)
	w.run.add("sweeps")
	if after := w.rows(t); after < before {
		w.violation("a sweep removed %d of %d bills with a clock that is off by %s", before-after, before, w.clock)
	}
}

func (w *model) upstreams() []store.Upstream {
	return []store.Upstream{{Name: "old", Form: "legacy", URL: w.backends[0].url}, {Name: "new", Form: "v2", URL: w.backends[1].url}}
}

// swapAddresses tries a config in which the addresses of the backends are swapped.
func (w *model) swapAddresses(t *rapid.T) {
	swapped := w.upstreams()
	swapped[0].URL, swapped[1].URL = swapped[1].URL, swapped[0].URL
	used, err := w.operator.SeenPartners(bg, store.AllPartners)
	must(t, err)
	if len(used) == 0 && w.rows(t) == 0 {
		t.Skip("no partner has called yet")
	}
	if _, err := w.operator.Reconcile(bg, swapped, true, w.now()); err == nil || !strings.Contains(err.Error(), "is the address that upstream") {
		w.violation("swapped addresses were accepted: %v", err)
	}
	w.event("swapped addresses", "swapped addresses were refused")
}

// event notes what happened, and counts it.
func (w *model) event(what, format string, args ...any) {
	w.run.add(what)
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// resume ends a stop, which the backup may be from the time of.
func (w *model) resume(t *rapid.T) {
	if err := w.operator.Change(bg, store.Change{Action: store.Resumed, By: "test", At: time.Now()}); err != nil && !errors.Is(err, store.ErrState) {
		t.Fatal(err)
	}
	w.stopped = false
}

// closeStore closes the store, and removes what is not in its file: the last connection has written it back.
func (w *model) closeStore(t *rapid.T) {
	must(t, w.operator.Close())
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(w.file() + end)
	}
}

// rows is the number of bills that the ledger has.
func (w *model) rows(t *rapid.T) (n int) {
	all, err := w.operator.OpenBillsIn(bg, store.AllPartners, time.Now())
	must(t, err)
	for _, b := range all {
		n += b.Pending + b.Owned
	}
	return n
}
