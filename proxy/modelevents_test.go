package proxy_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"

	"pgregory.net/rapid"
)

// number is below n. Each is as likely as another: rapid's own are small ones most of the time, which would leave most
// of the events out.
func number(t *rapid.T, label string, n int) int {
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

func pick[T any](t *rapid.T, label string, from ...T) T { return from[number(t, label, len(from))] }

// billsEach is how many ids a partner uses.
const billsEach = 7

// The bills of a partner that calls are about: few, so that they meet.
func drawBill(t *rapid.T) (partner string, n int) {
	return pick(t, "partner", mover, newcomer, newcomer, mover, stranger), number(t, "bill", billsEach)
}

func (w *world) newSending(form, op, partner string, n int) *sending {
	id, merchant := fmt.Sprintf("BILL%d", n), fmt.Sprintf("store%d", n%3)
	c := &sending{id: fmt.Sprintf("r%d", len(w.all)), at: billAt{partner, id}}
	c.q, c.epoch = newCall(form, op).with("apiKey", partner).with("billId", id).with("merchant", merchant), w.epoch
	w.all = append(w.all, c)
	w.mu.Lock()
	w.byID[c.id] = c
	w.mu.Unlock()
	return c
}

// calls are made at the same time. In their midst a replica may die, or the store be out of reach.
func (w *world) calls(t *rapid.T) {
	var wave []*sending
	out := number(t, "store out of reach", 20) == 1
	partner, n := drawBill(t)
	one := number(t, "about one bill", 4) == 1
	for range 1 + number(t, "calls", 7) {
		if !one {
			partner, n = drawBill(t)
		}
		op := pick(t, "operation", "create", "create", "create", "read", "resend", "destroy", "cancel")
		c := w.newSending(pick(t, "form", forms...), op, partner, n)
		if c.q.op == "create" && number(t, "wrong hash", 4) == 1 {
			c.q = c.q.with("hash", strings.Repeat("0", 64))
		}
		c.reads = [2]fault{drawFault(t, "read at old", 8), drawFault(t, "read at new", 8)}
		c.write = drawFault(t, "write", 4)
		if number(t, "gives up", 6) == 1 {
			c.patience = time.Duration(1+number(t, "after", 100)) * time.Millisecond
		}
		c.replica = w.replicas[number(t, "replica", len(w.replicas))]
		c.delay = time.Duration(max(0, number(t, "sent later", 6)-3)) * 2 * atOnce
		wave = append(wave, c)
	}
	crash := number(t, "crash", 12) == 1
	if crash {
		wave[0].replica.left.Store(int64(1 + number(t, "crash after", 16)))
	}
	if !out && number(t, "backup under way", 6) == 1 {
		w.copyIn.Store(int64(1 + number(t, "backup after", 16)))
	}
	if out {
		w.run.outages.Add(1)
		w.copying.Lock()
		defer w.copying.Unlock()
		must(t, os.Rename(w.file(), w.file()+".away"))
	}
	w.send(t, wave...)
	if w.copyIn.Swap(0) < 0 {
		w.note("backup in the midst of these")
	}
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
			time.Sleep(c.delay)
			url := w.sides[0].url
			if c.replica != nil {
				url = c.replica.server.URL
			}
			w.mu.Lock() // a side looks at it
			c.before = [2]string{w.sides[0].state(c.at), w.sides[1].state(c.at)}
			w.mu.Unlock()
			client := w.client
			if c.patience > 0 {
				client = &http.Client{Transport: w.client.Transport, Timeout: c.patience}
			}
			answer, err := ask(client, http.MethodPost, url+c.q.path(), c.q.body(), "X-Request-Id", c.id)
			w.mu.Lock()
			c.answer, c.err, c.answered = answer, err, time.Now()
			w.mu.Unlock()
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

// stage moves a partner, or all that have no stage of their own, and one more replica knows of it.
func (w *world) stage(t *rapid.T) {
	key, stages := pick(t, "whose stage", mover, newcomer, "", newcomer, stranger), rollout.Stages
	if key != newcomer || w.lost { // the ledger lacks its bills at the old backend
		stages = stages[:4]
	}
	s := store.Stage{Stage: string(pick(t, "stage", stages...)), By: "test", At: time.Now()}
	if key != "" {
		s.Partner = partner.Of(key)
	}
	if s.Stage == "canary" {
		s.Percent = pick(t, "percent", 0, 30, 60, 100)
	}
	must(t, w.operator.SetStage(context.Background(), s))
	w.note("stage of %q: %s %d", key, s.Stage, s.Percent)
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

// before is what was made at the old backend before the bridge was there.
func (w *world) before(t *rapid.T) {
	for n := range billsEach {
		if number(t, "from before the bridge", 2) == 1 {
			w.send(t, w.newSending("legacy", "create", mover, n))
		}
	}
}

// direct is what a stranger still does past the bridge.
func (w *world) direct(t *rapid.T) {
	if w.settled {
		t.Skip()
	}
	_, n := drawBill(t)
	w.send(t, w.newSending("legacy", pick(t, "operation", "create", "create", "destroy"), stranger, n))
}

// restart kills every replica while nothing is under way but what nobody waits for any more.
func (w *world) restart(t *rapid.T) {
	for _, r := range slices.Clone(w.replicas) {
		w.end(r)
	}
	w.note("restart")
	w.replicate(t)
}

// copy makes a backup, also while others write.
func (w *world) copy(t rapid.TB) {
	w.copying.Lock()
	defer w.copying.Unlock()
	_ = os.Remove(w.file() + ".backup")
	db, err := sql.Open("sqlite", "file:"+w.file())
	must(t, err)
	defer func() { must(t, db.Close()) }()
	_, err = db.Exec("VACUUM INTO ?", w.file()+".backup")
	must(t, err)
	w.backup = true
	w.run.backups.Add(1)
}

func (w *world) backUp(t *rapid.T) {
	w.copy(t)
	w.note("backup")
}

// restore puts the backup in the place of the store, and says so. Nothing is under way then.
func (w *world) restore(t *rapid.T) {
	w.copying.Lock()
	none := !w.backup
	w.copying.Unlock()
	if none || w.restored {
		t.Skip()
	}
	w.quiet() // first: who makes a backup may have to come to its end for it
	w.copying.Lock()
	defer w.copying.Unlock()
	must(t, w.operator.Close())
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(w.file() + end) // the last that closed it did so
	}
	must(t, os.Rename(w.file()+".backup", w.file()))
	w.open(t)
	must(t, w.operator.Restored(context.Background(), "test", time.Now()))
	if err := w.operator.Resume(context.Background(), "test", time.Now()); err != nil && !errors.Is(err, store.ErrState) { // it may have been stopped in the backup
		t.Fatal(err)
	}
	w.restored, w.stopped = true, false
	w.run.restores.Add(1)
	w.note("restored")
	w.forgotten(t)
}

// forgotten is the world after the ledger has lost what it knew. Nothing is under way.
func (w *world) forgotten(t *rapid.T) {
	w.epoch++
	w.mu.Lock()
	// The ledger does not know of them any more. Nothing of them is on its way: whoever asks finds what they made.
	maps.DeleteFunc(w.unsure, func(billAt, map[*side]bool) bool { return true })
	for at := range w.maybe {
		w.unsure[at] = map[*side]bool{}
	}
	w.mu.Unlock()
	w.replicate(t)
}

// lose removes the store: the next start makes a new one, and knows nothing. The stages are gone with it.
func (w *world) lose(t *rapid.T) {
	if w.isWrong() {
		w.wrongClock(t) // right again: what a new store sees first it takes for the time, until somebody confirms another
	}
	w.quiet()
	w.copying.Lock()
	defer w.copying.Unlock()
	must(t, w.operator.Close())
	for _, end := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(w.file() + end)
	}
	w.open(t)
	w.stopped, w.backup, w.lost = false, false, true
	w.run.losses.Add(1)
	w.note("the store is lost")
	w.forgotten(t)
	_, err := w.operator.Reconcile(context.Background(), w.upstreams(), true, w.now())
	must(t, err)
	if number(t, "begun", 3) == 1 && len(w.sides[1].service.Bills()) == 0 {
		must(t, w.operator.Begin(context.Background(), "test", w.now())) // which is true
		w.note("begun")
	}
}

// pass lets the settling period pass: for partners that were seen, and since a restore or a loss.
func (w *world) pass(t *rapid.T) {
	w.quiet()
	w.clock += 20 * time.Minute
	w.settled = true
	w.note("20 minutes later")
	w.replicate(t)
}

// wrongClock has the replicas start with a clock that is years off, or right again.
func (w *world) wrongClock(t *rapid.T) {
	w.quiet()
	off := pick(t, "years off", yearsOff, -yearsOff)
	if w.isWrong() {
		off = -w.clock.Round(yearsOff)
	}
	w.clock += off
	w.run.clocks.Add(1)
	w.note("the clocks are off by %s", w.clock)
	w.replicate(t)
}

const yearsOff = 4 * 365 * 24 * time.Hour

func (w *world) isWrong() bool { return w.clock > yearsOff/2 || w.clock < -yearsOff/2 }

func (w *world) now() time.Time { return time.Now().Add(w.clock) }

// sweep is what every gateway does by itself. No bill is so old that it might lose its row.
func (w *world) sweep(t *rapid.T) {
	w.quiet() // nothing else releases a bill meanwhile
	w.replicate(t)
	rows := func() (n int) {
		all, err := w.operator.OpenBills(context.Background(), "", time.Now())
		must(t, err)
		for _, b := range all {
			n += b.Pending + b.Owned
		}
		return n
	}
	before := rows()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	w.replicas[0].router.Run(ctx)
	w.run.sweeps.Add(1)
	if after := rows(); after < before {
		w.breach("a sweep removed %d of %d bills by a clock that is off by %s", before-after, before, w.clock)
	}
}

func (w *world) upstreams() []store.Upstream {
	return []store.Upstream{{Name: "old", Form: "legacy", URL: w.sides[0].url}, {Name: "new", Form: "v2", URL: w.sides[1].url}}
}

// exchange tries a config in which the backends have changed places.
func (w *world) exchange(t *rapid.T) {
	swapped := w.upstreams()
	swapped[0].URL, swapped[1].URL = swapped[1].URL, swapped[0].URL
	used, err := w.operator.Sights(context.Background())
	must(t, err)
	bills, err := w.operator.OpenBills(context.Background(), "", time.Now())
	must(t, err)
	if len(used) == 0 && !slices.ContainsFunc(bills, func(b store.Bills) bool { return b.Pending+b.Owned > 0 }) {
		t.Skip("nobody has called")
	}
	if _, err := w.operator.Reconcile(context.Background(), swapped, true, w.now()); err == nil || !strings.Contains(err.Error(), "is the address that upstream") {
		w.breach("the backends changed places: %v", err)
	}
	w.run.exchanges.Add(1)
	w.note("exchanged addresses were refused")
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
