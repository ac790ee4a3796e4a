package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/sandbox"
)

// phone is the customer's. It is not assigned.
const phone = "01000000000"

var errNoBill = errors.New("the partner created no bill for the order")

// step makes one step of a case. Steps name the order b at their end, else they are about the order a.
//
//	order | refund | withdraw | resend   tells the hook
//	again           tells the hook to make the order again, unless the partner has a bill for it
//	until STATE     waits until the hook says this state, five minutes or until the partner's next own read
//	says STATE N    asks the hook; the judge compares its answer
//	wait TIME       lets a time pass
//	fault | clear   sets the faults of the case, or removes them
//	lose            the next callback is lost
//	pay | cancel | notify    as the customer, the bank, the service
//	forge WHAT      sends a callback that the service would not send
//	advance TIME    sets the clock of the service
func (r *runner) step(ctx context.Context, a *attempt, args []string, name string) error {
	o := a.orders[name]
	switch args[0] {
	case "order":
		r.tell(ctx, r.newOrder(a, name), "order")
	case "again":
		said, err := r.ask(ctx, o)
		if err == nil && (said.State == "new" || said.State == "unknown") {
			r.tell(ctx, o, "order")
		}
		return err
	case "refund", "withdraw", "resend":
		r.tell(ctx, o, args[0])
	case "until":
		limit := r.Plan.within(orderTime)
		if len(args) > 2 {
			limit, _ = r.Plan.duration(args[2])
		}
		return r.poll(ctx, limit, func() (bool, error) {
			said, err := r.ask(ctx, o)
			return err == nil && said.State == args[1], err
		})
	case "says":
		_, err := r.ask(ctx, o)
		return err
	case "wait", "advance":
		d, _ := r.Plan.duration(args[1])
		if args[0] == "wait" {
			real := r.Plan.wait(d)
			sleep(ctx, real)
			d = max(0, d-real)
		}
		return r.service.SetClock(r.service.Now().Add(d))
	case "fault":
		return r.fault(ctx, a)
	case "clear":
		r.service.ClearFaults("")
	default:
		return r.billStep(ctx, a, args, o)
	}
	return nil
}

// billStep makes a step that needs the bill of the order.
func (r *runner) billStep(ctx context.Context, a *attempt, args []string, o *order) error {
	b, err := r.bill(ctx, o)
	if err != nil {
		return err
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
			if paid, err = r.bill(ctx, a.orders["b"]); err != nil {
				return err
			}
		}
		return r.service.SendCallback(b.Partner, b.ID, func(body []byte) []byte { return forge(body, args[1], paid) })
	}
	return fmt.Errorf("unknown step %q", args[0])
}

// fault sets the faults of a case. After the order they are limited to its bill.
func (r *runner) fault(ctx context.Context, a *attempt) error {
	var texts []string
	var of sandbox.Bill
	for name, o := range a.orders {
		b, err := r.bill(ctx, o)
		if err != nil {
			return err
		}
		texts = append(texts, "{"+name+"}", b.ID)
		if name == "a" {
			texts, of = append(texts, "{amount}", b.Price), b
		}
	}
	fill := strings.NewReplacer(texts...).Replace
	for _, f := range a.Faults {
		if f.Silence {
			f.Delay = r.Plan.Timeout + 5*time.Second
		}
		f.Fault.Bill = of.ID
		f.Body, f.ShowBill, f.Amount = fill(f.Body+f.Bodies[r.Plan.Form]), fill(f.ShowBill), fill(f.Amount)
		if err := r.service.AddFault(f.Fault); err != nil {
			return err
		}
	}
	return nil
}

// bill returns the newest bill of an order. It waits until the partner has created it.
func (r *runner) bill(ctx context.Context, o *order) (found sandbox.Bill, err error) {
	_ = r.poll(ctx, r.Plan.wait(orderTime), func() (bool, error) {
		for _, b := range r.service.Bills() {
			if b.Price == o.amount {
				found = b
			}
		}
		return found.ID != "", nil
	})
	if found.ID == "" {
		err = errNoBill
	}
	return found, err
}

// poll calls done until it is true or a time has passed. The pauses grow to two seconds.
func (r *runner) poll(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	end, pause := time.Now().Add(limit), 20*time.Millisecond
	for {
		ok, failed := done()
		if ok || ctx.Err() != nil || time.Now().After(end) {
			return failed
		}
		sleep(ctx, pause)
		pause = min(pause*3/2, 2*time.Second)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// tell gives the hook a command. The hook may answer at once or when it is done.
func (r *runner) tell(ctx context.Context, o *order, what string) {
	c := Command{Order: o.id}
	if what == "order" {
		c.Amount, c.Phone = json.Number(o.amount), phone
	}
	body, _ := json.Marshal(c) // it has texts only
	r.posts.Go(func() {
		if err := r.hook(ctx, http.MethodPost, what, body, nil); err != nil {
			r.fail(o.attempt, err)
		}
	})
}

// ask asks the hook about an order.
func (r *runner) ask(ctx context.Context, o *order) (said Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.hook(ctx, http.MethodGet, "orders/"+url.PathEscape(o.id), nil, &said); err != nil {
		return said, err
	}
	r.record(o, Record{Text: o.attempt.step, Hook: &said})
	return said, nil
}

// hookStates are the states of an order.
var hookStates = []string{"new", "waiting", "paid", "refunded", "withdrawn", "unknown"}

// hook makes a call of the order hook, with a command or for an answer.
func (r *runner) hook(ctx context.Context, method, path string, command []byte, said *Answer) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the order hook: %w", err)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.Hook, "/")+"/"+path, bytes.NewReader(command))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: r.Transport, Timeout: orderTime}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: expected HTTP 200 but got: %d", method, path, res.StatusCode)
	}
	if said == nil {
		return nil
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(said)
	if err == nil && !slices.Contains(hookStates, said.State) {
		err = fmt.Errorf("state: expected one of %s but got: %q", strings.Join(hookStates, ", "), said.State)
	}
	return err
}

// forge changes the body of a callback. All but "odd" report a payment of a bill that is not paid.
func forge(body []byte, what string, paid sandbox.Bill) []byte {
	set := map[string]any{
		"billid": paid.ID, "apprstate": "F", "apprdt": "20261127101112", "apprprice": paid.Price, "apprnum": "30009999",
	}
	switch what {
	case "wrong-key":
		set["apikey"] = "another-partner-key"
	case "no-key":
		set["apikey"] = nil
	case "unknown":
		set["billid"] = "DESK-NO-SUCH-BILL"
	case "odd":
		clear(set)
	}
	changed := map[string]any{}
	for name, v := range parse(body) {
		if to, ok := set[plain(name)]; ok {
			v = to
		}
		if what == "odd" {
			name, v = strings.ToLower(upper.ReplaceAllString(name, "_$0")), fmt.Sprint(v)
		}
		if v != nil {
			changed[name] = v
		}
	}
	if what == "odd" {
		changed["new_field"] = map[string]any{"of": []string{"a", "later"}, "version": 1}
	}
	text, _ := json.Marshal(changed) // it was JSON before
	return text
}

// upper finds the words of a camelCase name.
var upper = regexp.MustCompile("[A-Z]")
