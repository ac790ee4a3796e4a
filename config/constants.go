package config

import "time"

// SendWithin is the time after which a write is not sent: a caller that gave up may create the bill again.
const SendWithin = 3 * time.Second

// setConstants sets the fields that no file can set. Tests change them afterwards.
func (c *Config) setConstants() {
	// A partner's program sends and reads at once. The times are those of a slow line, not of a person.
	c.Timeouts = Timeouts{
		Header: 5 * time.Second, Body: 30 * time.Second, Write: 30 * time.Second, Idle: 2 * time.Minute,
	}

	// Within the open files and the memory of a small machine. One source address cannot use up the connections.
	c.Limits.InFlight, c.Limits.Connections, c.Limits.AddressConnections = 10_000, 10_000, 1000
	c.Limits.Reads = 10                                         // they are load for the backends
	c.Limits.Partner.Burst = max(1, int(c.Limits.Partner.Rate)) // the calls of one second

	// A killed process loses the lines of this time. The buffer holds those of a busy gateway.
	c.Log.Flush, c.Log.Buffer = 100*time.Millisecond, 64<<10

	// A PostgreSQL server that starts together with the gateway is there within a minute.
	c.Store.Wait = time.Minute

	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Wait = 2 * time.Second                       // nothing was sent: the caller can repeat the call soon
		u.PartnerConnections = max(1, u.Connections/4) // one partner whose calls hang leaves connections to the others
	}
	if c.Callbacks != nil {
		c.Callbacks.setConstants()
	}
	if c.Rollout != nil {
		c.Rollout.setConstants(c.Upstreams)
	}
}

func (b *Callbacks) setConstants() {
	b.Jitter = 0.1                     // attempts that failed together come apart
	b.AtOnce, b.PerHost = 256, 4       // a slow receiver holds few of the attempts
	b.Window = 25 * time.Hour          // backends repeat a callback for a day
	b.KeepBodies = 7 * 24 * time.Hour  // for a replay; a body has personal data
	b.Retention = 400 * 24 * time.Hour // a bill can be cancelled for a year
	if b.Reconcile != nil {
		b.Reconcile.After = 30 * time.Minute // two reads this far apart show that a callback is missing
		b.Reconcile.Every = 6 * time.Hour    // reads are load for the backend
	}
}

func (r *Rollout) setConstants(upstreams Upstreams) {
	r.ProbeTimeout, r.SendWithin = 3*time.Second, SendWithin // the caller waits for both
	r.Keep = 2 * 365 * 24 * time.Hour                        // a paid bill may be cancelled after its last day

	// Partners' calls need the connections of both upstreams, too. A comparison takes at most 256KiB.
	r.Shadow.InFlight = 32
	for _, name := range r.Backends() {
		if u := upstreams.Find(name); u != nil {
			r.Shadow.InFlight = max(1, min(r.Shadow.InFlight, u.Connections/2))
		}
	}
	// Many comparisons of one bill prove little, and neither do comparisons of which many have no answer.
	r.Verdict.Bills, r.Verdict.Unclear = 30, 0.05
}
