package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
	"billbridge/translate"
)

// demoName is who changes stages in the demo, for the audit log.
const demoName = "billbridge serve --demo"

// A demo is what serve --demo runs beside the gateway: the two backends, the receiver of the partners' callbacks, and the partners.
type demo struct {
	partners []demoPartner
	old, new *sandbox.Service // the backends
	servers  []*http.Server
	urls     [3]string // of the old backend, of the new one, and of the receiver
	rate     int       // of the traffic, in steps per second
	log      *slog.Logger
	traffic  sync.WaitGroup
}

// demoConfig is the config of the demo. Times and limits are short, so that a partner can be moved through all stages within minutes.
const demoConfig = `
upstreams:
  old: {form: legacy, url: %q, timeout: 1s, wait: 500ms}
  new: {form: v2, url: %q, timeout: 1s, wait: 500ms}
route: {default: old}
rollout:
  old: old
  new: new
  bills: shared
  settle: 2s
  ask: 1s
  verdict: {comparisons: 10, bills: 5, paid: 1, mismatch: 0.3, unclear: 0.25}
failures: {explain: 1s}
log: {level: error}
partners:
`

// demoSchedule is the time before each attempt to deliver a callback.
var demoSchedule = []config.DurationOrZero{0, config.DurationOrZero(2 * time.Second), config.DurationOrZero(5 * time.Second)}

// startDemo starts the backends and the receiver of the demo, each on a free port.
func startDemo(s system, rate int) (*demo, error) {
	log := slog.New(s.log)
	d := &demo{partners: demoPartners(), rate: rate, log: log}
	known := make([]sandbox.Partner, len(d.partners))
	for i, p := range d.partners {
		known[i] = sandbox.Partner{Key: p.key, Name: p.name}
	}
	d.new = sandbox.New(sandbox.Options{Log: log, Partners: known})
	d.old = sandbox.New(sandbox.Options{Log: log, Partners: known, CopyTo: d.new}) // so that shadow can compare reads
	for i, handler := range []http.Handler{d.old, newDiffering(d.new, d.partners), newDemoReceiver(d.partners)} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.urls[i] = "http://" + listener.Addr().String()
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		d.servers = append(d.servers, server)
		go func() { _ = server.Serve(listener) }()
	}
	return d, nil
}

// config returns the config of the gateway of the demo.
func (d *demo) config(env func(string) (string, bool)) (*config.Config, error) {
	text := fmt.Appendf(nil, demoConfig, d.urls[0], d.urls[1])
	for _, p := range d.partners {
		text = fmt.Appendf(text, "  %s: {name: %q}\n", partner.Of(p.key), p.name)
	}
	c, err := config.Parse(translate.File{Name: "built-in", Data: text}, env)
	if err != nil {
		return nil, err
	}
	if c.Table, err = sandboxTable(c.Limits.Depth); err != nil {
		return nil, err
	}
	relayInMemory(c)
	// Set here, because a config file cannot name the store in memory that bills: separate requires.
	c.Rollout.Bills, c.Rollout.Copy = config.Separate, true
	c.Callbacks.Schedule = demoSchedule
	return c, nil
}

// begin starts the partners of the demo. They end with ctx.
func (d *demo) begin(ctx context.Context, server *server.Server) {
	d.traffic.Go(func() {
		if err := d.prepare(ctx, "http://"+server.AdminAddress()); err != nil {
			if ctx.Err() == nil {
				d.log.Error("the demo could not be prepared", "error", err.Error())
			}
			return
		}
		newDemoTraffic(d, "http://"+server.Address()).run(ctx)
	})
}

// prepare begins the rollout, and sets the stages that some partners have from the start.
func (d *demo) prepare(ctx context.Context, admin string) error {
	a := adminFlags{Admin: admin}
	by := operate.Author{By: demoName}
	if err := a.send(ctx, http.MethodPost, "/rollout/begin", nil, by); err != nil {
		return err
	}
	for _, p := range d.partners {
		if p.stage == "" {
			continue
		}
		m := operate.Move{PartnerRef: operate.PartnerRef{Partner: string(partner.Of(p.key))}, Stage: p.stage}
		m.Author, m.Force = by, rollout.ReasonKinds
		if half := 50; p.stage == rollout.StageCanary {
			m.Percent = &half
		}
		if err := a.send(ctx, http.MethodPost, "/rollout/stage", nil, m); err != nil {
			return err
		}
	}
	return nil
}

// close ends the backends and the receiver. It must be called after the gateway has stopped, and the context of begin has ended.
func (d *demo) close() error {
	d.traffic.Wait()
	var err error
	for _, s := range d.servers {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, d.old.Close(), d.new.Close())
}

// greeting describes the demo.
func (d *demo) greeting(server *server.Server, c *config.Config) string {
	return fmt.Sprintf(`Demo without a config. Two sandboxes run in this process as backends, old in the legacy form (%s) and new in
v2 (%s), and %d invented partners bill their customers through the gateway. Each backend has its own bills.
The new backend also gets a copy of each bill of the old one and of its changes, so that shadow can compare reads. Some calls and
callbacks fail on purpose. All data is in memory. Ctrl-C ends the demo.

%s
Some partners are in a later stage already. Times and limits are shorter than the defaults, so that a partner can be moved through all
stages within minutes: the settling period is %s, a verdict needs %d comparisons, and a callback is dead after %d attempts.
To see the partners without the console, run in a second terminal:

billbridge rollout status --admin http://%s

`, d.urls[0], d.urls[1], len(d.partners), addressList(server), c.Rollout.Settle, c.Rollout.Verdict.Comparisons, len(c.Callbacks.Schedule), server.AdminAddress())
}
