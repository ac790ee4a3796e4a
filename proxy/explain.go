package proxy

import (
	"bytes"
	"context"
	"strings"
	"time"

	"billbridge/proxy/rollout"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// finding is what an upstream said to a read, in the caller's form.
type finding struct {
	status int
	code   string // in the catalogue's form
	body   []byte
	state  string // of a bill that was found
	means  string // what the state means by the table
	amount string // of a bill that was found
}

// explain says what a read shows of a bill after a write that has no answer. It never says that the bill does not
// exist: a write that is late may still come to take effect.
func (x *exchange) explain() string {
	operation, within := x.route.operation, time.Duration(x.state.config.Failures.Explain)
	if !billing.AboutBill(operation) || x.call == nil {
		return ""
	}
	count := func(shown string) { x.gateway.metrics.unknownOutcomes.WithLabelValues(operation.Name, shown).Inc() }
	said := billing.IdentityOf(x.call)
	if said.Partner == "" || said.Bill == "" || within == 0 || x.state.read == nil || !operation.Explain {
		count(notAsked)
		return ""
	}
	// The caller may have gone; the result is logged in any case.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), within)
	defer cancel()
	found, shown := x.ask(ctx, x.target.upstream.config.Name, said)
	count(shownWords[found])
	x.decided.shown = &rollout.Shown{Finding: found, State: shown.state, Ended: billing.Final(shown.means), Amount: shown.amount}
	switch {
	case found == rollout.Present:
		if shown.amount != "" && len(shown.amount) <= 20 && strings.Trim(shown.amount, "0123456789") == "" {
			return " A read just now shows the bill in state " + shown.state + ", amount " + shown.amount + "."
		}
		return " A read just now shows the bill in state " + shown.state + "."
	case found == rollout.Absent:
		return " A read just now does not show the bill yet."
	}
	return " A read just now did not tell."
}

// ask reads a bill at an upstream, as the partner would.
func (x *exchange) ask(ctx context.Context, upstream string, said billing.Identity) (rollout.ProbeResult, finding) {
	s := x.state
	read := s.reads[x.client][upstream]
	if read == nil {
		return rollout.Unclear, finding{}
	}
	call := read.translation.Start()
	defer call.Release()
	question, err := s.read.Compose(nil, x.client, said.Values())
	if err != nil {
		return rollout.Unclear, finding{}
	}
	body, err := call.Request(nil, question)
	if err != nil {
		return rollout.Unclear, finding{}
	}
	reply := new(bytes.Buffer)
	asking := newPayload(body)
	asking.partner = said.Partner
	response, err := read.upstream.post(ctx, read.url, x.id, asking, reply, int64(s.config.Limits.Reply))
	if err != nil {
		return rollout.Unclear, finding{}
	}
	answer, err := call.Reply(nil, response.StatusCode, reply.Bytes())
	if err != nil {
		return rollout.Unclear, finding{}
	}
	table := s.config.Table
	form := read.upstream.config.Form
	found := rollout.Unclear
	switch {
	case call.Succeeded() && call.ReplyValue(billing.State) == "": // it shows no bill
	case call.Succeeded():
		return rollout.Present, finding{
			state: strings.Clone(call.ReplyValue(billing.State)), means: call.ReplyMeaning(billing.State), amount: strings.Clone(call.ReplyValue(billing.Amount)),
		}
	case table.Means(form, call.Code(), translate.NotFound):
		found = rollout.Absent
	// Such a refusal says nothing of the bill. A caller whom both backends refuse so gets that refusal for every operation: it is
	// permanent, and must not look like maintenance.
	case table.Means(form, call.Code(), translate.CallerRefused, translate.Malformed):
		found = rollout.Refusing
	}
	if s.config.Failures.MaskHosts {
		answer = maskHosts(answer, table.TextName(x.client))
	}
	return found, finding{status: response.StatusCode, code: table.Code(call.Code(), form, table.Forms()[0]), body: answer}
}
