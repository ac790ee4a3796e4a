package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A CompareBill reads a bill of a partner at both backends, compares the answers and counts the result, as those of a
// compared read. took is how long each backend took; both are 0 if it was not read.
type CompareBill func(
	ctx context.Context, id partner.ID, bill string,
) (result evidence.Comparison, took [2]time.Duration)

// BillsToCompare are bills of a partner.
type BillsToCompare struct {
	PartnerRef
	IDs  string `json:"ids,omitzero"`         // one on each line
	Rate int    `json:"rate,omitzero,string"` // the most bills per second
}

// ComparedBills are what a comparison of bills has shown.
type ComparedBills struct {
	Who
	Bills   map[string]int  `json:"bills"` // that were compared, by result: a class of package evidence, or refused
	OldOnly int             `json:"old_only"`
	NewOnly int             `json:"new_only"`
	Fields  []ComparedField `json:"fields,omitempty"` // that differ: the first ten
	Left    int             `json:"left"`             // the last ones of the list, for another comparison
	Stopped string          `json:"stopped,omitempty"`
}

// A ComparedField is a difference.
type ComparedField struct {
	Bill  string        `json:"bill"`
	Field string        `json:"field"`
	Kind  evidence.Kind `json:"kind"`
	Old   string        `json:"old"` // masked as in the report
	New   string        `json:"new"`
}

const (
	compareRate   = 100             // the highest Rate
	compareMost   = 1000            // bills of a list
	compareWithin = 3 * time.Second // after which an answer is given
	compareFields = 10
	refusedBills  = "refused" // the class of bills whose reads both backends refused
	compareFew    = 5         // after so many bills their times are compared with those of the partners' calls
)

// CompareBills compares bills of a partner at both backends now, for some seconds. It sends nothing but reads, one bill
// after another, and one answer at a time on a gateway. It stops if a backend slows down: its breaker is open, or the
// reads take longer on average than 99 % of the partners' calls in the last hours.
func (o *Operator) CompareBills(ctx context.Context, b BillsToCompare) (c ComparedBills, err error) {
	bills := strings.Split(strings.TrimSpace(b.IDs), "\n")
	id, err := o.named(ctx, b.Partner)
	switch {
	case err != nil:
		return c, err
	case id == "":
		return c, badRequest("partner must be one partner")
	case b.IDs == "" || len(bills) > compareMost:
		return c, badRequest("ids must be 1 to %d bills, each on a line", compareMost)
	case o.Rollout.Settings().Config.Bills == config.Separate:
		return c, conflict("Nothing was read: with bills: separate each bill is at one backend, so there is nothing " +
			"to compare.")
	case b.Rate < 1 || b.Rate > compareRate:
		return c, badRequest("rate must be 1 to %d bills per second, but is %d", compareRate, b.Rate)
	case o.CompareBill == nil || o.Knows == nil || !o.Knows(id):
		return c, conflict("Nothing was read: the gateway knows the key of a partner when it has called since the " +
			"start of the gateway.")
	case !o.comparing.TryLock():
		return c, conflict("Nothing was read: this gateway compares bills for another request now. Try again.")
	}
	defer o.comparing.Unlock()
	var usual [2]store.Sums
	if o.Store != nil {
		usual, err = o.Store.BackendSums(ctx, o.Now().Add(-time.Hour).Truncate(time.Hour))
	}
	if err != nil {
		return c, err
	}
	c.Who, c.Left, c.Bills = o.who(id), len(bills), map[string]int{}
	tick := time.NewTicker(time.Second / time.Duration(b.Rate))
	defer tick.Stop()
	var took [2]time.Duration
	for began, n := o.Now(), 0; n < len(bills); n++ {
		over := o.Now().Sub(began) >= compareWithin
		if c.Stopped = o.slow(usual, took, n, over || n >= compareFew); c.Stopped != "" || over {
			break
		}
		bill := strings.TrimSpace(bills[n])
		result, times := o.CompareBill(ctx, id, bill)
		if ctx.Err() != nil { // this one was not counted
			break
		}
		took[0], took[1] = took[0]+times[0], took[1]+times[1]
		c.add(result, bill)
		c.Left--
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return c, nil
}

// slow is why no more bills are read: n were read, and took so long at each backend. With timed their times count.
func (o *Operator) slow(usual [2]store.Sums, took [2]time.Duration, n int, timed bool) string {
	for i, upstream := range o.Rollout.Settings().Backends {
		mean := took[i] / time.Duration(max(n, 1))
		switch bound := usual[i].P99(); {
		case o.Opened(upstream):
			return fmt.Sprintf("the breaker of %s is open", upstream)
		case timed && bound > 0 && mean > bound:
			return fmt.Sprintf("a read at %s takes %s, and 99 %% of the partners' calls there took at most %s", upstream,
				mean.Round(time.Millisecond), bound)
		}
	}
	return ""
}

// add adds the comparison of a bill.
func (c *ComparedBills) add(result evidence.Comparison, bill string) {
	class := string(result.Class)
	if result.Class == evidence.Same && result.Succeeded == [2]bool{} { // no field was compared
		class = refusedBills
	}
	c.Bills[class]++
	if result.Class == evidence.NotThere {
		switch result.Succeeded {
		case [2]bool{true, false}:
			c.OldOnly++
		case [2]bool{false, true}:
			c.NewOnly++
		}
	}
	for _, d := range result.Differences {
		if len(c.Fields) < compareFields {
			c.Fields = append(c.Fields, ComparedField{rollout.ShownBill(bill), d.Path, d.Kind, d.First, d.Second})
		}
	}
}
