package translate

// A Refusal is the error of a request that cannot be translated. Nothing of the request may be sent.
type Refusal struct {
	Code   string // a code of the catalogue
	Field  string // path in the client's form; "" for the whole document
	Reason Detail // never has the value of a field; it can have names of the client

	of value // that is refused; an explanation finds it by its place, and nothing prints it
}

// refusal returns a refusal with the code for all that has no code of its own.
func (t *Table) refusal(field string, reason Detail) *Refusal {
	return &Refusal{Code: t.invalid, Field: field, Reason: reason}
}

func (r *Refusal) Error() string {
	if r.Field == "" {
		return r.Code + ": " + r.Reason.String()
	}
	return r.Code + " " + r.Field + ": " + r.Reason.String()
}

// An UnusableReply is the error of a reply without a readable code, or of a success that belongs to another call. The
// outcome of the call is unknown.
type UnusableReply struct {
	Reason string
	Field  string // of a success that belongs to another call: the path of the field that differs from the request

	of value // that makes the reply unusable
}

func (u *UnusableReply) Error() string { return "unusable reply: " + u.Reason }

// A Report lists what a translation changed, besides names and types. Fields are paths of the table.
type Report struct {
	Dropped    []string // in the source form; also words for which `otherwise` wrote null
	Defaulted  []string // in the target form
	Echoed     []string // in the target form
	Mismatched []string // in the source form: values that did not fit, or differ from the request, and missing fields
	Unknown    int      // the number of dropped fields without a row

	// Mismatches has, for each of Mismatched, what is wrong with it, without the value.
	Mismatches []Detail

	// UnknownNames are the first names of the Unknown fields. The sender chose them: they must not be logged or
	// become a metric.
	UnknownNames []string
}

// NoPlace begins the formats of the reasons that a request is refused for because the upstream's form lacks something.
const NoPlace = "%v has no place for it"

// What is wrong with a field of a reply or a callback, besides what a request is refused for.
const (
	IsMissing    = "is missing"
	noPair       = "has a value without a pair"
	notOfRequest = "is not the value of the request"
	wrongText    = "has the wrong type: want text, got %v"
)

// report reports what became of a field, and explains it if the message is explained.
func (c *Call) report(o Outcome, path string, v value, wrong Detail) {
	r := &c.Report
	list, output := &r.Dropped, false
	switch o {
	case OutcomePassed:
		list = &r.Mismatched
	case OutcomeDefaulted:
		list, output = &r.Defaulted, true
	case OutcomeEchoed:
		list, output = &r.Echoed, true
	}
	if len(c.within) == 0 || len(*list) < maxReported {
		if *list = append(*list, c.pathIn(path, output)); o == OutcomePassed {
			r.Mismatches = append(r.Mismatches, wrong)
		}
	}
	if reason := "the other form has no place for it"; c.trace != nil {
		if o == OutcomePassed {
			reason = wrong.String()
		}
		c.trace.decide(v, o, reason)
	}
}

// maxUnknownNames limits the memory that a message with many unknown fields can use.
const maxUnknownNames = 16

func (r *Report) reset() {
	clear(r.UnknownNames) // so that the strings can be freed
	*r = Report{
		Dropped: r.Dropped[:0], Defaulted: r.Defaulted[:0], Echoed: r.Echoed[:0], Mismatched: r.Mismatched[:0],
		Mismatches: r.Mismatches[:0], UnknownNames: r.UnknownNames[:0],
	}
}

func joinPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}
