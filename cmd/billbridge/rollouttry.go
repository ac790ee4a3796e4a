package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/sandbox"
)

// rolloutTry is the way of a partner from old to new, with a sandbox on either backend.
type rolloutTry struct {
	adminFlags
	Partners string `default:"http://127.0.0.1:8080" placeholder:"URL" help:"Where partners call (${default})."`
}

// Help implements kong's detailed help.
func (rolloutTry) Help() string {
	return examples("billbridge serve --rollout", "billbridge rollout try    # in a second terminal") +
		"\n\nIt makes bills of the demo partner, which only the sandbox knows, pays and reads them, and runs the commands that it shows."
}

const (
	demoKey = "demo-partner-key"

	triedBills   = 30  // so many distinct bills, and
	triedReads   = 4   // each read so often, are enough for PASS
	triedCanary  = 300 // bills of which canary makes about half at the new backend: PASS wants 100 at either
	triedPercent = 50
	passes       = 100 // comparisons, or bills read back
)

// Run drives.
func (c *rolloutTry) Run(ctx context.Context, s surroundings) error {
	sum := sha256.Sum256([]byte(demoKey))
	partner := hex.EncodeToString(sum[:])
	short := partner[:12]
	began := time.Now().UnixMilli() % 1e9 // no two runs have the same bills
	bill := func(i int) string { return fmt.Sprintf("TRY%09dB%03d", began, i) }

	fmt.Fprintf(s.out, "# %d bills of the demo partner are made, in the legacy form, and every third one is paid.\n", triedBills)
	for i := range triedBills {
		page, err := c.make(ctx, bill(i))
		if err == nil && i%3 == 0 {
			err = pay(ctx, page)
		}
		if err != nil {
			return err
		}
	}

	by := "billbridge rollout try"
	set := rolloutSet{decisionFlags: decisionFlags{adminFlags: c.adminFlags, By: &by}, partnerFlags: partnerFlags{Partner: &partner}}
	show := func(line string, run func() error) error {
		fmt.Fprintf(s.out, "\n$ billbridge rollout %s\n", line)
		return run()
	}
	report := rolloutReport{adminFlags: c.adminFlags, partnerFlags: set.partnerFlags, Format: "text"}
	status := rolloutStatus{adminFlags: c.adminFlags, partnerFlags: set.partnerFlags}

	set.Stage = string(rollout.StageShadow)
	if err := show("set --partner "+short+" --stage shadow", func() error { return set.Run(ctx, s) }); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n# Each bill is read %d times, in both forms. The new backend is asked, too, and the answers are compared.\n", triedReads)
	for n := range triedReads {
		for i := range triedBills {
			if err := c.read(ctx, bill(i), n%2 == 0); err != nil {
				return err
			}
		}
	}
	if err := c.await(ctx, partner, "bill.read", evidence.ByShadow, passes); err != nil {
		return err
	}
	if err := show("report --partner "+short, func() error { return report.Run(ctx, s) }); err != nil {
		return err
	}

	percent := triedPercent
	set.Stage, set.Percent = string(rollout.StageCanary), &percent
	if err := show(fmt.Sprintf("set --partner %s --stage canary --percent %d", short, percent), func() error { return set.Run(ctx, s) }); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n# %d more bills are made. Those that the new backend makes are read back.\n", triedCanary)
	for i := range triedCanary {
		if _, err := c.make(ctx, bill(triedBills+i)); err != nil {
			return err
		}
	}
	if err := c.await(ctx, partner, "bill.create", evidence.ByReadBack, passes); err != nil {
		return err
	}
	if err := show("status --partner "+short, func() error { return status.Run(ctx, s) }); err != nil {
		return err
	}
	if err := show("report --partner "+short, func() error { return report.Run(ctx, s) }); err != nil {
		return err
	}
	set.Stage, set.Percent = string(rollout.StageNew), nil
	return show("set --partner "+short+" --stage new", func() error { return set.Run(ctx, s) })
}

// make makes a bill, and returns the page that pays it.
func (c *rolloutTry) make(ctx context.Context, bill string) (page string, err error) {
	reply, err := c.call(ctx, "/if/bill/send", `{"apikey":"`+demoKey+`","member":"demo-member","merchant":"demo-store","bill":{"bill_id":"`+bill+
		`","product_nm":"11월 수강료","price":"`+demoPrice+`","hash":"`+sandbox.Hash(bill, "", demoPrice)+`"}}`)
	return reply.ShortURL, err
}

// read reads a bill in one of the forms.
func (c *rolloutTry) read(ctx context.Context, bill string, legacy bool) error {
	path, body := "/bill/read", `{"apiKey":"`+demoKey+`","member":"demo-member","merchant":"demo-store","bill":{"billId":"`+bill+`"}}`
	if legacy {
		path, body = "/if/bill/read", `{"apikey":"`+demoKey+`","member":"demo-member","merchant":"demo-store","bill_id":"`+bill+`"}`
	}
	_, err := c.call(ctx, path, body)
	return err
}

// triedReply is what is read of a reply, in either form.
type triedReply struct{ Code, Msg, Message, ShortURL string }

// call makes a call of the demo partner, which must succeed.
func (c *rolloutTry) call(ctx context.Context, path, body string) (reply triedReply, err error) {
	text, err := send(ctx, strings.TrimSuffix(c.Partners, "/")+path, "application/json", body)
	if err == nil {
		err = json.Unmarshal(text, &reply)
	}
	switch {
	case err != nil:
		return reply, fmt.Errorf("%w\nIs billbridge serve --rollout running there? It prints the line to call", err)
	case reply.Code != "" && reply.Code != "0000": // a legacy read that succeeds has none
		return reply, fmt.Errorf("%s answers %s: %s\nOnly the sandbox knows the demo partner. Run billbridge serve --rollout", path, reply.Code, reply.Msg+reply.Message)
	}
	return reply, nil
}

// pay pays a bill on its page.
func pay(ctx context.Context, page string) error {
	_, err := send(ctx, page, "application/x-www-form-urlencoded", url.Values{"method": {"CARD_VAN"}, "months": {"0"}}.Encode())
	return err
}

func send(ctx context.Context, to, contentType, body string) ([]byte, error) {
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
		err = fmt.Errorf("%s answers %s: %s", to, response.Status, bytes.TrimSpace(reply))
	}
	return reply, err
}

// tryWithin is how long what is compared in the background may take.
const tryWithin = 30 * time.Second

// await waits until so many comparisons of an operation are in the report.
func (c *rolloutTry) await(ctx context.Context, partner, operation string, by evidence.Evidence, want int) error {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	for {
		var r rollout.Report
		if err := c.get(ctx, "/rollout/report?partner="+partner, &r); err != nil {
			return err
		}
		have := 0
		for _, v := range r.Verdicts {
			if v.Operation == operation && v.Evidence == by {
				have = v.Number + v.NotThere + v.Moved + v.Unclear
			}
		}
		if have >= want {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d bills were compared within %s: is this gateway another one than that of billbridge serve --rollout?", have, want, tryWithin)
		}
	}
}
