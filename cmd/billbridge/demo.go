package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
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

// startDemo starts the backends and the receiver of the demo with so many partners.
func (t *trial) startDemo(partners int) (err error) {
	if t.demo, err = newDemo(partners); err != nil {
		return err
	}
	var all []sandbox.Partner
	for _, p := range t.demo.Partners {
		all = append(all, sandbox.Partner{Key: p.Key, Name: p.Name})
	}
	t.old = sandbox.New(sandbox.Options{Log: t.log, Partners: all})
	t.new = sandbox.New(sandbox.Options{Log: t.log, Partners: []sandbox.Partner{}})
	new := http.HandlerFunc(t.serveNew)
	return t.serve(new, t.old, &demoReceiver{partners: t.demo.Partners, attempts: map[string]int{}})
}

// serveNew is the new backend. It has the bills of the old one, so that shadow can compare reads, but it does not know
// the partner that differs.
func (t *trial) serveNew(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing is refused
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, p := range t.demo.Partners {
		if p.Quirk == "differs" && bytes.Contains(body, []byte(strconv.Quote(p.Key))) {
			t.new.ServeHTTP(w, r)
			return
		}
	}
	t.old.ServeHTTP(w, r)
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
	c.Rollout.Bills, c.Rollout.Copy = config.Separate, true
	c.Callbacks.Schedule = demoSchedule
	return c, nil
}

// useSandboxTable gives a config the table for backends that are sandboxes.
func useSandboxTable(c *config.Config) (err error) {
	overlay := translate.File{Name: "sandbox-overlay.yaml"}
	if overlay.Data, err = embedded(overlay.Name)(); err != nil {
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
		m.Author, m.Force = by, rollout.ReasonKinds
		if half := 50; p.Stage == rollout.StageCanary {
			m.Percent = &half
		}
		if err := a.send(ctx, http.MethodPost, "/rollout/stage", nil, m); err != nil {
			return err
		}
	}
	return nil
}
