package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/sandbox"
)

// rolloutTry moves the demo partner from old to new between two sandboxes.
type rolloutTry struct {
	adminFlags
	Partners string `default:"http://127.0.0.1:8080" placeholder:"URL" help:"The gateway's listener for partners (${default})."`
}

// Help implements kong's detailed help.
func (rolloutTry) Help() string {
	return examples("billbridge serve --rollout", "billbridge rollout try    # in a second terminal") +
		"\n\nThe command creates, pays and reads bills of the demo partner, which only the sandbox has, and runs the rollout commands that" +
		"\nit prints."
}

const (
	demoKey = "demo-partner-key"

	shadowBills   = 30  // with
	shadowReads   = 4   // reads of each bill: enough for PASS
	canaryBills   = 300 // about half of them at each backend: PASS requires 100 at each
	canaryPercent = 50
	canaryPaid    = 40  // about half of them at the new backend
	comparisons   = 100 // required for PASS
	requiredPaid  = 5   // also
)

// Run runs the trial.
func (c *rolloutTry) Run(ctx context.Context, s system) error {
	id := partner.Of(demoKey)
	by, full := "billbridge rollout try", string(id)
	start := time.Now().UnixMilli() % 1e9
	t := &rolloutTrial{
		rolloutTry: c, s: s, partner: full, short: id.Short(),
		set:    rolloutSet{decisionFlags: decisionFlags{adminFlags: c.adminFlags, By: &by}, partnerFlags: partnerFlags{Partner: &full}},
		billID: func(i int) string { return fmt.Sprintf("TRY%09dB%03d", start, i) },
	}
	for _, step := range []func(context.Context) error{t.createBills, t.shadow, t.canary, t.moveToNew} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A rolloutTrial is one run of rolloutTry.
type rolloutTrial struct {
	*rolloutTry
	s              system
	partner, short string // the hash of the demo partner's key
	set            rolloutSet
	billID         func(int) string // different ids in every run
}

func (t *rolloutTrial) createBills(ctx context.Context) error {
	printf(t.s.out, "# %d bills of the demo partner are created, in the legacy form, and every third one is paid.\n", shadowBills)
	for i := range shadowBills {
		page, err := t.create(ctx, t.billID(i))
		if err == nil && i%3 == 0 {
			err = pay(ctx, page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *rolloutTrial) shadow(ctx context.Context) error {
	if err := t.setStage(ctx, rollout.StageShadow, nil); err != nil {
		return err
	}
	printf(t.s.out, "\n# Each bill is read %d times, in both forms. The new backend gets the same reads, and the replies are compared.\n", shadowReads)
	for n := range shadowReads {
		for i := range shadowBills {
			if err := t.read(ctx, t.billID(i), n%2 == 0); err != nil {
				return err
			}
		}
	}
	if err := t.awaitComparisons(ctx, t.partner, "bill.read", evidence.ByShadow, comparisons); err != nil {
		return err
	}
	return t.report(ctx)
}

func (t *rolloutTrial) canary(ctx context.Context) error {
	percent := canaryPercent
	if err := t.setStage(ctx, rollout.StageCanary, &percent); err != nil {
		return err
	}
	printf(t.s.out, "\n# %d more bills are created, and %d of them are paid and read. The gateway reads back those that are created at the new backend.\n",
		canaryBills, canaryPaid)
	pages := make([]string, canaryBills)
	for i := range canaryBills {
		var err error
		if pages[i], err = t.create(ctx, t.billID(shadowBills+i)); err != nil {
			return err
		}
	}
	for i := range canaryPaid {
		err := pay(ctx, pages[i])
		if err == nil {
			err = t.read(ctx, t.billID(shadowBills+i), true)
		}
		if err != nil {
			return err
		}
	}
	paid := func(v evidence.Verdict) bool { return v.Paid >= requiredPaid }
	if err := t.awaitComparisons(ctx, t.partner, "bill.create", evidence.ByReadBack, comparisons, paid); err != nil {
		return err
	}
	status := rolloutStatus{adminFlags: t.adminFlags, partnerFlags: t.set.partnerFlags}
	if err := t.run("status --partner "+t.short, func() error { return status.Run(ctx, t.s) }); err != nil {
		return err
	}
	return t.report(ctx)
}

func (t *rolloutTrial) moveToNew(ctx context.Context) error {
	return t.setStage(ctx, rollout.StageNew, nil)
}

// run prints a rollout command and runs it.
func (t *rolloutTrial) run(args string, command func() error) error {
	printf(t.s.out, "\n$ billbridge rollout %s\n", args)
	return command()
}

func (t *rolloutTrial) setStage(ctx context.Context, stage rollout.Stage, percent *int) error {
	t.set.Stage, t.set.Percent = string(stage), percent
	args := fmt.Sprintf("set --partner %s --stage %s", t.short, stage)
	if percent != nil {
		args += fmt.Sprintf(" --percent %d", *percent)
	}
	return t.run(args, func() error { return t.set.Run(ctx, t.s) })
}

func (t *rolloutTrial) report(ctx context.Context) error {
	report := rolloutReport{adminFlags: t.adminFlags, partnerFlags: t.set.partnerFlags, Format: "text"}
	return t.run("report --partner "+t.short, func() error { return report.Run(ctx, t.s) })
}

// create creates a bill and returns the URL of its payment page.
func (c *rolloutTry) create(ctx context.Context, bill string) (page string, err error) {
	reply, err := c.post(ctx, "/if/bill/send", `{"apikey":"`+demoKey+`","member":"demo-member","merchant":"demo-store","bill":{"bill_id":"`+bill+
		`","product_nm":"11월 수강료","price":"`+demoPrice+`","hash":"`+sandbox.Hash(bill, "", demoPrice)+`"}}`)
	return reply.ShortURL, err
}

// read reads a bill in the legacy form or in v2.
func (c *rolloutTry) read(ctx context.Context, bill string, legacy bool) error {
	path, body := "/bill/read", `{"apiKey":"`+demoKey+`","member":"demo-member","merchant":"demo-store","bill":{"billId":"`+bill+`"}}`
	if legacy {
		path, body = "/if/bill/read", `{"apikey":"`+demoKey+`","member":"demo-member","merchant":"demo-store","bill_id":"`+bill+`"}`
	}
	_, err := c.post(ctx, path, body)
	return err
}

// A trialReply has the fields that are used of a reply in either form.
type trialReply struct{ Code, Msg, Message, ShortURL string }

// post makes a call of the demo partner. Any reply but a success is an error.
func (c *rolloutTry) post(ctx context.Context, path, body string) (reply trialReply, err error) {
	text, err := httpPost(ctx, strings.TrimSuffix(c.Partners, "/")+path, "application/json", body)
	if err == nil {
		err = json.Unmarshal(text, &reply)
	}
	switch {
	case err != nil:
		return reply, fmt.Errorf("%w\nStart billbridge serve --rollout first, and run the command line that it prints", err)
	case reply.Code != "" && reply.Code != "0000": // a successful legacy read has no code
		return reply, fmt.Errorf("%s returned %s: %s\nOnly the sandbox has the demo partner: start billbridge serve --rollout", path, reply.Code, reply.Msg+reply.Message)
	}
	return reply, nil
}

// pay pays a bill on its page.
func pay(ctx context.Context, page string) error {
	_, err := httpPost(ctx, page, "application/x-www-form-urlencoded", url.Values{"method": {"CARD_VAN"}, "months": {"0"}}.Encode())
	return err
}

func httpPost(ctx context.Context, to, contentType, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s returned %s: %s", to, response.Status, bytes.TrimSpace(reply))
	}
	return reply, err
}

// comparisonTimeout bounds the wait for comparisons, which run in the background.
const comparisonTimeout = 30 * time.Second

// awaitComparisons waits until the report has a number of comparisons of an operation.
func (c *rolloutTry) awaitComparisons(ctx context.Context, partner, operation string, by evidence.Evidence, want int, also ...func(evidence.Verdict) bool) error {
	ctx, cancel := context.WithTimeout(ctx, comparisonTimeout)
	defer cancel()
	for {
		var r rollout.Report
		if err := c.get(ctx, "/rollout/report?partner="+partner, &r); err != nil {
			return err
		}
		have, all := 0, true
		for _, v := range r.Verdicts {
			if v.Operation == operation && v.Evidence == by {
				have = v.Number + v.NotThere + v.Moved + v.Unclear
				all = !slices.ContainsFunc(also, func(is func(evidence.Verdict) bool) bool { return !is(v) })
			}
		}
		if have >= want && all {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d comparisons after %s: check that --partners and --admin are of the same gateway, started with billbridge serve --rollout", have, want, comparisonTimeout)
		}
	}
}
