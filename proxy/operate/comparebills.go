package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
)

// A CompareBill reads a bill of a partner at both backends, compares the answers and counts the result, as those of a
// compared read.
type CompareBill func(ctx context.Context, id partner.ID, bill string) evidence.Comparison

// BillsToCompare are bills of a partner.
type BillsToCompare struct {
	PartnerRef
	IDs string `json:"ids,omitzero"` // one on each line
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
	compareMost   = 1000            // bills of a list
	compareWithin = 3 * time.Second // after which an answer is given
	compareFields = 10
	refusedBills  = "refused" // the class of bills whose reads both backends refused
)

// CompareBills compares bills of a partner at both backends now, for some seconds. It sends nothing but reads, one bill
// after another at the rate of the gateway's own reads, and one answer at a time on a gateway. It stops if the breaker
// of a backend is open.
func (o billVerbs) CompareBills(ctx context.Context, b BillsToCompare) (c ComparedBills, err error) {
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
	case o.CompareBill == nil || o.Knows == nil || !o.Knows(id):
		return c, conflict("Nothing was read: the gateway knows the key of a partner when it has called since the " +
			"start of the gateway.")
	case !o.comparing.TryLock():
		return c, conflict("Nothing was read: this gateway compares bills for another request now. Try again.")
	}
	defer o.comparing.Unlock()
	c.Who, c.Left, c.Bills = o.who(id), len(bills), map[string]int{}
	began := o.Now()
	for _, bill := range bills {
		for _, upstream := range o.Rollout.Settings().Backends {
			if o.Opened(upstream) {
				c.Stopped = fmt.Sprintf("the breaker of %s is open", upstream)
			}
		}
		if c.Stopped != "" || o.Now().Sub(began) >= compareWithin {
			break
		}
		bill = strings.TrimSpace(bill)
		result := o.CompareBill(ctx, id, bill)
		if ctx.Err() != nil { // this one was not counted
			break
		}
		c.add(result, bill)
		c.Left--
		o.pause(ctx)
	}
	return c, nil
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
			c.Fields = append(c.Fields, ComparedField{routing.ShownBill(bill), d.Path, d.Kind, d.Old, d.New})
		}
	}
}
