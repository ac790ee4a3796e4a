package translate

import "strings"

// A Refusal is a request that cannot be carried to the other form. Nothing of it may be sent.
type Refusal struct {
	Code   string // a code of the catalogue
	Field  string // path in the client's form, "" when it is the whole document
	Reason string // for the client's eyes: it may quote the value
}

func (r *Refusal) Error() string {
	if r.Field == "" {
		return r.Code + ": " + r.Reason
	}
	return r.Code + " " + r.Field + ": " + r.Reason
}

// UnusableReply is a reply that no readable code can be taken from: the outcome of the call is unknown.
type UnusableReply struct {
	Reason string
	Field  string // of a success that belongs to another call: where it names something else than was asked for, by its path
}

func (n *UnusableReply) Error() string { return "not an answer: " + n.Reason }

// A Report is what a translation changed besides names and types. Fields are paths of the table.
type Report struct {
	Dropped    []string // of the form that the message came in
	Defaulted  []string // of the form that it went to
	Echoed     []string // of the form that it went to
	Mismatched []string // of the form that it came in: values that did not fit, and fields that are missing
	Unknown    int      // fields that no row names and that were dropped

	// UnknownNames are the first names behind Unknown. They are the sender's words: not for a metric or a log.
	UnknownNames []string
}

// maxUnknownNames bounds what a message full of unknown fields can make us keep.
const maxUnknownNames = 16

func (r *Report) reset() {
	r.Dropped, r.Defaulted, r.Echoed, r.Mismatched = r.Dropped[:0], r.Defaulted[:0], r.Echoed[:0], r.Mismatched[:0]
	clear(r.UnknownNames) // parts of a message, which they would keep from being freed
	r.Unknown, r.UnknownNames = 0, r.UnknownNames[:0]
}

func (r *Report) unknown(parent, name string) {
	r.Unknown++
	if len(r.UnknownNames) < maxUnknownNames {
		r.UnknownNames = append(r.UnknownNames, strings.Clone(shorten(joinPath(parent, name))))
	}
}

func joinPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}
