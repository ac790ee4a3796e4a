package billing

import "billbridge/translate"

// Says is what the reply to a call says for certain. Calls, probes, comparisons and reads of operators all decide by
// it.
type Says int

// What a reply can say.
const (
	NoReply       Says = iota // there is none, or it was unusable
	Nothing                   // nothing for certain: a failure, no meaning, or a status that contradicts the code
	Done                      // a success. A read of a bill shows the bill.
	NotFound                  // there is no such bill
	Exists                    // a bill with this id exists
	Refused                   // the content of the request was refused; nothing was done
	CallerRefused             // the caller, or the format, was refused, whatever the bill; nothing was done
)

func (s Says) String() string {
	return [...]string{"no reply", "nothing", "done", "not found", "exists", "refused", "caller refused"}[s]
}

// SaysOf returns what the last reply of a call, which came with an HTTP status, says. A success needs a status 2xx,
// and any other code a status below 500: a proxy that failed may send what it has from an earlier reply.
func SaysOf(c *translate.Call, status int) Says {
	o := c.Operation()
	// Without a state the reply to a read shows no bill.
	stateless := o.Effect == translate.Read && c.ReplyValue(State) == "" && o.HasRole(translate.Reply, State)
	switch {
	case c.Code() == "":
		return NoReply
	case c.Succeeded() && status/100 == 2 && !stateless:
		return Done
	case c.Succeeded() || status >= 500:
		return Nothing
	case !Creates(o) && c.Means(translate.NotFound): // to a create it says nothing
		return NotFound
	case c.Means(translate.Exists):
		return Exists
	case c.Means(translate.Refused):
		return Refused
	case c.Means(translate.CallerRefused, translate.Malformed):
		return CallerRefused
	}
	return Nothing
}
