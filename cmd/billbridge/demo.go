package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// demoName is who changes stages in the demo, for the audit log.
const demoName = "billbridge serve --demo"

// demoSchedule is the time before each attempt to deliver a callback.
var demoSchedule = []config.DurationOrZero{
	0, config.DurationOrZero(time.Second), config.DurationOrZero(2 * time.Second),
}

// startDemo starts the backends and the receiver of the demo.
func (t *trial) startDemo() (err error) {
	if t.demo, err = newDemo(); err != nil {
		return err
	}
	var old, new []sandbox.Partner
	for _, p := range t.demo.Partners {
		one := sandbox.Partner{Key: p.Key, Name: p.Name}
		if old = append(old, one); p.Quirk != "differs" {
			new = append(new, one)
		}
	}
	t.new = sandbox.New(sandbox.Options{Log: t.log, Partners: new})
	t.old = sandbox.New(sandbox.Options{Log: t.log, Partners: old})
	return t.serve(t.new, t.old, &demoReceiver{partners: t.demo.Partners, attempts: map[string]int{}})
}

// demoConfig returns the config of the gateway of the demo: an old and a new backend, and a name for each partner.
func (t *trial) demoConfig(env func(string) (string, bool)) (*config.Config, error) {
	text := fmt.Sprintf(t.demo.Config, t.urls[1], t.urls[0])
	for _, p := range t.demo.Partners {
		text += fmt.Sprintf("  %s: {name: %q}\n", partner.Of(p.Key), p.Name)
	}
	c, err := parseBuiltIn(text, env)
	if err != nil {
		return nil, err
	}
	if err := useSandboxTable(c); err != nil {
		return nil, err
	}
	t.table = c.Table
	// Set here, because a config file cannot name the store in memory that bills: separate requires.
	c.Rollout.Bills = config.Separate
	c.Callbacks.Schedule = demoSchedule
	c.Rollout.ProbeTimeout = time.Second
	c.Rollout.Verdict.Bills, c.Rollout.Verdict.Unclear = 5, 0.25
	return c, nil
}

// useSandboxTable gives a config the table for backends that are sandboxes.
func useSandboxTable(c *config.Config) (err error) {
	overlay := translate.File{Name: "sandbox-overlay.yaml"}
	if overlay.Data, err = embedded(overlay.Name); err != nil {
		return err
	}
	c.Table, err = translate.Compile(c.Limits.Depth, billing.Table(), overlay)
	return err
}

// begin starts the partners of the demo. They end with ctx.
func (t *trial) begin(ctx context.Context, server *server.Server) {
	if t.demo == nil {
		return
	}
	t.traffic.Go(func() {
		if err := t.prepare(ctx, "http://"+server.AdminAddress()); err != nil {
			if ctx.Err() == nil {
				t.log.Error("the demo could not be prepared", "error", err.Error())
			}
			return
		}
		newDemoTraffic(t, "http://"+server.Address()).run(ctx)
	})
}

// prepare begins the rollout, and sets the stages that some partners have from the start.
func (t *trial) prepare(ctx context.Context, admin string) error {
	a := adminFlags{Admin: admin}
	by := operate.Author{By: demoName}
	if err := a.send(ctx, http.MethodPost, "/rollout/begin", nil, by); err != nil {
		return err
	}
	for _, p := range t.demo.Partners {
		if p.Stage == "" {
			continue
		}
		m := operate.Move{PartnerRef: operate.PartnerRef{Partner: string(partner.Of(p.Key))}, Stage: p.Stage}
		m.Author, m.Force = by, moves.ReasonKinds
		if half := 50; p.Stage == routing.StageCanary {
			m.Percent = &half
		}
		if err := a.send(ctx, http.MethodPost, "/rollout/stage", nil, m); err != nil {
			return err
		}
	}
	return nil
}
