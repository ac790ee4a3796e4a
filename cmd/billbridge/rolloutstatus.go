package main

import (
	"context"
	"fmt"

	"billbridge/proxy/operate"
)

type rolloutStatus struct {
	adminFlags
	partnerFlags
	verdictFlags
	Limit int  `default:"100" placeholder:"N"`
	JSON  bool `name:"json"`
}

// Run shows the status.
func (c *rolloutStatus) Run(ctx context.Context, partner operate.PartnerRef) error {
	if c.Limit < 0 {
		return usageError(fmt.Sprintf("--limit must not be negative, but is %d", c.Limit))
	}
	status, err := c.pages(ctx, partner)
	if err != nil {
		return err
	}
	return showOrJSON(c.out, c.JSON, "status", status)
}

// pages gets the status with the partners of as many pages as are wanted.
func (c *rolloutStatus) pages(ctx context.Context, partner operate.PartnerRef) (all operate.Status, err error) {
	all.Partners = []operate.PartnerStatus{} // a list in JSON, also when it is empty
	for {
		page := maxPage
		if c.Limit > 0 {
			page = min(page, c.Limit-len(all.Partners))
		}
		var status operate.Status
		p := operate.Page{PartnerRef: partner, VerdictFilter: c.filter(), After: all.Next, Limit: operate.AtMost(page)}
		if err := c.get(ctx, "/rollout", &status, p); err != nil {
			return all, err
		}
		status.Partners = append(all.Partners, status.Partners...)
		if all.Uncounted.Kind != "" {
			status.Uncounted = all.Uncounted
		}
		if all = status; all.Next == "" || c.Limit > 0 && len(all.Partners) >= c.Limit {
			return all, nil
		}
	}
}
