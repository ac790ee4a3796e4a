package translate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// This is the one file that touches jsontext, whose API is not frozen.

// checkJSON is the gate before anything is read from a message: depth, UTF-8, JSON, duplicate names. Depth comes
// first and without recursion, since every parser behind it recurses.
func checkJSON(doc []byte, depth int) *fault {
	if at := tooDeepAt(doc, depth); at >= 0 {
		return &fault{reason: fmt.Sprintf("nested deeper than %d levels at byte %d", depth, at)}
	}
	if jsontext.Value(doc).IsValid() {
		return nil
	}
	return findFault(doc)
}

// A fault is why a document is not one that we read, and where.
type fault struct{ field, reason string }

// findFault reads an invalid document again, slower, for the place of the mistake.
func findFault(doc []byte) *fault {
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	_, err := d.ReadValue()
	if err == nil {
		return &fault{reason: fmt.Sprintf("not one JSON document: more follows at byte %d", d.InputOffset())}
	}
	if len(bytes.TrimSpace(doc)) == 0 {
		return &fault{reason: "empty, but must be a JSON object"}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &fault{reason: "not JSON"}
	}
	field := strings.ReplaceAll(strings.TrimPrefix(string(syntax.JSONPointer), "/"), "/", ".")
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &fault{field: shorten(field), reason: "this name stands twice"}
	}
	return &fault{field: shorten(field), reason: fmt.Sprintf("not JSON at byte %d", syntax.ByteOffset)}
}

// tooDeepAt is the offset of the bracket that opens a level beyond depth, or -1. It reads any bytes, JSON or not.
func tooDeepAt(doc []byte, depth int) int {
	// A body with no more brackets than levels, which is nearly every one, is settled at the speed of Count.
	if bytes.Count(doc, []byte{'{'})+bytes.Count(doc, []byte{'['}) <= depth {
		return -1
	}
	level, quoted := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if level++; level > depth {
				return i
			}
		case c == '}' || c == ']':
			level--
		}
	}
	return -1
}

// shorten keeps a name from a message fit for a sentence.
func shorten(name string) string {
	const most = 60
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// appendString writes text as a JSON string. Text that is not UTF-8 loses what is not.
func appendString(dst []byte, text string) []byte {
	out, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		out, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(text, ""))
	}
	return out
}

// isJSONGrammar tells whether doc is JSON by its grammar, whatever its names and its text hold.
func isJSONGrammar(doc []byte) bool {
	return jsontext.Value(doc).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// canonicalDepth is beyond what a gateway reads, and bounds the work on what it did not.
const canonicalDepth = 1000

// Canonical appends the canonical form of a JSON document to dst: members in the order of RFC 8785, no white space,
// one spelling for each string. Two documents that differ in nothing else have the same one, so that it tells
// whether a callback is one that came before. Unlike in RFC 8785 a number keeps its text: money is never
// re-printed, and 100 and 1e2 may well be two messages. What is not JSON comes back as src itself, and so does what
// has a name twice, text that is not UTF-8, or more than a thousand levels.
func Canonical(dst, src []byte) []byte {
	if tooDeepAt(src, canonicalDepth) >= 0 || !jsontext.Value(src).IsValid() {
		return src
	}
	out, err := jsontext.AppendFormat(dst, src, jsontext.ReorderRawObjects(true))
	if err != nil {
		return src
	}
	return out
}
