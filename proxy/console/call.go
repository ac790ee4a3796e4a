package console

import (
	"net/http"
	"time"

	"billbridge/proxy"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A callPage is the data of the page call.
type callPage struct {
	callRow
	Write    bool // the operation changes something
	Steps    []callStep
	Messages []callMessage
	Line     string // of the access log
}

// A callStep is a part of the time that a call took.
type callStep struct {
	Name       string // the end of the key of a text
	Took       time.Duration
	From, Wide float64 // in percent of the whole time
}

// A callMessage is the request of the caller, or the reply of the upstream.
type callMessage struct {
	Name   string // request or reply
	Size   int
	Status int // HTTP, of a reply
	From   translate.Form
	To     translate.Form
	Kept   bool
	Fields []translate.ExplainedField
	More   int // fields that are not shown
}

// oneCall shows one call: what happened, what became of each field, and its line of the log.
func (c *Console) oneCall(r *http.Request) (a answer, err error) {
	found := c.ring.find(r.PathValue("key"))
	if found == nil {
		return a, refusal{http.StatusNotFound, "call.gone"}
	}
	page := callPage{callRow: rowOf(found), Steps: stepsOf(&found.Finished), Messages: messagesOf(&found.Finished)}
	if t := found.Translation; t != nil {
		page.Write = t.Operation().Effect == translate.Write
	}
	found.Finished.Bill = page.Bill
	page.Line = found.Line()
	return show("call", page)
}

// stepsOf returns the parts of the time of a call. The gateway works before and after the call of the upstream; the
// parts of that are not known.
func stepsOf(f *proxy.Finished) []callStep {
	gateway := max(f.Took-f.BodyTook-f.UpstreamTook, 0)
	steps := []callStep{
		{Name: "request", Took: f.BodyTook},
		{Name: "gateway", Took: gateway},
		{Name: "upstream", Took: f.UpstreamTook},
	}
	at := 0.0
	for i := range steps {
		s := &steps[i]
		s.From, s.Wide = at, 100*float64(s.Took)/float64(max(f.BodyTook+gateway+f.UpstreamTook, 1))
		at += s.Wide
	}
	return steps
}

// messagesOf explains the messages of a call, with values that may be shown only.
func messagesOf(f *proxy.Finished) []callMessage {
	if f.Translation == nil || f.RequestSize == 0 {
		return nil
	}
	request := callMessage{Name: "request", Size: f.RequestSize, From: f.Client, To: f.Form, Kept: f.Request != nil}
	if request.Kept {
		request.explain(f.Translation.ExplainRequest(f.Request))
	}
	if f.ReplyStatus == 0 {
		return []callMessage{request}
	}
	reply := callMessage{
		Name: "reply", Size: f.ReplySize, Status: f.ReplyStatus,
		From: f.Form, To: f.Client, Kept: f.Reply != nil || f.ReplySize == 0,
	}
	if reply.Kept {
		reply.explain(f.Translation.ExplainReply(f.Request, f.ReplyStatus, f.Reply))
	}
	return []callMessage{request, reply}
}

// explain takes the fields of an explanation.
func (m *callMessage) explain(e *translate.Explanation) { m.Fields, m.More = billing.Mask(e), e.More }
