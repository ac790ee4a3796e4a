package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"
)

const (
	// answerLimit is the most bytes that are read of a partner's answer, also after it is decoded. The documented
	// answer has about fifty.
	answerLimit = 64 << 10
	// leaseSlack is how much longer a lease is than an attempt. Callbacks of a killed process can be claimed again
	// when their lease has expired, well within a minute.
	leaseSlack = 15 * time.Second
	// claimWithin bounds a claim. It is less than leaseSlack, as an attempt that begins at the end of its lease could
	// be made twice at once. It also keeps a database server without an answer from blocking delivery until TCP times
	// out.
	claimWithin = 10 * time.Second
	// lookAgain is the longest sleep of the deliverer: callbacks of a replica that has ended may be due.
	lookAgain = 5 * time.Second
	// longestWait is the longest Retry-After that is followed.
	longestWait = 24 * time.Hour
	// sweepEvery is how often old rows are removed.
	sweepEvery = time.Hour
)

// Run delivers callbacks until ctx ends, and then waits for the attempts under way. It is called once. Several
// processes may run on one store.
func (r *Relay) Run(ctx context.Context) {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	attempts.Go(func() { r.sweep(ctx) })
	for ctx.Err() == nil {
		now := r.now() // the same for Claim and NextDue, so that nothing becomes due between them
		if began, _ := r.round(ctx, now, &attempts); began > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.arrived:
		case <-time.After(r.untilDue(ctx, now)):
		}
	}
}

// sweep removes callbacks and addresses that have been over for longer than the retention, and the bodies of delivered
// callbacks, now and every hour. It ends the wait of callbacks for a time that a wrong clock has set.
func (r *Relay) sweep(ctx context.Context) {
	for {
		now, keep := r.now(), r.current.Load().callbacks
		clock := r.store.Clock(now)
		for _, part := range []struct {
			what string
			do   func(context.Context, time.Time, time.Duration) (int, error)
			at   time.Time
			keep time.Duration
		}{
			{"removal of old callbacks and addresses", r.store.Sweep, clock.StoreTime, keep.Retention},
			{"removal of bodies of delivered callbacks", r.store.SweepBodies, clock.StoreTime, keep.KeepBodies},
			{"next attempts that a wrong clock has set", r.store.Hasten, now, longestGap(keep)},
		} {
			if clock.Stepped() { // the clock may be wrong, and removed rows are lost
				break
			}
			n, err := part.do(ctx, part.at, part.keep)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				r.log.Error("rows of the store could not be maintained", "what", part.what, "count", n,
					"error", err.Error())
			case n > 0:
				r.log.Info("rows of the store were maintained", "what", part.what, "count", n)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// longestGap is the longest time between two attempts.
func longestGap(c *config.Callbacks) time.Duration {
	gap := time.Duration(slices.Max(c.Schedule))
	return max(gap+time.Duration(c.Jitter*float64(gap)), longestWait)
}

// round claims callbacks that are due and starts an attempt at each. An error is counted and logged.
func (r *Relay) round(ctx context.Context, now time.Time, attempts *sync.WaitGroup) (int, error) {
	s := r.current.Load()
	underWay, busy := r.attempts.now()
	free := s.callbacks.AtOnce - underWay
	if free <= 0 {
		return 0, nil // the end of an attempt wakes us
	}
	lease := time.Duration(s.callbacks.Timeout) + leaseSlack
	within, cancel := context.WithTimeout(ctx, r.claimWithin)
	defer cancel()
	claimed, err := r.store.Claim(within, now, lease, free, s.callbacks.PerHost, s.perPartner(), busy)
	r.unclaimed(ctx, err)
	for _, c := range claimed {
		r.attempts.count(c, 1)
		attempts.Go(func() {
			r.attempt(s, c)
			r.attempts.count(c, -1)
			r.Wake()
		})
	}
	return len(claimed), err
}

// unclaimed counts and logs an error of a claim, or of the query for the next one, unless the gateway ends.
func (r *Relay) unclaimed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.metrics.unclaimed.Inc()
		r.storeLog.Error("callbacks cannot be claimed", "error", err.Error())
	}
}

// attempts are those under way.
type attempts struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by host, and by partner
}

// now returns the counts.
func (a *attempts) now() (all int, of map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all, maps.Clone(a.of)
}

// count adds n.
func (a *attempts) count(c store.Claimed, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all += n
	for _, of := range []string{c.Host, string(c.Partner)} {
		if a.of[of] += n; a.of[of] == 0 {
			delete(a.of, of)
		}
	}
}

// perPartner is the most attempts that a partner may have under way at all its hosts: so a partner whose hosts are
// all down delays no other (R31).
func (s *settings) perPartner() int { return max(s.callbacks.PerHost, s.callbacks.AtOnce/4) }

// untilDue is how long to sleep after what was due by now has been claimed.
func (r *Relay) untilDue(ctx context.Context, now time.Time) time.Duration {
	within, cancel := context.WithTimeout(ctx, r.claimWithin)
	defer cancel()
	due, any, err := r.store.NextDue(within, now)
	if r.unclaimed(ctx, err); err != nil || !any {
		return lookAgain
	}
	return min(max(due.Sub(now), 10*time.Millisecond), lookAgain)
}

