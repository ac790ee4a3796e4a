package proxy

import (
	"context"

	"billbridge/proxy/accesslog"
	"billbridge/translate"
)

// limitSending sets until when a write may be sent: while its caller is connected and, during a rollout or if it
// waited in the socket, for SendWithin (CONTRIBUTING.md, S1 and S2). release stops the
// timer.
func (x *exchange) limitSending() (release context.CancelFunc) {
	if x.route.operation.Effect != translate.Write {
		return func() {}
	}
	x.in.sendCtx = x.r.Context()
	if x.route.targets == nil && !x.in.waited {
		return func() {}
	}
	x.in.sendCtx, release = context.WithDeadline(x.in.sendCtx, x.in.at.Add(x.state.sendWithin))
	return release
}

// tooLate returns why a write must not be sent any more, or nil. A caller that gave up may send the bill again, and
// while nobody reads the log an unknown outcome would be in none.
func (x *exchange) tooLate() error {
	if x.in.sendCtx == nil || x.in.sendCtx.Err() == nil && !accesslog.Unread(x.gateway.log) {
		return nil
	}
	return x.notSent()
}

// notSent returns why a write was not sent: its caller has gone, nobody reads the log, or it arrived too long ago.
func (x *exchange) notSent() error {
	switch {
	case x.r.Context().Err() != nil:
		return notSent.because(callerGone).with("nothing_sent")
	case x.in.sendCtx.Err() == nil:
		return logUnread.with("not_sent")
	}
	reason := "rollout: too late"
	if x.route.targets == nil {
		reason = "too late"
	}
	return notSent.because(reason).with("not_sent")
}
