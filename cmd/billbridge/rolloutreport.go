package main

import (
	"context"
	"fmt"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
)

type rolloutReport struct {
	adminFlags
	partnerFlags
	verdictFlags
	Format string `default:"text" enum:"text,json" placeholder:"FORMAT"`
}

// verdictFlags select partners by a verdict.
type verdictFlags struct {
	Verdict string `enum:",PASS,FAIL,INCONCLUSIVE" default:"" placeholder:"VERDICT"`
}

func (f verdictFlags) filter() operate.VerdictFilter {
	return operate.VerdictFilter{Verdict: evidence.Ruling(f.Verdict)}
}

// Run prints the report.
func (c *rolloutReport) Run(ctx context.Context, partner operate.PartnerRef) error {
	var r operate.Report
	if err := c.get(ctx, "/rollout/report", &r, partner, c.filter()); err != nil {
		return err
	}
	if err := r.Write(c.out, c.Format); err != nil {
		return err
	}
	failed := 0
	for _, v := range r.Verdicts {
		if v.Ruling == evidence.Fail {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d verdicts are FAIL", failed, len(r.Verdicts))
	}
	return nil
}
