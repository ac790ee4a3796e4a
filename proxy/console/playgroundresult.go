package console

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"billbridge/translate"
)

// The most that a result shows.
const (
	maxResultFields = 500
	maxResultValue  = 200      // characters of a value
	maxResultOutput = 64 << 10 // bytes of the output
)

// A playgroundResult is what became of a document.
type playgroundResult struct {
	Problem string // a key of text/: nothing was translated

	OfRequest bool // Refused is about the request of the reply
	Refused   *playgroundRefusal
	Output    string
	Fields    []translate.ExplainedField // with values that fit on the page
	More      int                        // the number of fields that are not shown
	Missing   []string                   // fields that a success should have

	Recognised translate.Recognition // of a callback
}

// A playgroundRefusal is a refusal with its place.
type playgroundRefusal struct {
	translate.ExplainedField
	Line, Column     int    // 0 if the document does not have the field
	Head, Mark, Tail string // the line of the place: up to it, the value or the character that is wrong, and behind it
}

// translate translates the document. Without a document there is no result.
func (p *playgroundPage) translate() *playgroundResult {
	result := &playgroundResult{}
	switch status, err := strconv.Atoi(p.Status); {
	case len(p.Document) > maxDocument || len(p.Request) > maxDocument:
		result.Problem = "playground.too_large"
	case err != nil || status < 100 || status > 599:
		result.Problem = "playground.bad_status"
	case strings.TrimSpace(p.Document) == "":
		return nil
	default:
		result.explain(p)
	}
	return result
}

// explain fills in what became of the document.
func (r *playgroundResult) explain(p *playgroundPage) {
	doc := []byte(p.Document)
	switch translation, callback := p.translation(), p.callback(); {
	case callback != nil:
		r.show(doc, callback.Explain(doc, p.From, p.To))
	case p.Table.Operation(p.Operation) == nil:
		r.Problem = "playground.no_operation"
	case translation == nil:
		r.Problem = "playground.no_direction"
	case !p.Reply():
		r.show(doc, translation.ExplainRequest(doc))
	default:
		var request []byte
		if strings.TrimSpace(p.Request) != "" {
			request = []byte(p.Request)
			if e := translation.ExplainRequest(request); e.Err != nil {
				r.OfRequest = true
				r.show(request, e)
				return
			}
		}
		status, _ := strconv.Atoi(p.Status) // has been checked
		r.show(doc, translation.ExplainReply(request, status, doc))
	}
}

// show takes an explanation.
func (r *playgroundResult) show(doc []byte, e *translate.Explanation) {
	r.Recognised, r.Output, r.More = e.Recognised, cut(pretty(e.Output), maxResultOutput), e.More
	for _, f := range e.Fields {
		if f.Outcome == translate.OutcomeRefused {
			r.Refused = newPlaygroundRefusal(doc, f)
		}
		if len(r.Fields) == maxResultFields {
			r.More++
			continue
		}
		f.Before, f.After = cut(f.Before, maxResultValue), cut(f.After, maxResultValue)
		r.Fields = append(r.Fields, f)
	}
	for i, path := range e.Report.Mismatched {
		if e.Report.Mismatches[i].Format == translate.IsMissing {
			r.Missing = append(r.Missing, path)
		}
	}
}

// excerpt is the number of characters that are shown of a line before and behind the place of a refusal.
const excerpt = 40

// newPlaygroundRefusal finds the place of a refusal.
func newPlaygroundRefusal(doc []byte, f translate.ExplainedField) *playgroundRefusal {
	refused := &playgroundRefusal{ExplainedField: f}
	if f.Offset < 0 {
		return refused
	}
	begin := bytes.LastIndexByte(doc[:f.Offset], '\n') + 1
	before, behind := []rune(string(doc[begin:f.Offset])), doc[f.Offset:]
	refused.Line, refused.Column = 1+bytes.Count(doc[:begin], []byte{'\n'}), 1+len(before)
	if end := bytes.IndexByte(behind, '\n'); end >= 0 {
		behind = behind[:end]
	}
	refused.Head = string(before[max(0, len(before)-excerpt):])
	_, size := utf8.DecodeRune(behind)
	size = min(max(size, len(f.Before)), len(behind))
	refused.Mark, refused.Tail = cut(string(behind[:size]), excerpt), cut(string(behind[size:]), excerpt)
	return refused
}

// cut returns at most n bytes of a text, and marks what is missing.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// pretty returns JSON with indents, and anything else unchanged, also what would not be shown whole: indents can make
// it many times as long.
func pretty(doc []byte) string {
	var out bytes.Buffer
	if len(doc) > maxResultOutput || json.Indent(&out, doc, "", "  ") != nil {
		return string(doc)
	}
	return out.String()
}
