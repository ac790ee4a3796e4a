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
		c.replica = w.replicas[number(t, "replica", len(w.replicas))]
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

// stage moves a partner, or all that have no stage of their own, and one more replica knows of it.
func (w *world) stage(t *rapid.T) {
	partner, stages := pick(t, "whose stage", mover, newcomer, "", newcomer, stranger), rollout.Stages
	if partner != newcomer {
		stages = stages[:4]
	}
	s := store.Stage{Stage: string(pick(t, "stage", stages...)), By: "test", At: time.Now()}
	if partner != "" {
		s.Partner = partnerHash(partner)
	}
	if s.Stage == "canary" {
		s.Percent = pick(t, "percent", 0, 30, 60, 100)
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
	for n := range billsEach {
		if number(t, "from before the bridge", 2) == 1 {
			w.send(t, w.newSending("legacy", "create", mover, n))
		}
	}
}

// direct is what a stranger still does past the bridge.
func (w *world) direct(t *rapid.T) {
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
	w.mu.Lock()
	// The ledger does not know of them any more. Nothing of them is on its way: whoever asks finds what they made.
	maps.DeleteFunc(w.unsure, func(billAt, map[*side]bool) bool { return true })
	for at := range w.maybe {
		w.unsure[at] = map[*side]bool{}
	}
	w.mu.Unlock()
	w.replicate(t)
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