// attempt tries to deliver a callback once and records the result. It is not cancelled when the process stops.
func (r *Relay) attempt(s *settings, c store.Claimed) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.callbacks.Timeout))
	defer cancel()
	begun := r.now()
	e := r.try(ctx, s, c)
	e.At = r.now()
	e.Took = e.At.Sub(begun)
	e.State, e.Next = s.nextState(c.Attempts, e)
	r.metrics.attempts.WithLabelValues(c.Upstream, e.Outcome).Inc()
	done, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	ended, err := r.store.Finish(done, c, e.Result)
	if err != nil {
		// When the lease has expired, the callback is attempted again (at least once).
		r.storeLog.Error("the result of an attempt could not be stored", "callback", c.ID, "error", err.Error())
		return
	}
	r.superseded(ended)
	switch e.State {
	case store.Delivered:
		r.metrics.delivered.WithLabelValues(c.Upstream).Inc()
	case store.Dead:
		r.log.Warn("a callback failed: no more attempts are made, and it waits for a decision", "callback", c.ID,
			"upstream", c.Upstream, "partner", c.Partner.Short(), "attempts", c.Attempts+1, "outcome", e.Outcome)
	}
}

// superseded counts and logs callbacks that ended for a newer one of their bill.
func (r *Relay) superseded(ended []store.Supersession) {
	for _, c := range ended {
		r.metrics.superseded.WithLabelValues(c.Upstream).Inc()
		r.log.Warn("a callback was superseded: the partner answered it without a success, and a newer one of the "+
			"bill is delivered instead", "callback", c.ID, "upstream", c.Upstream, "partner", c.Partner.Short(),
			"bill", billing.MaskBill(c.Bill), "attempts", c.Attempts, "outcome", c.Outcome, "status", c.Status,
			"reason", c.Reason)
	}
}

// The outcomes of an attempt.
const (
	taken      = "delivered"
	gone       = "gone"       // 410: the partner wants no more attempts
	redirected = "redirected" // 3xx
	forbidden  = "forbidden"  // 403: often from a partner that does not know the caller's address
	badStatus  = "status"     // any other
	badAnswer  = "answer"     // 200, but not the documented success
	late       = "timeout"
	unreached  = "connection"
	notAllowed = "address"  // refused by the guard
	broken     = "internal" // the gateway failed
)

// An end is the result of an attempt. Its Outcome is one of outcomes, and its Reason, in words for the operator, shows
// nothing of the address.
type end struct {
	store.Result
	after time.Duration // from Retry-After
}

// without is the end of an attempt without an answer.
func without(outcome, reason string) end {
	return end{Result: store.Result{Outcome: outcome, Reason: reason}}
}

var outcomes = []string{taken, gone, redirected, forbidden, badStatus, badAnswer, late, unreached, notAllowed, broken}

// try is post, except that a panic is one more failed attempt: it ends neither the process nor this callback (R40).
func (r *Relay) try(ctx context.Context, s *settings, c store.Claimed) (e end) {
	defer func() {
		if panicked := recover(); panicked != nil {
			r.log.Error("panic", "callback", c.ID, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
			e = without(broken, "the gateway failed: see its log")
		}
	}()
	return r.post(ctx, s, c)
}

// post makes the attempt.
func (r *Relay) post(ctx context.Context, s *settings, c store.Claimed) end {
	u, err := s.guard.check(c.URL) // the config may have changed since
	if err != nil {
		return without(notAllowed, "the address is not called: "+err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, s.rows.Method, u.String(), bytes.NewReader(c.Body))
	if err != nil {
		return without(notAllowed, "the address is not called: it cannot be written as a request")
	}
	now := r.now()
	req.Header = http.Header{
		"Content-Type": {c.ContentType}, "User-Agent": {r.userAgent},
		"Webhook-Id": {c.ID}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)},
	}
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		return without(outcomeOf(err), s.reason(err))
	}
	defer func() { _ = res.Body.Close() }()
	var a answer
	// After a switch the body is the connection, and reading it does not end with ctx.
	if res.StatusCode != http.StatusSwitchingProtocols {
		a, err = readAnswer(res)
	}
	if a.ignored {
		r.metrics.ignored(c.Upstream)
	}
	code, acknowledged := s.rows.Answered(translate.Form(c.Form), a.body)
	status, shown, why := res.StatusCode, answeredCode(c, code), ""
	outcome, reason := ofStatus(status)
	switch inside := status/100 == 2; {
	case inside && (s.callbacks.Success == config.Any2xx || err == nil && acknowledged):
		outcome, reason = taken, ""
	case inside && a.undecoded != "":
		outcome, why = badAnswer, a.undecoded+anyWouldDo
	case inside && err != nil:
		outcome, why = outcomeOf(err), s.reason(err)
	case inside:
		outcome, why = badAnswer, reasonOf2xx(a, shown, code)+anyWouldDo
	}
	if why != "" {
		reason += " but " + why
	}
	e := without(outcome, reason)
	e.Status, e.Code, e.after = status, shown, retryAfter(res.Header.Get("Retry-After"), r.now())
	return e
}

const anyWouldDo = " (a success with callbacks.success: any-2xx)"

// outcomeOf returns how an attempt without an answer ended.
func outcomeOf(err error) string {
	switch {
	case httpconn.IsA[*refused](err):
		return notAllowed
	case errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return unreached
}

// nextState is the state of a callback after one more attempt, and when the next is due; before is the number of
// earlier attempts.
func (s *settings) nextState(before int, e end) (store.State, time.Time) {
	made := before + 1
	switch {
	case e.Outcome == taken:
		return store.Delivered, time.Time{}
	case e.Outcome == gone, made >= len(s.callbacks.Schedule):
		return store.Dead, time.Time{}
	}
	gap := time.Duration(s.callbacks.Schedule[made])
	spread := s.callbacks.Jitter * (2*rand.Float64() - 1)
	gap += time.Duration(spread * float64(gap))
	return store.Waiting, e.At.Add(max(gap, e.after))
}

// retryAfter reads the header, in seconds or as a date; 0 if there is none that can be read.
func retryAfter(header string, now time.Time) time.Duration {
	if header == "" {
		return 0
	}
	wait := time.Duration(0)
	// Out of range, seconds is the maximum.
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), longestWait)
}
