package operate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A CompareBill reads a bill of a partner at both backends, compares the answers and counts the result, as those of a
// compared read. Without a merchant it uses that of the partner's first call. took is how long each backend took; both
// are 0 if it was not read.
type CompareBill func(
	ctx context.Context, id partner.ID, merchant, bill string,
) (result evidence.Comparison, took [2]time.Duration)

// BillsToCompare are bills of a partner.
type BillsToCompare struct {
	PartnerRef
	IDs   string `json:"ids,omitzero"`         // one on each line; "" for the ledger's, the newest first
	After string `json:"after,omitzero"`       // of the ledger's: those that follow Next of another answer
	Rate  int    `json:"rate,omitzero,string"` // the most bills per second
	Limit        // of the answer; it can have fewer
}

// ComparedBills are what a comparison of bills has shown.
type ComparedBills struct {
	Who
	Bills   map[string]int  `json:"bills"` // that were compared, by result: a class of package evidence, or refused
	OldOnly int             `json:"old_only"`
	NewOnly int             `json:"new_only"`
	Fields  []ComparedField `json:"fields,omitempty"` // that differ: the first ten
	Next    string          `json:"next,omitempty"`   // where to go on; "" if no bill is left
	Left    int             `json:"left"`             // bills that follow
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
	compareWithin = 3 * time.Second // after which an answer is given
	compareFields = 10
	refusedBills  = "refused" // the class of bills whose reads both backends refused
	compareFew    = 5         // after so many bills their times are compared with those of the partners' calls
)

// CompareBills compares bills of a partner at both backends now, for some seconds. It sends nothing but reads, one bill
// after another, and one answer at a time on a gateway. It stops if a backend slows down: its breaker is open, or the
// reads take longer on average than 99 % of the partners' calls in the last hours.
func (o *Operator) CompareBills(ctx context.Context, b BillsToCompare) (c ComparedBills, err error) {
	most, err := b.get()
	if err != nil {
		return c, err
	}
	id, err := o.named(ctx, b.Partner)
	switch {
	case err != nil:
		return c, err
	case id == "":
		return c, badRequest("partner must be one partner")
	case b.Rate < 1 || b.Rate > compareRate:
		return c, badRequest("rate must be 1 to %d bills per second, but is %d", compareRate, b.Rate)
	case o.CompareBill == nil || o.Knows == nil || !o.Knows(id):
		return c, conflict("Nothing was read: the gateway knows the key of a partner when it has called since the " +
			"start of the gateway.")
	case !o.comparing.TryLock():
		return c, conflict("Nothing was read: this gateway compares bills for another request now. Try again.")
	}
	defer o.comparing.Unlock()
	bills, left, err := o.toCompare(ctx, id, b, most)
	if err != nil {
		return c, err
	}
	var usual [2]store.Sums
	if o.Store != nil {
		usual, err = o.Store.BackendSums(ctx, o.Now().Add(-time.Hour).Truncate(time.Hour))
	}
	if err != nil {
		return c, err
	}
	c.Who, c.Left, c.Bills = o.who(id), left, map[string]int{}
	tick := time.NewTicker(time.Second / time.Duration(b.Rate))
	defer tick.Stop()
	var took [2]time.Duration
	for began, n := o.Now(), 0; n < len(bills); n++ {
		over := o.Now().Sub(began) >= compareWithin
		if c.Stopped = o.slow(usual, took, n, over || n >= compareFew); c.Stopped != "" || over {
			break
		}
		merchant, err := o.merchantOf(ctx, id, bills[n].Bill)
		if err != nil {
			c.Stopped = err.Error()
			break
		}
		result, times := o.CompareBill(ctx, id, merchant, bills[n].Bill)
		if ctx.Err() != nil { // this one was not counted
			break
		}
		took[0], took[1] = took[0]+times[0], took[1]+times[1]
		c.add(result, bills[n].Bill)
		c.Left--
		if c.Next = ""; b.IDs == "" && c.Left > 0 {
			c.Next = placeText(bills[n])
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return c, nil
}

// merchantOf returns the merchant of a bill by the ledger, "" if that does not have it.
func (o *Operator) merchantOf(ctx context.Context, id partner.ID, bill string) (string, error) {
	if o.Store == nil {
		return "", nil
	}
	row, err := o.Store.Owner(ctx, id, bill)
	if errors.Is(err, store.ErrNotFound) || row.State == store.Released {
		return "", nil
	}
	return row.Merchant, err
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

// toCompare returns the bills to compare, and their number with those that follow.
func (o *Operator) toCompare(
	ctx context.Context, id partner.ID, b BillsToCompare, most int,
) (bills []store.LedgerPlace, all int, err error) {
	if b.IDs != "" {
		for line := range strings.SplitSeq(strings.TrimSpace(b.IDs), "\n") {
			bills = append(bills, store.LedgerPlace{Bill: strings.TrimSpace(line)})
		}
		if len(bills) > most || b.After != "" {
			return nil, 0, badRequest("give at most %d ids, and no after", most)
		}
		return bills, len(bills), nil
	}
	after, ok := placeOf(b.After)
	switch {
	case !ok:
		return nil, 0, badRequest("after must be the next of the answer before")
	case o.Store == nil || o.Rollout.Settings().Config.Bills == config.Shared:
		return nil, 0, conflict("Nothing was read: with bills: shared, or without a store, there is no ledger. Give " +
			"the ids of bills.")
	}
	bills, all, err = o.Store.NewestBills(ctx, id, after, min(most, compareRate*int(compareWithin/time.Second)))
	return bills, all, err
}

// placeText is a place among the bills as one word.
func placeText(p store.LedgerPlace) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", p.At.UnixMilli(), p.Bill))
}

func placeOf(text string) (p store.LedgerPlace, ok bool) {
	if text == "" {
		return p, true
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	at, bill, _ := strings.Cut(string(plain), " ")
	ms, wrong := strconv.ParseInt(at, 10, 64)
	return store.LedgerPlace{At: time.UnixMilli(ms), Bill: bill}, err == nil && wrong == nil && bill != ""
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
