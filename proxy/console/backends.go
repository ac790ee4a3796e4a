package console

import (
	"time"

	"billbridge/proxy"
	"billbridge/proxy/operate"
)

// A backend is an upstream on the overview, in one line.
type backend struct {
	proxy.UpstreamStatus
	summary               // its calls
	Out     time.Duration // how long its outage lasts; 0 if there is none
	Ended   bool          // its last outage ended lately
}

// endedLately is how long the overview shows an outage that has ended.
const endedLately = time.Hour

// backends returns the upstreams, those of an outage first.
func (c *Console) backends() (out []backend) {
	var answering []backend
	now, calls := c.Now(), c.windows[0].byUpstream(c.Now())
	for _, u := range c.Gateway.Upstreams() {
		one := backend{UpstreamStatus: u, summary: calls[u.Name]}
		if u.Outage == nil {
			one.Ended = u.Last != nil && now.Sub(u.Last.Until) < endedLately
			answering = append(answering, one)
			continue
		}
		one.Out = max(now.Sub(u.Outage.Since), time.Second)
		out = append(out, one)
	}
	return append(out, answering...)
}

// Lasted is how long the last outage lasted.
func (b backend) Lasted() time.Duration { return b.Last.Until.Sub(b.Last.Since) }

// A killSwitch is what the overview says of it.
type killSwitch string

const (
	noSwitch     killSwitch = ""       // there is no rollout, or its state is not known
	switchOff    killSwitch = "off"    // and nothing says that it is needed
	switchNeeded killSwitch = "needed" // the new backend gives no answer
	switchOn     killSwitch = "on"
)

// switchOf returns whether the kill switch is on, or needed.
func switchOf(rollout *operate.Status, backends []backend) killSwitch {
	if rollout == nil {
		return noSwitch
	}
	if rollout.Stopped != nil {
		return switchOn
	}
	for _, b := range backends {
		if b.Name == rollout.New && b.Out > 0 {
			return switchNeeded
		}
	}
	return switchOff
}
