package desk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/sandbox"
)

// The customer's phone, which is not assigned, and name.
const (
	phone    = "01000000000"
	customer = `김하나 & "뷁" 🐣`
)

var errNoBill = errors.New("the partner created no bill for the order")

// step makes one step of a case. Steps name the order b at their end, else they are about the order a.
//
//	hook            tests the hook
//	order [PHONE] | refund | withdraw | resend   tells the hook, also to do it again
//	until STATE     waits until the hook says this state, five minutes or until the partner's next own read
//	says STATE N    asks the hook; the judge compares its answer
//	wait TIME       lets a time pass
//	fault | clear   sets the faults of the case, or removes them
//	lose            the next callback is lost
//	pay | cancel | notify    as the customer, the bank, the service
//	forge WHAT      sends a callback that the service would not send
//	advance TIME    sets the clock of the service
//
// Without callbacks nothing is done for lose, notify and forge.
func (r *runner) step(a *attempt, args []string, name string) (err error) {
	o := a.orders[name]
	switch args[0] {
	case "hook":
		return r.hook(http.MethodGet, "orders/D-"+r.Plan.Run, nil, &Answer{})
	case "order", "refund", "withdraw", "resend":
		if o == nil {
			o = r.newOrder(a, name, append(args, phone)[1])
		}
		r.tell(o, args[0])
	case "until":
		return r.until(o, append(args, "5m")[2], func(*order) []string { return args[1:2] })
	case "says":
		_, err = r.ask(o, strings.Split(args[1], "|"), args[2:]...)
	case "wait", "advance":
		d, _ := time.ParseDuration(args[1])
		if args[0] == "wait" {
			real := r.Plan.wait(d)
			r.sleep(real)
			d = max(0, d-real)
		}
		return r.service.SetClock(r.service.Now().Add(d))
	case "fault":
		err = r.fault(a)
	case "clear":
		r.service.ClearFaults("")
	default:
		// The partner can destroy a bill between two looks at it.
		r.poll(a, r.Plan.wait(orderTime), func() bool {
			err = r.billStep(a, args, o)
			return err == nil
		})
	}
	return err
}

// billStep makes a step that needs the bill of the order.
func (r *runner) billStep(a *attempt, args []string, o *order) error {
	b, err := r.bill(o)
	if err != nil {
		return err
	}
	if r.Plan.polls() && slices.Contains([]string{"lose", "notify", "forge"}, args[0]) {
		return nil
	}
	switch args[0] {
	case "pay":
		return r.service.Pay(b.Partner, b.ID)
	case "lose":
		return r.service.AddFault(sandbox.Fault{Operation: opCallback, Bill: b.ID, Skip: true})
	case "notify":
		return r.service.Notify(b.Partner, b.ID)
	case "cancel":
		_, err = r.service.Cancel(b.Partner, b.ID)
		return err
	case "forge":
		paid := b
		if args[1] == "other" {
			paid, err = r.bill(a.orders["b"])
		}
		body := fill(paid, all().Forged[args[1]][r.Plan.Form])
		return errors.Join(err, r.service.SendCallback(b.Partner, b.ID, func([]byte) []byte { return []byte(body) }))
	}
	return fmt.Errorf("unknown step %q", args[0])
}

// fault sets the faults of a case. After the order they are limited to its bill.
func (r *runner) fault(a *attempt) (err error) {
	var b sandbox.Bill
	if o := a.orders["a"]; o != nil {
		b, err = r.bill(o) // with an error the case ends
	}
	for _, f := range a.Faults {
		if f.Silence {
			f.Delay = r.Plan.Timeout + 5*time.Second
		}
		f.Late = min(f.Late, r.Plan.wait(f.Late))
		f.Fault.Bill = b.ID
		f.Body, f.Amount = fill(b, f.Body+f.Bodies[r.Plan.Form]), fill(b, f.Amount)
		err = errors.Join(err, r.service.AddFault(f.Fault))
	}
	return err
}

// fill fills a text in with what a bill has.
func fill(b sandbox.Bill, text string) string {
	return strings.NewReplacer("{key}", b.Partner, "{bill}", b.ID, "{amount}", b.Price).Replace(text)
}

// bill returns the newest bill of an order that is not destroyed.
func (r *runner) bill(o *order) (found sandbox.Bill, err error) {
	err = errNoBill
	for _, b := range r.service.Bills() {
		if b.Price == o.amount && b.State != "D" {
			found, err = b, nil
		}
	}
	return found, err
}

// poll calls done until it is true, the case fails or a time has passed. The pauses grow to two seconds.
func (r *runner) poll(a *attempt, limit time.Duration, done func() bool) {
	end, pause := time.Now().Add(limit), 20*time.Millisecond
	for !done() && !a.failed.Load() && r.ctx.Err() == nil && time.Now().Before(end) {
		r.sleep(pause)
		pause = min(pause*3/2, react)
	}
}

// until waits until the hook says one of some states.
func (r *runner) until(o *order, limit string, states func(*order) []string) (err error) {
	r.poll(o.attempt, r.Plan.limit(limit), func() bool {
		var said Answer
		said, err = r.ask(o, nil)
		return slices.Contains(states(o), said.State)
	})
	return err
}

func (r *runner) sleep(d time.Duration) {
	select {
	case <-r.ctx.Done():
	case <-time.After(d):
	}
}

// tell gives the hook a command. The hook may answer at once or when it is done.
func (r *runner) tell(o *order, what string) {
	r.all.Go(func() {
		c := Command{o.id, json.Number(o.amount), o.phone, customer}
		r.fail(o.attempt, r.hook(http.MethodPost, what, c, nil))
	})
}

// ask asks the hook about an order. A late answer shows that a machine is busy.
func (r *runner) ask(o *order, want []string, times ...string) (said Answer, err error) {
	began := time.Now()
	err = r.hook(http.MethodGet, "orders/"+o.id, nil, &said)
	if time.Since(began) > time.Second/2 {
		r.record(&order{}, Record{Text: tooBusy})
	}
	if err == nil {
		r.record(o, Record{Text: o.attempt.step, Hook: &said, Want: want, Times: strings.Join(times, "")})
	}
	return said, err
}

// hook makes a call of the order hook, with a command or for an answer. The hook may answer a command that cannot be
// done with 409.
func (r *runner) hook(method, path string, command any, said *Answer) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the order hook: %w", err)
		}
	}()
	body, _ := json.Marshal(command) // it has texts only
	address := strings.TrimSuffix(r.Plan.Hook, "/") + "/" + path
	req, err := http.NewRequestWithContext(r.ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: r.Transport, Timeout: orderTime}
	if said != nil {
		client.Timeout = 10 * time.Second
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch status := res.StatusCode; {
	case status/100 != 2 && (said != nil || status != http.StatusConflict):
		return fmt.Errorf("%s %s: expected HTTP 200 but got: %d", method, path, status)
	case said != nil:
		return json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(said)
	}
	return nil
}
